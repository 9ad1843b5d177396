//! Starts an agent and opens a new conversation or resumes an existing one.
//!
//! ```text
//!  spawn ─► initialize ─► session/resume, else session/load ─┬─► mode, model ─► open
//!                    └──► session/new ───────────────────────┘
//! ```

use std::{sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::McpServer;
use angelia_core::{
    model::{Failure, FailureKind, NativeSessionId, SessionSpec},
    ports::{BoxFuture, ConversationError},
};
use serde_json::value::RawValue;

use super::{
    client::Service,
    connection::{AcpCallError, AcpConnection},
    failure::{AcpFailureContext, is_auth_error},
    launch,
    protocol::{
        handshake::{AcpSessionInfo, AgentDescription, PROTOCOL_VERSION, SessionSetting},
        outgoing::{self, AcpCall},
    },
};
use crate::{
    host::ExecutorHost,
    pool::WarmProcess,
    process::{ProcessLaunch, spawn},
    process_link::ProcessLink,
};

/// Timeout of `initialize`. Some agents load a large runtime before they answer.
const INITIALIZE_LIMIT: Duration = Duration::from_mins(1);

/// Timeout for opening a conversation. The agent's MCP servers may be slow to start.
const OPEN_LIMIT: Duration = Duration::from_secs(90);

/// Timeout for setting the mode or the model, which agents only record.
const SETTING_LIMIT: Duration = Duration::from_secs(30);

/// How long an agent that is not needed has to exit.
const GRACE: Duration = Duration::from_secs(2);

/// The id that most agents use for the mode in which they ask for permission.
const ASKING_MODE: &str = "default";

/// A running agent that has answered `initialize`.
#[derive(Debug)]
pub(super) struct AcpProcess {
    pub(super) connection: AcpConnection,
    pub(super) agent: AgentDescription,
    pub(super) service: Service,
}

/// An agent with an open conversation.
#[derive(Debug)]
pub(super) struct AcpSession {
    pub(super) process: AcpProcess,
    pub(super) conversation: AcpConversation,
    /// The `usage_update` parameters so far, which give the earlier cost of a resumed conversation.
    pub(super) usage_updates: Vec<Box<RawValue>>,
}

#[derive(Debug)]
pub(super) struct AcpConversation {
    pub(super) session: NativeSessionId,
    pub(super) model: Option<Arc<str>>,
    pub(super) resumed: bool,
}

impl AcpProcess {
    pub(super) async fn close(mut self) {
        self.service.close().await;
        self.connection.link.close(GRACE).await;
    }
}

impl WarmProcess for AcpSession {
    fn is_alive(&mut self) -> bool {
        self.process.connection.link.is_open()
    }

    fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(self.process.close())
    }
}

/// Starts the agent and calls `initialize`.
pub(super) async fn start_process(
    host: &ExecutorHost,
    spec: &SessionSpec,
) -> Result<AcpProcess, Failure> {
    let mark = host.fresh_mark()?;
    let env = host.child_environment(spec, &[], &mark)?;
    let found = launch::find_command(host, spec, &env)?;
    let unavailable = |message: String| Failure::new(FailureKind::Unavailable, message);
    let service = Service::new(host.clone(), env.clone(), &spec.cwd).map_err(|error| {
        unavailable(format!("cannot work in {}: {error}", spec.cwd.display()))
            .with_hint("set `cwd` to a directory that exists and can be read")
    })?;
    let launch = ProcessLaunch {
        program: found.program,
        args: found.args,
        cwd: spec.cwd.clone(),
        env,
        mark,
        ledger: host.ledger.clone(),
    };
    let child = spawn(&launch).await.map_err(|error| unavailable(error.to_string()))?;
    let mut connection = AcpConnection::new(ProcessLink::new(child, host.wire_log.as_ref()));
    let greeting = match connection.call(&AcpCall::initialize(), INITIALIZE_LIMIT, |_, _| {}).await
    {
        Ok(result) => AgentDescription::of(&result),
        Err(error) => {
            // The agent has not described itself yet.
            let agent = AgentDescription::default();
            let context = AcpFailureContext { agent: &agent, action: "answer `initialize`" };
            let failure = connection.call_failure(error, context, &host.redactor).await;
            connection.link.close(GRACE).await;
            return Err(failure);
        }
    };
    let running = AcpProcess { connection, agent: greeting, service };
    match running.agent.protocol_version {
        Some(PROTOCOL_VERSION) => Ok(running),
        other => {
            let agent = running.agent.name();
            let version = other.map_or_else(|| "none".to_owned(), |version| version.to_string());
            running.close().await;
            let message =
                format!("{agent} speaks version {version} of ACP, not {PROTOCOL_VERSION}");
            Err(unavailable(message).with_hint("install a version of the agent that does"))
        }
    }
}

