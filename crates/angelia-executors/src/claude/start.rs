//! Starts the program for a specification and waits for the response to its first request.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{Failure, FailureKind, Mode, RawJson, SessionSpec},
    ports::BoxFuture,
    redact::Redactor,
};
use angelia_wire::ndjson::Frame;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::timeout;

use super::{
    account::ClaudeAccount,
    caller_tools::CallerTools,
    launch::{self, ConversationStart},
    permission,
    program::{ProgramInstallation, StreamProgram},
    protocol::outgoing::{self, ControlCommand},
    translate::{
        CliRequest, CliRequestKind, StreamSignal, StreamTranslator, TranslatorContext,
        control::parse_control,
    },
};
use crate::{
    host::ExecutorHost,
    pool::WarmProcess,
    process::{ProcessLaunch, ProcessMark, spawn},
    process_link::ProcessLink,
};

/// How long a program may take to answer its first request before it counts as stuck.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// The grace period for closing a process that never had a turn.
const UNUSED_GRACE: Duration = Duration::from_secs(2);

const FIRST_REQUEST_ID: &str = "angelia-first";

/// Why a program could not be started.
#[derive(Debug)]
pub(crate) enum ProgramStartError {
    /// The program does not have the conversation that it should resume.
    ConversationLost,
    Failed(Failure),
}

impl ProgramStartError {
    /// Returns the failure of a start that resumed nothing and so could not lose a conversation.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::ConversationLost => {
                Failure::new(FailureKind::Agent, "a new conversation was refused as unknown")
            }
        }
    }
}

impl From<Failure> for ProgramStartError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A running program that has not had a turn yet.
#[derive(Debug)]
pub(crate) struct StartedProgram {
    pub(crate) link: ProcessLink,
    /// The response to `initialize`; `None` if the program has not been initialised.
    pub(crate) initialize_response: Option<RawJson>,
}

impl WarmProcess for StartedProgram {
    fn is_alive(&mut self) -> bool {
        self.link.is_open()
    }

    fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(self.link.close(UNUSED_GRACE))
    }
}

/// Everything needed to start the program. The pool keeps it to start more processes.
#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    pub(crate) host: ExecutorHost,
    pub(crate) program: Arc<dyn StreamProgram>,
    pub(crate) installation: Arc<ProgramInstallation>,
    /// Adjusted to the mode by [`launch::effective_spec`].
    pub(crate) spec: Arc<SessionSpec>,
}

impl LaunchPlan {
    pub(crate) async fn new(
        host: &ExecutorHost,
        program: &Arc<dyn StreamProgram>,
        spec: &SessionSpec,
    ) -> Result<Self, Failure> {
        let installation = program.installation(host, spec).await?;
        let spec = launch::effective_spec(spec).into_owned();
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
        conversation: ConversationStart<'_>,
    ) -> Result<StartedProgram, ProgramStartError> {
        let (mut started, _mcp) = self.spawn(conversation).await?;
        started.initialize(&self.spec, &mut self.handshake()).await?;
        Ok(started)
    }

    /// Starts a process for the pool and prepares it as far as possible without knowing its turn.
    pub(crate) async fn start_for_pool(&self) -> Result<StartedProgram, Failure> {
        let conversation = ConversationStart::New(self.host.clock.fresh_uuid());
        let started = match self.spec.mode {
            Mode::Agent => self.start(conversation).await,
            Mode::Model => self.start_uninitialized(conversation).await,
        };
        started.map_err(ProgramStartError::into_failure)
    }

    /// Starts a program without `initialize`, which fixes the prompt and the tools and so must wait
    /// for the turn. The `mcp_status` request only waits until the program is ready.
    async fn start_uninitialized(
        &self,
        conversation: ConversationStart<'_>,
    ) -> Result<StartedProgram, ProgramStartError> {
        let (mut started, _mcp) = self.spawn(conversation).await?;
        started.send_request(&ControlCommand::McpStatus, &mut self.handshake()).await?;
        Ok(started)
    }

