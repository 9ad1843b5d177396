//! Carries out the agent's requests that are allowed. A slow request does not block the turn: its
//! response is delivered when it is ready.

use std::{collections::BTreeMap, ffi::OsString, io, path::Path, sync::Arc};

use angelia_wire::jsonrpc::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, Id};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    files::{FileError, Root},
    terminal::{TerminalError, Terminals},
    wish::Wish,
};
use crate::host::Host;

/// Limits the reads, writes and waits that run at once.
const MOST: usize = 64;

/// The response to a request of the agent.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) id: Id<'static>,
    pub(crate) result: Result<Value, ErrorObject<'static>>,
    /// The terminal whose output may have grown, if any.
    pub(crate) terminal: Option<Box<str>>,
}

/// Carries out the requests of one agent in its working directory.
#[derive(Debug)]
pub(crate) struct Service {
    root: Arc<Root>,
    terminals: Terminals,
    jobs: JoinSet<Served>,
}

impl Service {
    pub(crate) fn new(
        host: Host,
        environment: BTreeMap<OsString, OsString>,
        cwd: &Path,
    ) -> io::Result<Self> {
        Ok(Self {
            root: Arc::new(Root::open(cwd)?),
            terminals: Terminals::new(host, environment),
            jobs: JoinSet::new(),
        })
    }

    /// Returns the working directory without symbolic links.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Starts a request. `None`: it is running, and [`Self::next`] will return its response.
    pub(crate) async fn begin(&mut self, id: Id<'static>, wish: Wish) -> Option<Served> {
        let mut terminal = None;
        let result = match wish {
            Wish::Read { .. } | Wish::Write { .. } | Wish::Wait(_) if self.jobs.len() >= MOST => {
                Err(ErrorObject::new(INTERNAL_ERROR, "too many requests at once; try again"))
            }
            Wish::Read { path, line, lines } => {
                let root = Arc::clone(&self.root);
                self.file(id, move || {
                    let text = root.read(&path, line, lines)?;
                    Ok(json!({"content": text}))
                });
                return None;
            }
            Wish::Write { path, text } => {
                let root = Arc::clone(&self.root);
                self.file(id, move || {
                    root.write(&path, &text)?;
                    Ok(json!({}))
                });
                return None;
            }
            Wish::Run(program) => match self.root.folder(&program.cwd) {
                Err(error) => Err(refused(&error)),
                Ok(folder) => not_done(self.terminals.run(&program, folder).await),
            },
            Wish::Output(name) => {
                let result = not_done(self.terminals.output(&name));
                terminal = Some(name);
                result
            }
            Wish::Wait(name) => match self.terminals.wait(&name) {
                Err(error) => not_done(Err(error)),
                Ok(ended) => {
                    self.jobs.spawn(async move {
                        Served { id, result: Ok(ended.await), terminal: Some(name) }
                    });
                    return None;
                }
            },
            Wish::Kill(name) => {
                let result = not_done(self.terminals.kill(&name));
                terminal = Some(name);
                result
            }
            Wish::Release(name) => not_done(self.terminals.release(&name)),
        };
        Some(Served { id, result, terminal })
    }

    /// Runs a file operation on a blocking thread.
    fn file(
        &mut self,
        id: Id<'static>,
        act: impl FnOnce() -> Result<Value, FileError> + Send + 'static,
    ) {
        self.jobs.spawn(async move {
            let done = tokio::task::spawn_blocking(act).await;
            let result = match done {
                Ok(done) => done.map_err(|error| refused(&error)),
                Err(error) => Err(ErrorObject::new(INTERNAL_ERROR, error.to_string())),
            };
            Served { id, result, terminal: None }
        });
    }

    /// Waits for the next response; for ever if no request is running. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Served {
        loop {
            match self.jobs.join_next().await {
                Some(Ok(served)) => return served,
                Some(Err(error)) => tracing::error!(%error, "a request of an agent failed"),
                None => return std::future::pending().await,
            }
        }
    }

    /// Returns the output of a terminal so far.
    pub(crate) fn said(&self, terminal: &str) -> Option<String> {
        self.terminals.text(terminal)
    }

    /// Aborts the running requests and stops the terminals.
    pub(crate) async fn close(&mut self) {
        self.jobs.abort_all();
        self.terminals.close().await;
    }
}

fn refused(error: &FileError) -> ErrorObject<'static> {
    let code = match error {
        FileError::Outside(_) | FileError::NotAFile(_) | FileError::NotText(_) => INVALID_PARAMS,
        // ACP's own code for a resource that does not exist.
        FileError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => -32002,
        FileError::TooLarge(_) | FileError::Io { .. } => INTERNAL_ERROR,
    };
    ErrorObject::new(code, error.to_string())
}

fn not_done(result: Result<Value, TerminalError>) -> Result<Value, ErrorObject<'static>> {
    result.map_err(|error| {
        let code = match error {
            TerminalError::Unknown(_) => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        ErrorObject::new(code, error.to_string())
    })
}
