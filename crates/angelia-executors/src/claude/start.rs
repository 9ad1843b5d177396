//! Starts the program for a specification and waits for the response to its first request.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{Failure, FailureKind, Mode, RawJson, SessionSpec},
    ports::BoxFuture,
    redact::Redactor,
};
use angelia_wire::ndjson::Frame;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{
    account::Account,
    caller_tools::CallerTools,
    launch::{self, Conversation},
    program::{Installation, Program},
    protocol::outgoing::{self, Request},
    translate::{Ask, Context, ControlAsk, Signal, Translator},
};
use crate::{
    host::Host,
    link::Link,
    pool::Warm,
    process::{Launch, Mark, spawn},
};

/// How long a program may take to answer its first request. After that it is stuck.
const START_LIMIT: Duration = Duration::from_mins(1);

/// The grace period for closing a process that had no turn.
const UNUSED_GRACE: Duration = Duration::from_secs(2);

const FIRST_REQUEST: &str = "angelia-first";

/// Why a program could not be started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The program does not have the conversation that it should resume.
    ConversationLost,
    Failed(Failure),
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A running program that has not had a turn yet.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) link: Link,
    /// The raw response to `initialize`; `None` if the program has not been initialised.
    pub(crate) greeting: Option<Vec<u8>>,
}

impl Warm for Started {
    fn is_alive(&mut self) -> bool {
        self.link.is_open()
    }

    fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(self.link.close(UNUSED_GRACE))
    }
}

/// Everything needed to start the program. The pool keeps it to start more processes.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) host: Host,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) installation: Arc<Installation>,
    /// Adjusted to the mode by [`launch::effective_spec`].
    pub(crate) spec: Arc<SessionSpec>,
}

impl Recipe {
    pub(crate) async fn new(
        host: &Host,
        program: &Arc<dyn Program>,
        spec: &SessionSpec,
    ) -> Result<Self, Failure> {
        let installation = program.installation(host, spec).await?;
        let spec = launch::effective(spec, &empty_folder(&host.work_dir)).into_owned();
        Ok(Self {
            host: host.clone(),
            program: Arc::clone(program),
            installation,
            spec: Arc::new(spec),
        })
    }

    /// Starts the program and initialises it.
    pub(crate) async fn start(
        &self,
        conversation: Conversation<'_>,
    ) -> Result<Started, NotStarted> {
        let (mut started, _mcp) = self.spawn(conversation).await?;
        started.initialize(&self.spec, &mut self.parts()).await?;
        Ok(started)
    }

    /// Starts a process for the pool and prepares it as far as possible without knowing its turn.
    pub(crate) async fn start_waiting(&self) -> Result<Started, Failure> {
        let conversation = Conversation::New(self.host.clock.fresh_uuid());
        let started = match self.spec.mode {
            Mode::Agent => self.start(conversation).await,
            Mode::Model => self.start_lean(conversation).await,
        };
        started.map_err(|error| match error {
            NotStarted::Failed(failure) => failure,
            NotStarted::ConversationLost => {
                Failure::new(FailureKind::Internal, "a new conversation cannot be lost")
            }
        })
    }

    /// Starts a program without `initialize`, which fixes prompt and tools and so must wait for the
    /// turn. The `mcp_status` request only waits until the program is ready.
    async fn start_lean(&self, conversation: Conversation<'_>) -> Result<Started, NotStarted> {
        let (mut started, _mcp) = self.spawn(conversation).await?;
        started.request(&Request::McpStatus, &mut self.parts()).await?;
        Ok(started)
    }