    /// Spawns the program. Keep the returned file of MCP servers until the program has answered a
    /// request, because by then it has read the file.
    async fn spawn(
        &self,
        conversation: ConversationStart<'_>,
    ) -> Result<(StartedProgram, Option<PrivateFile>), ProgramStartError> {
        let mark = self.host.fresh_mark()?;
        self.make_work_dir().map_err(|error| self.folder_failure(&error))?;
        let mcp = self.write_mcp_config(&mark)?;
        let args = self.program.arguments(
            &self.spec,
            &self.installation,
            conversation,
            mcp.as_ref().map(|file| &*file.0),
        )?;
        let environment = self.program.environment(&self.host, &self.spec, &mark)?;
        let launch = ProcessLaunch {
            program: self.installation.path.clone(),
            args,
            cwd: self.spec.cwd.clone(),
            env: environment.variables,
            mark,
            ledger: self.host.ledger.clone(),
        };
        let launch = match environment.confinement {
            Some(confinement) => confinement.apply(&self.host.current_exe, launch),
            None => launch,
        };
        let child = spawn(&launch)
            .await
            .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
        tracing::debug!(pid = child.pid(), program = self.program.name(), "started");
        let started = StartedProgram {
            link: ProcessLink::new(child, self.host.wire_log.as_ref()),
            initialize_response: None,
        };
        Ok((started, mcp))
    }

    fn make_work_dir(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.host.work_dir)
    }

    fn folder_failure(&self, error: &io::Error) -> Failure {
        let folder = self.host.work_dir.display();
        Failure::new(
            FailureKind::Unavailable,
            format!("the folder {folder} cannot be created: {error}"),
        )
        .with_hint("check its permissions and the free space on the disk")
    }

    fn write_mcp_config(&self, mark: &ProcessMark) -> Result<Option<PrivateFile>, Failure> {
        if self.spec.mcp_servers.is_empty() {
            return Ok(None);
        }
        let servers: Map<String, Value> = (self.spec.mcp_servers.iter())
            .map(|(name, server)| Ok((name.to_string(), add_mark(name, server, mark)?)))
            .collect::<Result<_, Failure>>()?;
        let path = (self.host.work_dir).join(format!("mcp-{}.json", mark.agent));
        PrivateFile::write(path, json!({"mcpServers": servers}).to_string().as_bytes())
            .map(Some)
            .map_err(|error| self.folder_failure(&error))
    }

    pub(crate) fn handshake(&self) -> Handshake<'_> {
        Handshake {
            title: self.program.title(),
            redactor: &self.host.redactor,
            tools: CallerTools::new(&self.spec.caller_tools),
        }
    }

    pub(crate) fn translator(
        &self,
        resumed: bool,
        warm: bool,
        prefix: Option<Arc<str>>,
    ) -> StreamTranslator {
        StreamTranslator::new(TranslatorContext {
            profile: Arc::clone(&self.spec.profile),
            executor: self.program.name().into(),
            resumed,
            warm,
            prefix_sha256: prefix,
            cwd: self.spec.cwd.clone(),
            home: self.host.home_of(&self.spec),
            caller_tools: CallerTools::new(&self.spec.caller_tools).model_names().collect(),
        })
    }
}

/// Adds the mark to a server's own environment, because the program may give an MCP server only a
/// minimal environment.
fn add_mark(name: &str, server: &RawJson, mark: &ProcessMark) -> Result<Value, Failure> {
    let invalid = || {
        let message = format!("`mcp_servers: {name}` is not a table of settings");
        Failure::new(FailureKind::Invalid, message)
            .with_hint("write it as Claude Code does: command, args, env, or type and url")
    };
    let mut server: Map<String, Value> =
        serde_json::from_str(server.get()).map_err(|_| invalid())?;
    if server.contains_key("command") {
        let (variable, value) = mark.env_variable();
        server
            .entry("env")
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .ok_or_else(invalid)?
            .insert(variable.to_owned(), value.into());
    }
    Ok(server.into())
}

/// A file that only our user can read; removed on drop.
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

/// What is needed to talk to a program before its first turn.
pub(crate) struct Handshake<'a> {
    title: &'a str,
    redactor: &'a Redactor,
    pub(crate) tools: CallerTools,
}

