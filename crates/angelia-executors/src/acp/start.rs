//! Starts an agent and opens a conversation, either a new one or one to resume.
//!
//! ```text
//!  spawn ─► initialize ─► session/resume, else session/load ─┐ lost
//!                    └──► session/new ◄──────────────────────┘
//!                          └─► mode, model ─► open
//! ```

use std::{sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::McpServer;
use angelia_core::{
    model::{Failure, FailureKind, NativeSessionId, SessionSpec},
    ports::BoxFuture,
};
use serde_json::value::RawValue;

use super::{
    client::Service,
    connection::{CallError, Connection, nobody},
    failure::{Around, is_auth},
    launch,
    protocol::{
        opened::{Choice, Greeting, Opened, VERSION},
        outgoing::{self, Call},
    },
};
use crate::{
    host::Host,
    link::Link,
    pool::Warm,
    process::{Launch, spawn},
};

/// For `initialize`. Some agents load a large runtime before they answer.
const GREETING_LIMIT: Duration = Duration::from_mins(1);

/// For opening a conversation. The agent's MCP servers may be slow to start.
const OPENING_LIMIT: Duration = Duration::from_secs(90);

/// For setting the mode or the model, which agents only record.
const CHOOSING_LIMIT: Duration = Duration::from_secs(30);

/// The time for an agent that is not needed to exit by itself.
const GRACE: Duration = Duration::from_secs(2);

/// The id that most agents use for the mode in which they ask for permission.
const ASKING_MODE: &str = "default";

/// A running agent that has answered `initialize`.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) connection: Connection,
    pub(super) greeting: Greeting,
    pub(super) service: Service,
}

/// An agent with an open conversation.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) running: Running,
    pub(super) session: NativeSessionId,
    pub(super) model: Option<Arc<str>>,
    pub(super) resumed: bool,
    /// The conversation should have been resumed, but the agent no longer has it.
    pub(super) lost: bool,
    /// The `usage_update` parameters received so far: what a resumed conversation had cost already.
    pub(super) heard: Vec<Box<RawValue>>,
}

impl Started {
    pub(super) async fn close(self) {
        self.running.close().await;
    }
}

impl Running {
    pub(super) async fn close(mut self) {
        self.service.close().await;
        self.connection.link.close(GRACE).await;
    }
}

impl Warm for Started {
    fn is_alive(&mut self) -> bool {
        self.running.connection.link.is_open()
    }

    fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(Self::close(self))
    }
}

/// Starts the agent and calls `initialize`.
pub(super) async fn run(host: &Host, spec: &SessionSpec) -> Result<Running, Failure> {
    let mark = host.fresh_mark()?;
    let env = host.child_environment(spec, &[], &mark)?;
    let found = launch::find(host, spec, &env)?;
    let unavailable = |message: String| Failure::new(FailureKind::Unavailable, message);
    let service = Service::new(host.clone(), env.clone(), &spec.cwd).map_err(|error| {
        unavailable(format!("cannot work in {}: {error}", spec.cwd.display()))
            .with_hint("set `cwd` to a directory that exists and can be read")
    })?;
    let launch = Launch {
        program: found.program,
        args: found.args,
        cwd: spec.cwd.clone(),
        env,
        mark,
        ledger: host.ledger.clone(),
    };
    let child = spawn(&launch).await.map_err(|error| unavailable(error.to_string()))?;
    let mut connection = Connection::new(Link::new(child));
    let greeting = match connection.call(&Call::initialize(), GREETING_LIMIT, |_, _| {}).await {
        Ok(result) => Greeting::of(&result),
        Err(error) => {
            let around = Around { greeting: &nobody(), doing: "answer `initialize`" };
            let failure = connection.failure(error, around, &host.redactor).await;
            connection.link.close(GRACE).await;
            return Err(failure);
        }
    };
    let running = Running { connection, greeting, service };
    match running.greeting.version {
        Some(VERSION) => Ok(running),
        other => {
            let agent = running.greeting.name();
            let version = other.map_or_else(|| "none".to_owned(), |version| version.to_string());
            running.close().await;
            let message = format!("{agent} speaks version {version} of ACP, not {VERSION}");
            Err(unavailable(message).with_hint("install a version of the agent that does"))
        }
    }
}

/// Starts an agent and opens a new conversation.
pub(super) async fn start(host: &Host, spec: &SessionSpec) -> Result<Started, Failure> {
    open(host, spec, None).await
}

/// Starts an agent and resumes the conversation `native`, or opens a new one if there is none or
/// the agent cannot resume it.
pub(super) async fn open(
    host: &Host,
    spec: &SessionSpec,
    native: Option<&NativeSessionId>,
) -> Result<Started, Failure> {
    launch::check(spec)?;
    let running = run(host, spec).await?;
    let mut opening = Opening { host, spec, running, heard: Vec::new() };
    let opened = match opening.open(native).await {
        Ok(opened) => opened,
        Err(failure) => {
            opening.running.close().await;
            return Err(failure);
        }
    };
    Ok(Started {
        running: opening.running,
        heard: opening.heard,
        session: opened.session,
        model: opened.model,
        resumed: opened.resumed,
        lost: opened.lost,
    })
}

struct Opening<'a> {
    host: &'a Host,
    spec: &'a SessionSpec,
    running: Running,
    heard: Vec<Box<RawValue>>,
}

struct Conversation {
    session: NativeSessionId,
    model: Option<Arc<str>>,
    resumed: bool,
    lost: bool,
}