/// Starts an agent and resumes the conversation `native`, or opens a new one if there is none.
pub(super) async fn open_session(
    host: &ExecutorHost,
    spec: &SessionSpec,
    native: Option<&NativeSessionId>,
) -> Result<AcpSession, ConversationError> {
    launch::check_spec(spec)?;
    let running = start_process(host, spec).await?;
    let mut opener = SessionOpener { host, spec, process: running, usage_updates: Vec::new() };
    match opener.open(native).await {
        Ok(conversation) => Ok(AcpSession {
            process: opener.process,
            conversation,
            usage_updates: opener.usage_updates,
        }),
        Err(error) => {
            opener.process.close().await;
            Err(error)
        }
    }
}

struct SessionOpener<'a> {
    host: &'a ExecutorHost,
    spec: &'a SessionSpec,
    process: AcpProcess,
    usage_updates: Vec<Box<RawValue>>,
}

impl SessionOpener<'_> {
    async fn open(
        &mut self,
        native: Option<&NativeSessionId>,
    ) -> Result<AcpConversation, ConversationError> {
        let servers = self.mcp_servers()?;
        let opened = match native {
            Some(native) => self.resume(native, servers).await?,
            None => self.new_session(servers).await?,
        };
        let Some(session) = opened.session.clone() else {
            let agent = self.process.agent.name();
            let message = format!("{agent} opened a conversation without a session id");
            return Err(Failure::new(FailureKind::Agent, message).into());
        };
        self.set_mode(&session, opened.mode.as_ref()).await?;
        let model = self.set_model(&session, opened.model.as_ref()).await?;
        Ok(AcpConversation { session, model, resumed: native.is_some() })
    }

    fn mcp_servers(&self) -> Result<Vec<McpServer>, Failure> {
        let mark = self.process.connection.link.child.mark();
        let greeting = &self.process.agent;
        let servers = self.spec.mcp_servers.iter();
        servers
            .map(|(name, server)| outgoing::to_mcp_server(name, server, greeting, mark))
            .collect()
    }

    async fn call(
        &mut self,
        call: &AcpCall,
        limit: Duration,
    ) -> Result<Box<RawValue>, AcpCallError> {
        let usage_updates = &mut self.usage_updates;
        let listen = |_: &str, params: Option<&RawValue>| {
            // Drop the replay of the conversation and keep only its cost.
            if let Some(params) = params.filter(|params| params.get().contains("usage_update")) {
                usage_updates.push(params.to_owned());
            }
        };
        self.process.connection.call(call, limit, listen).await
    }

    async fn call_failure(&mut self, error: AcpCallError, action: &str) -> Failure {
        let AcpProcess { connection, agent, .. } = &mut self.process;
        let context = AcpFailureContext { agent, action };
        connection.call_failure(error, context, &self.host.redactor).await
    }

    async fn new_session(&mut self, servers: Vec<McpServer>) -> Result<AcpSessionInfo, Failure> {
        let call = AcpCall::new_session(&self.spec.cwd, servers);
        match self.call(&call, OPEN_LIMIT).await {
            Ok(result) => Ok(AcpSessionInfo::of(&result)),
            Err(error) => Err(self.call_failure(error, "open a conversation").await),
        }
    }

    /// Resumes a conversation. Returns [`ConversationError::Lost`] if the agent refuses to or
    /// cannot resume conversations.
    async fn resume(
        &mut self,
        native: &NativeSessionId,
        servers: Vec<McpServer>,
    ) -> Result<AcpSessionInfo, ConversationError> {
        let (id, cwd) = (native.as_str(), &self.spec.cwd);
        // Try `session/resume` first, because it does not replay the conversation.
        let mut ways = Vec::new();
        if self.process.agent.can_resume {
            ways.push(AcpCall::resume(id, cwd, servers.clone()));
        }
        if self.process.agent.can_load {
            ways.push(AcpCall::load(id, cwd, servers));
        }
        for call in ways {
            match self.call(&call, OPEN_LIMIT).await {
                Ok(result) => {
                    let mut opened = AcpSessionInfo::of(&result);
                    opened.session = Some(native.clone());
                    return Ok(opened);
                }
                Err(AcpCallError::Refused(refused)) if !is_auth_error(&refused) => {
                    let code = refused.code;
                    tracing::debug!(code, "the agent refused to resume a conversation");
                }
                Err(error) => {
                    return Err(self.call_failure(error, "resume the conversation").await.into());
                }
            }
        }
        Err(ConversationError::Lost)
    }

    /// Switches the agent to the mode in which it asks for permission, if it has one, because the
    /// user may have configured it not to ask.
    async fn set_mode(
        &mut self,
        session: &NativeSessionId,
        modes: Option<&SessionSetting>,
    ) -> Result<(), Failure> {
        let Some(modes) = modes else { return Ok(()) };
        let has_it = modes.available.iter().any(|(id, _)| **id == *ASKING_MODE);
        if !has_it || modes.current.as_deref() == Some(ASKING_MODE) {
            return Ok(());
        }
        let call = AcpCall::set_mode(session.as_str(), modes, ASKING_MODE);
        match self.call(&call, SETTING_LIMIT).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.call_failure(error, "be told to ask before it acts").await),
        }
    }

    async fn set_model(
        &mut self,
        session: &NativeSessionId,
        models: Option<&SessionSetting>,
    ) -> Result<Option<Arc<str>>, Failure> {
        let Some(wanted) = self.spec.model.as_deref() else {
            return Ok(models.and_then(|models| models.current.clone()));
        };
        let agent = self.process.agent.name();
        let invalid = |message: String| Failure::new(FailureKind::Invalid, message);
        let Some(models) = models else {
            let message = format!("{agent} offers no choice of models");
            return Err(invalid(message).with_hint("leave `model` out of the profile"));
        };
        if models.current.as_deref() == Some(wanted) {
            return Ok(models.current.clone());
        }
        let mut known = models.available.iter();
        let Some((id, _)) = known.find(|(id, name)| **id == *wanted || **name == *wanted) else {
            let all: Vec<&str> = models.available.iter().map(|(id, _)| &**id).collect();
            let message = format!("{agent} has no model `{wanted}`");
            let hint = format!("set `model` to one of: {}", all.join(", "));
            return Err(invalid(message).with_hint(hint));
        };
        let call = AcpCall::set_model(session.as_str(), models, id);
        match self.call(&call, SETTING_LIMIT).await {
            Ok(_) => Ok(Some(Arc::clone(id))),
            Err(error) => Err(self.call_failure(error, "change its model").await),
        }
    }
}

/// Starts an agent for one request about a conversation that is not open, then stops the agent.
/// Returns `None` if the agent does not support the request.
pub(super) async fn call_once(
    host: &ExecutorHost,
    spec: &SessionSpec,
    call: impl FnOnce(&AgentDescription) -> Option<AcpCall>,
    action: &str,
) -> Result<Option<Box<RawValue>>, Failure> {
    let mut running = start_process(host, spec).await?;
    let Some(call) = call(&running.agent) else {
        running.close().await;
        return Ok(None);
    };
    let answer = running.connection.call(&call, OPEN_LIMIT, |_, _| {}).await;
    let result = match answer {
        Ok(result) => Ok(Some(result)),
        Err(error) => {
            let context = AcpFailureContext { agent: &running.agent, action };
            Err(running.connection.call_failure(error, context, &host.redactor).await)
        }
    };
    running.close().await;
    result
}