impl StartedProgram {
    /// Sends `initialize`, which fixes the prompt and the tools, and checks the billing lane before
    /// anything can be spent.
    pub(crate) async fn initialize(
        &mut self,
        spec: &SessionSpec,
        handshake: &mut Handshake<'_>,
    ) -> Result<(), ProgramStartError> {
        let request = ControlCommand::Initialize(launch::build_initialize(spec));
        let response = self.send_request(&request, handshake).await?;
        ClaudeAccount::of_initialize(response.get())
            .unwrap_or_default()
            .check_billing(spec.billing)?;
        self.initialize_response = Some(response);
        Ok(())
    }

    /// Sends a request and waits for its response. Returns the payload, or `null` without one.
    async fn send_request(
        &mut self,
        request: &ControlCommand<'_>,
        handshake: &mut Handshake<'_>,
    ) -> Result<RawJson, ProgramStartError> {
        self.link.input.push(outgoing::control_request(FIRST_REQUEST_ID, request));
        let answered = timeout(START_TIMEOUT, self.read_response(handshake)).await;
        answered.unwrap_or_else(|_too_late| {
            let message = format!("{} did not answer within {START_TIMEOUT:?}", handshake.title);
            Err(Failure::new(FailureKind::Timeout, message)
                .with_hint("run it by hand in the same directory to see what it waits for")
                .into())
        })
    }

    /// Reads up to the response. Answers the program's own requests meanwhile, and ignores its
    /// other lines, which belong to no turn.
    async fn read_response(
        &mut self,
        handshake: &mut Handshake<'_>,
    ) -> Result<RawJson, ProgramStartError> {
        loop {
            while let Some(frame) = self.link.output.framer.next() {
                let Frame::Line(line) = frame else { continue };
                match parse_control(line) {
                    Some(StreamSignal::Response { request_id, result })
                        if *request_id == *FIRST_REQUEST_ID =>
                    {
                        return match result {
                            Ok(payload) => {
                                Ok(payload.unwrap_or_else(|| RawValue::NULL.to_owned().into()))
                            }
                            Err(error) => {
                                let title = handshake.title;
                                let message = format!("{title} refused to start: {error}");
                                Err(Failure::new(FailureKind::Agent, message).into())
                            }
                        };
                    }
                    Some(StreamSignal::Request(request)) => {
                        if let Some(answer) = answer_cli_request(&request, &mut handshake.tools) {
                            self.link.input.push(answer);
                        }
                    }
                    _ => {}
                }
            }
            if !self.link.exchange().await {
                return Err(self.early_exit_error(handshake).await);
            }
        }
    }

    async fn early_exit_error(&mut self, handshake: &Handshake<'_>) -> ProgramStartError {
        let words = self.link.describe_exit(handshake.redactor).await;
        if words.contains("No conversation found") {
            return ProgramStartError::ConversationLost;
        }
        let message = format!("{} exited at startup: {words}", handshake.title);
        Failure::new(FailureKind::Agent, message)
            .with_hint("`angelia doctor` shows what is installed; run it by hand to see more")
            .into()
    }
}

/// Answers a control request that is not an approval. Returns `None` if the answer follows later.
pub(crate) fn answer_cli_request(request: &CliRequest, tools: &mut CallerTools) -> Option<Vec<u8>> {
    let id = &request.request_id;
    match &request.kind {
        CliRequestKind::Mcp { server, message }
            if **server == *super::caller_tools::MCP_SERVER_NAME =>
        {
            tools.handle_message(id, message)
        }
        CliRequestKind::Mcp { server, .. } => {
            Some(outgoing::respond_error(id, &format!("there is no server `{server}`")))
        }
        CliRequestKind::Hook { callback_id, input } => {
            let is_callers = |name: &str| tools.model_names().any(|own| *own == *name);
            Some(permission::answer_other_hook(id, callback_id, input, is_callers))
        }
        CliRequestKind::Unknown { subtype, .. } => {
            Some(outgoing::respond_error(id, &format!("`{subtype}` is not known here")))
        }
    }
}