impl Opening<'_> {
    async fn open(&mut self, native: Option<&NativeSessionId>) -> Result<Conversation, Failure> {
        let servers = self.servers()?;
        let earlier = match native {
            Some(native) => self.take_up(native, &servers).await?,
            None => None,
        };
        let resumed = earlier.is_some();
        let opened = match earlier {
            Some(opened) => opened,
            None => self.new_session(servers).await?,
        };
        let Some(session) = opened.session.clone() else {
            let agent = self.running.greeting.name();
            let message = format!("{agent} opened a conversation without a session id");
            return Err(Failure::new(FailureKind::Agent, message));
        };
        self.choose_mode(&session, opened.mode.as_ref()).await?;
        let model = self.choose_model(&session, opened.model.as_ref()).await?;
        Ok(Conversation { session, model, resumed, lost: native.is_some() && !resumed })
    }

    fn servers(&self) -> Result<Vec<McpServer>, Failure> {
        let mark = self.running.connection.link.child.mark();
        let greeting = &self.running.greeting;
        let servers = self.spec.mcp_servers.iter();
        servers.map(|(name, server)| outgoing::mcp_server(name, server, greeting, mark)).collect()
    }

    async fn call(&mut self, call: &Call, limit: Duration) -> Result<Box<RawValue>, CallError> {
        let heard = &mut self.heard;
        let listen = |_: &str, params: Option<&RawValue>| {
            // A replay of the conversation is dropped; only its cost is kept.
            if let Some(params) = params.filter(|params| params.get().contains("usage_update")) {
                heard.push(params.to_owned());
            }
        };
        self.running.connection.call(call, limit, listen).await
    }

    async fn failed(&mut self, error: CallError, doing: &str) -> Failure {
        let Running { connection, greeting, .. } = &mut self.running;
        let around = Around { greeting, doing };
        connection.failure(error, around, &self.host.redactor).await
    }

    async fn new_session(&mut self, servers: Vec<McpServer>) -> Result<Opened, Failure> {
        let call = Call::new_session(&self.spec.cwd, servers);
        match self.call(&call, OPENING_LIMIT).await {
            Ok(result) => Ok(Opened::of(&result)),
            Err(error) => Err(self.failed(error, "open a conversation").await),
        }
    }

    /// Resumes a conversation. `None`: the agent cannot resume, or no longer has it.
    async fn take_up(
        &mut self,
        native: &NativeSessionId,
        servers: &[McpServer],
    ) -> Result<Option<Opened>, Failure> {
        let (id, cwd) = (native.as_str(), &self.spec.cwd);
        // `session/resume` comes first, because it does not replay the conversation.
        let mut ways = Vec::new();
        if self.running.greeting.resumes {
            ways.push(Call::resume(id, cwd, servers.to_vec()));
        }
        if self.running.greeting.loads {
            ways.push(Call::load(id, cwd, servers.to_vec()));
        }
        for call in ways {
            match self.call(&call, OPENING_LIMIT).await {
                Ok(result) => {
                    let mut opened = Opened::of(&result);
                    opened.session = Some(native.clone());
                    return Ok(Some(opened));
                }
                Err(CallError::Refused(refused)) if !is_auth(&refused.error()) => {
                    let code = refused.code;
                    tracing::debug!(code, "the agent refused to resume a conversation");
                }
                Err(error) => return Err(self.failed(error, "resume the conversation").await),
            }
        }
        Ok(None)
    }

    /// Switches the agent to the mode in which it asks, if it has one. The user may have configured
    /// the agent itself not to ask.
    async fn choose_mode(
        &mut self,
        session: &NativeSessionId,
        modes: Option<&Choice>,
    ) -> Result<(), Failure> {
        let Some(modes) = modes else { return Ok(()) };
        let has_it = modes.available.iter().any(|(id, _)| **id == *ASKING_MODE);
        if !has_it || modes.current.as_deref() == Some(ASKING_MODE) {
            return Ok(());
        }
        let call = Call::set_mode(session.as_str(), modes, ASKING_MODE);
        match self.call(&call, CHOOSING_LIMIT).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(error, "be told to ask before it acts").await),
        }
    }

    async fn choose_model(
        &mut self,
        session: &NativeSessionId,
        models: Option<&Choice>,
    ) -> Result<Option<Arc<str>>, Failure> {
        let Some(wanted) = self.spec.model.as_deref() else {
            return Ok(models.and_then(|models| models.current.clone()));
        };
        let agent = self.running.greeting.name();
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
        let call = Call::set_model(session.as_str(), models, id);
        match self.call(&call, CHOOSING_LIMIT).await {
            Ok(_) => Ok(Some(Arc::clone(id))),
            Err(error) => Err(self.failed(error, "change its model").await),
        }
    }
}

/// Starts an agent for one request about a conversation that is not open, then stops the agent.
/// `None`: the agent does not support the request.
pub(super) async fn ask(
    host: &Host,
    spec: &SessionSpec,
    call: impl FnOnce(&Greeting) -> Option<Call>,
    doing: &str,
) -> Result<Option<Box<RawValue>>, Failure> {
    let mut running = run(host, spec).await?;
    let Some(call) = call(&running.greeting) else {
        running.close().await;
        return Ok(None);
    };
    let answer = running.connection.call(&call, OPENING_LIMIT, |_, _| {}).await;
    let result = match answer {
        Ok(result) => Ok(Some(result)),
        Err(error) => {
            let around = Around { greeting: &running.greeting, doing };
            Err(running.connection.failure(error, around, &host.redactor).await)
        }
    };
    running.close().await;
    result
}