    /// Spawns the program. The returned file of MCP servers must be kept until the program has
    /// answered a request; by then it has read the file.
    async fn spawn(
        &self,
        conversation: Conversation<'_>,
    ) -> Result<(Started, Option<PrivateFile>), NotStarted> {
        let mark = self.host.fresh_mark()?;
        let variables = launch::variables(&self.spec);
        let environment = (self.host).child_environment(&self.spec, variables, &mark)?;
        self.make_folders().map_err(|error| self.no_folder(&error))?;
        let mcp = self.mcp_config(&mark)?;
        let args = self.program.arguments(
            &self.spec,
            &self.installation,
            conversation,
            mcp.as_ref().map(|file| &*file.0),
        )?;
        let launch = Launch {
            program: self.installation.path.clone(),
            args,
            cwd: self.spec.cwd.clone(),
            env: environment,
            mark,
            ledger: self.host.ledger.clone(),
        };
        let child = spawn(&launch)
            .await
            .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
        tracing::debug!(pid = child.pid(), program = self.program.name(), "started");
        let started = Started { link: Link::new(child), greeting: None };
        Ok((started, mcp))
    }

    fn make_folders(&self) -> io::Result<()> {
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true).mode(0o700);
        folders.create(&self.host.work_dir)?;
        match self.spec.mode {
            Mode::Agent => Ok(()),
            Mode::Model => folders.create(&self.spec.cwd),
        }
    }

    fn no_folder(&self, error: &io::Error) -> Failure {
        let folder = self.host.work_dir.display();
        Failure::new(
            FailureKind::Unavailable,
            format!("the folder {folder} cannot be created: {error}"),
        )
        .with_hint("check its permissions and the free space on the disk")
    }

    fn mcp_config(&self, mark: &Mark) -> Result<Option<PrivateFile>, Failure> {
        if self.spec.mcp_servers.is_empty() {
            return Ok(None);
        }
        let servers: Map<String, Value> = (self.spec.mcp_servers.iter())
            .map(|(name, server)| Ok((name.to_string(), marked(name, server, mark)?)))
            .collect::<Result<_, Failure>>()?;
        let path = (self.host.work_dir).join(format!("mcp-{}.json", mark.agent));
        PrivateFile::write(path, json!({"mcpServers": servers}).to_string().as_bytes())
            .map(Some)
            .map_err(|error| self.no_folder(&error))
    }

    fn parts(&self) -> Handshake<'_> {
        Handshake {
            title: self.program.title(),
            redactor: &self.host.redactor,
            translator: self.translator(false, false, None),
            tools: CallerTools::new(&self.spec.caller_tools),
        }
    }

    pub(crate) fn translator(
        &self,
        resumed: bool,
        warm: bool,
        prefix: Option<Arc<str>>,
    ) -> Translator {
        Translator::new(Context {
            profile: Arc::clone(&self.spec.profile),
            executor: self.program.name().into(),
            resumed,
            warm,
            prefix_sha256: prefix,
            cwd: self.spec.cwd.clone(),
        })
    }
}

/// Adds the mark to a server's own environment, because programs may give an MCP server only a
/// minimal environment.
fn marked(name: &str, server: &RawJson, mark: &Mark) -> Result<Value, Failure> {
    let invalid = || {
        let message = format!("`mcp_servers: {name}` is not a table of settings");
        Failure::new(FailureKind::Invalid, message)
            .with_hint("write it as Claude Code does: command, args, env, or type and url")
    };
    let mut server: Map<String, Value> =
        serde_json::from_str(server.get()).map_err(|_| invalid())?;
    if server.contains_key("command") {
        let (variable, value) = mark.variable();
        server
            .entry("env")
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .ok_or_else(invalid)?
            .insert(variable.to_owned(), value.into());
    }
    Ok(server.into())
}

/// A file that only our user can read; removed when dropped.
#[derive(Debug)]
struct PrivateFile(PathBuf);

impl PrivateFile {
    fn write(path: PathBuf, content: &[u8]) -> io::Result<Self> {
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let this = Self(path);
        file.write_all(content)?;
        Ok(this)
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // If the removal fails, the file is still readable only by our user.
        let _ = fs::remove_file(&self.0);
    }
}

/// The state needed to talk to a program before its first turn.
pub(crate) struct Handshake<'a> {
    pub(crate) title: &'a str,
    pub(crate) redactor: &'a Redactor,
    pub(crate) translator: Translator,
    pub(crate) tools: CallerTools,
}

