//! Executes the agent's requests that were allowed. A slow request does not block the turn: its
//! response is delivered when it is ready.

use std::{collections::BTreeMap, ffi::OsString, io, path::Path, sync::Arc};

use angelia_wire::jsonrpc::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, RpcId};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    files::{FileError, WorkDir},
    request::ClientRequest,
    terminal::{TerminalError, Terminals},
};
use crate::host::ExecutorHost;

/// The maximum number of concurrent reads, writes and waits.
const MAX_JOBS: usize = 64;

/// The response to a request from the agent.
#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) id: RpcId<'static>,
    pub(crate) result: Result<Value, ErrorObject>,
    /// The terminal whose output may have grown, if any.
    pub(crate) terminal: Option<Box<str>>,
}

/// Executes the requests of one agent in its working directory.
#[derive(Debug)]
pub(crate) struct Service {
    root: Arc<WorkDir>,
    terminals: Terminals,
    jobs: JoinSet<ClientResponse>,
}

impl Service {
    pub(crate) fn new(
        host: ExecutorHost,
        environment: BTreeMap<OsString, OsString>,
        cwd: &Path,
    ) -> io::Result<Self> {
        Ok(Self {
            root: Arc::new(WorkDir::open(cwd)?),
            terminals: Terminals::new(host, environment),
            jobs: JoinSet::new(),
        })
    }

    /// Returns the working directory without symbolic links.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Starts a request. Returns `None` if it is still running; [`Self::next_response`] then
    /// returns its response.
    pub(crate) async fn start(
        &mut self,
        id: RpcId<'static>,
        wish: ClientRequest,
    ) -> Option<ClientResponse> {
        let mut terminal = None;
        let result = match wish {
            ClientRequest::Read { .. } | ClientRequest::Write { .. } | ClientRequest::Wait(_)
                if self.jobs.len() >= MAX_JOBS =>
            {
                Err(ErrorObject::new(INTERNAL_ERROR, "too many requests at once; try again"))
            }
            ClientRequest::Read { path, line, lines } => {
                let root = Arc::clone(&self.root);
                self.spawn_file_job(id, move || {
                    let text = root.read(&path, line, lines)?;
                    Ok(json!({"content": text}))
                });
                return None;
            }
            ClientRequest::Write { path, text } => {
                let root = Arc::clone(&self.root);
                self.spawn_file_job(id, move || {
                    root.write(&path, &text)?;
                    Ok(json!({}))
                });
                return None;
            }
            ClientRequest::Run(program) => match self.root.resolve_folder(&program.cwd) {
                Err(error) => Err(file_error_object(&error)),
                Ok(folder) => map_terminal_error(self.terminals.run(&program, folder).await),
            },
            ClientRequest::Output(name) => {
                let result = map_terminal_error(self.terminals.output(&name));
                terminal = Some(name);
                result
            }
            ClientRequest::Wait(name) => match self.terminals.wait(&name) {
                Err(error) => map_terminal_error(Err(error)),
                Ok(ended) => {
                    self.jobs.spawn(async move {
                        ClientResponse { id, result: Ok(ended.await), terminal: Some(name) }
                    });
                    return None;
                }
            },
            ClientRequest::Kill(name) => {
                let result = map_terminal_error(self.terminals.kill(&name));
                terminal = Some(name);
                result
            }
            ClientRequest::Release(name) => map_terminal_error(self.terminals.release(&name)),
        };
        Some(ClientResponse { id, result, terminal })
    }

    /// Runs a file operation on a blocking thread.
    fn spawn_file_job(
        &mut self,
        id: RpcId<'static>,
        act: impl FnOnce() -> Result<Value, FileError> + Send + 'static,
    ) {
        self.jobs.spawn(async move {
            let done = tokio::task::spawn_blocking(act).await;
            let result = match done {
                Ok(done) => done.map_err(|error| file_error_object(&error)),
                Err(error) => Err(ErrorObject::new(INTERNAL_ERROR, error.to_string())),
            };
            ClientResponse { id, result, terminal: None }
        });
    }

    /// Waits for the next response; waits forever if no request is running. Cancel-safe.
    pub(crate) async fn next_response(&mut self) -> ClientResponse {
        loop {
            match self.jobs.join_next().await {
                Some(Ok(served)) => return served,
                Some(Err(error)) => tracing::error!(%error, "an agent's request failed"),
                None => return std::future::pending().await,
            }
        }
    }

    /// Returns the output of a terminal so far.
    pub(crate) fn terminal_output(&self, terminal: &str) -> Option<String> {
        self.terminals.text(terminal)
    }

    /// Aborts the running requests and stops the terminals.
    pub(crate) async fn close(&mut self) {
        self.jobs.abort_all();
        self.terminals.close().await;
    }
}

fn file_error_object(error: &FileError) -> ErrorObject {
    let code = match error {
        FileError::Outside(_) | FileError::NotAFile(_) | FileError::NotText(_) => INVALID_PARAMS,
        // ACP's own code for a resource that does not exist.
        FileError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => -32002,
        FileError::TooLarge(_) | FileError::Io { .. } => INTERNAL_ERROR,
    };
    ErrorObject::new(code, error.to_string())
}

fn map_terminal_error(result: Result<Value, TerminalError>) -> Result<Value, ErrorObject> {
    result.map_err(|error| {
        let code = match error {
            TerminalError::Unknown(_) => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        ErrorObject::new(code, error.to_string())
    })
}