impl Started {
    /// Sends `initialize`, which fixes prompt and tools, and checks the billing lane before
    /// anything can be spent.
    pub(crate) async fn initialize(
        &mut self,
        spec: &SessionSpec,
        parts: &mut Handshake<'_>,
    ) -> Result<(), NotStarted> {
        let request = Request::Initialize(launch::initialize(spec));
        let (line, answer) = self.request(&request, parts).await?;
        let account = answer.and_then(|answer| {
            let answer: Value = serde_json::from_str(answer.get()).ok()?;
            serde_json::from_value(answer.get("account")?.clone()).ok()
        });
        let account: Account = account.unwrap_or_default();
        account.check(spec.billing)?;
        self.greeting = Some(line);
        Ok(())
    }

    /// Sends one request and waits for its response. Returns the raw line and its payload.
    async fn request(
        &mut self,
        request: &Request<'_>,
        parts: &mut Handshake<'_>,
    ) -> Result<(Vec<u8>, Option<RawJson>), NotStarted> {
        self.link.input.push(outgoing::control_request(FIRST_REQUEST, request));
        let answered = timeout(START_LIMIT, self.answer(parts)).await;
        answered.unwrap_or_else(|_too_late| {
            let message = format!("{} did not answer within {START_LIMIT:?}", parts.title);
            Err(Failure::new(FailureKind::Timeout, message)
                .with_hint("run it by hand in the same directory to see what it waits for")
                .into())
        })
    }

    async fn answer(
        &mut self,
        parts: &mut Handshake<'_>,
    ) -> Result<(Vec<u8>, Option<RawJson>), NotStarted> {
        // Events before the first turn belong to no turn and are discarded.
        let mut nobody = Vec::new();
        loop {
            while let Some(frame) = self.link.output.framer.next() {
                let Frame::Line(line) = frame else { continue };
                nobody.clear();
                match parts.translator.line(line, &mut nobody) {
                    Some(Signal::Answered { request_id, result })
                        if *request_id == *FIRST_REQUEST =>
                    {
                        let line = line.to_vec();
                        return match result {
                            Ok(answer) => Ok((line, answer)),
                            Err(error) => {
                                let message = format!("{} refused to start: {error}", parts.title);
                                Err(Failure::new(FailureKind::Agent, message).into())
                            }
                        };
                    }
                    Some(Signal::Asked(asked)) => {
                        if let Some(answer) = answer_ask(&asked, &mut parts.tools) {
                            self.link.input.push(answer);
                        }
                    }
                    _ => {}
                }
            }
            let Link { input, output, .. } = &mut self.link;
            tokio::select! {
                biased;
                () = input.write(), if input.has_more() => {}
                more = output.read() => if !more { break },
            }
        }
        Err(self.ended_early(parts).await)
    }

    async fn ended_early(&mut self, parts: &Handshake<'_>) -> NotStarted {
        let words = self.link.last_words(parts.redactor).await;
        if words.contains("No conversation found") {
            return NotStarted::ConversationLost;
        }
        let message = format!("{} ended at its start: {words}", parts.title);
        Failure::new(FailureKind::Agent, message)
            .with_hint("`angelia doctor` shows what is installed; run it by hand to see more")
            .into()
    }
}

/// Answers a control request that is not an approval. Returns `None` if the answer comes later.
pub(crate) fn answer_ask(asked: &ControlAsk, tools: &mut CallerTools) -> Option<Vec<u8>> {
    let id = &asked.request_id;
    match &asked.ask {
        Ask::Mcp { server, message } if **server == *super::caller_tools::SERVER => {
            tools.message(id, message)
        }
        Ask::Mcp { server, .. } => {
            Some(outgoing::respond_error(id, &format!("there is no server `{server}`")))
        }
        Ask::Hook { .. } => Some(outgoing::respond_error(id, "there are no hooks here")),
        Ask::Unknown { subtype, .. } => {
            Some(outgoing::respond_error(id, &format!("`{subtype}` is not known here")))
        }
    }
}

/// Returns the empty working directory of model mode.
pub(crate) fn empty_folder(work_dir: &Path) -> PathBuf {
    work_dir.join("model")
}
