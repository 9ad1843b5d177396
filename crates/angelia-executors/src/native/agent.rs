//! An agent of our own loop: one conversation with one model, and the tools of one session. Without MCP
//! servers there is no process: it costs nothing but its memory while nobody talks to it.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{
        AgentStart, CallerTool, Failure, Mode, Notice, RawJson, SessionSpec, TokenPrice, ToolSet,
        Turn, TurnId,
    },
    ports::{Agent, AgentOutcome, BoxFuture, TurnIo},
};
use serde_json::Value;

use super::{
    answer_reader::AnswerClocks,
    client::{Endpoint, ProviderClient},
    mcp::McpServers,
    provider::{Issuer, Quirks, window::ModelLimits},
    providers::{KeySource, Provider, forget_key, load_key},
    request_dump::DumpFolder,
    tools::{CallError, PreparedTool, Toolkit},
    turn::{LoopState, run_turn},
};
use crate::host::ExecutorHost;

/// A model, and what is known about it.
#[derive(Debug)]
pub(super) struct SessionModel {
    pub(super) issuer: Issuer,
    pub(super) provider: Arc<Provider>,
    pub(super) quirks: Quirks,
    pub(super) limits: ModelLimits,
    /// `None`: nobody knows.
    pub(super) price: Option<TokenPrice>,
}

impl SessionModel {
    /// Returns where requests go, with the key that is valid now.
    pub(super) async fn endpoint(&self, host: &ExecutorHost) -> Result<Endpoint, Failure> {
        let provider = &self.provider;
        let key = load_key(&provider.keys, host).await?;
        let headers = provider.headers.iter().map(|(name, value)| (&**name, &**value));
        let key = key.as_ref().map(|key| (self.quirks.key_header, key.expose()));
        Endpoint::new(provider.api, &provider.base_url, key, headers)
    }

    /// Returns the endpoint with another key than the one that was not accepted; `None` if there can
    /// be no other.
    pub(super) async fn renewed_endpoint(&self, host: &ExecutorHost) -> Option<Endpoint> {
        let is_made = |source: &KeySource| matches!(source, KeySource::Command(_));
        if !self.provider.keys.iter().any(is_made) {
            return None;
        }
        forget_key(&self.provider.keys, host);
        self.endpoint(host).await.ok()
    }

    /// Remembers a window that the provider has named in an error.
    pub(super) fn learn_window(&self, host: &ExecutorHost, window: u64) {
        let limits = ModelLimits { context: Some(window), output: None };
        host.providers.learn_limits(&self.provider, &self.issuer.model, limits);
    }
}

/// The tools of a session, as requests describe them.
#[derive(Debug, Default)]
pub(super) struct SessionTools {
    /// In the order in which every request has them.
    pub(super) definitions: Vec<CallerTool>,
    /// Our own; `None` if the session has none.
    toolkit: Option<Toolkit>,
    /// Those of MCP servers; `None` if the session has no servers.
    servers: Option<McpServers>,
    /// The schemas of all tools that we run, by name.
    own: HashMap<Arc<str>, Value>,
}

impl SessionTools {
    /// Our own tools that the specification selects, those of the MCP servers, and then the caller's.
    pub(super) fn new(
        spec: &SessionSpec,
        toolkit: Option<Toolkit>,
        servers: Option<McpServers>,
    ) -> Self {
        let is_selected = |name: &str| match &spec.tools {
            ToolSet::Default | ToolSet::All => true,
            ToolSet::None => false,
            ToolSet::List(names) => names.iter().any(|wanted| **wanted == *name),
        };
        let own: Vec<CallerTool> = toolkit.as_ref().map(Toolkit::definitions).unwrap_or_default();
        let own = own.into_iter().filter(|tool| {
            is_selected(&tool.name) && spec.permissions.denial_reason(&tool.name).is_none()
        });
        let mut own: Vec<CallerTool> = own.collect();
        let schemas = own.iter().map(|tool| (Arc::clone(&tool.name), tool.input_schema.clone()));
        let mut schemas: Vec<(Arc<str>, RawJson)> = schemas.collect();
        if let Some(servers) = &servers {
            own.extend(servers.definitions());
            schemas.extend(servers.schemas());
        }
        // A caller's tool has the name that the caller gave it, so ours gives way.
        let callers: HashSet<&str> = spec.caller_tools.iter().map(|tool| &*tool.name).collect();
        let mut definitions: Vec<_> =
            own.into_iter().filter(|tool| !callers.contains(&*tool.name)).collect();
        definitions.extend(spec.caller_tools.iter().cloned());
        let schemas = schemas.into_iter().filter(|(name, _)| !callers.contains(&**name));
        let schemas = schemas
            .map(|(name, schema)| (name, serde_json::from_str(schema.get()).unwrap_or_default()));
        Self { definitions, toolkit, servers, own: schemas.collect() }
    }

    /// The names of everything that can be called, also of tools that requests do not describe.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let described = self.definitions.iter().map(|tool| &*tool.name);
        let is_described = |name: &&str| self.definitions.iter().any(|tool| &*tool.name == *name);
        let others = self.own.keys().map(|name| &**name).filter(move |name| !is_described(name));
        described.chain(others)
    }

    /// The schema of a tool that we run.
    pub(super) fn schema_of_own(&self, name: &str) -> Option<&Value> {
        self.own.get(name)
    }

    /// Prepares a call; `None`: the caller runs it.
    pub(super) async fn prepare(
        &self,
        name: &str,
        arguments: &RawJson,
    ) -> Option<Result<PreparedTool, CallError>> {
        if !self.own.contains_key(name) {
            return None;
        }
        if let Some(call) = self.servers.as_ref().and_then(|it| it.prepare(name, arguments)) {
            return Some(call);
        }
        Some(self.toolkit.as_ref()?.prepare(name, arguments.clone()).await)
    }

    /// The MCP servers of the session.
    pub(super) fn servers(&self) -> Option<&McpServers> {
        self.servers.as_ref()
    }

    /// Returns what there is to tell about the MCP servers.
    pub(super) fn take_notices(&self) -> Vec<Notice> {
        self.servers.as_ref().map(McpServers::take_notices).unwrap_or_default()
    }

    /// Ends everything that runs for the session.
    async fn close(&self, grace: Duration) {
        let toolkit = async {
            if let Some(toolkit) = &self.toolkit {
                toolkit.close(grace).await;
            }
        };
        let servers = async {
            if let Some(servers) = &self.servers {
                servers.close(grace).await;
            }
        };
        tokio::join!(toolkit, servers);
    }
}

/// Everything that stays the same for all turns of an agent.
pub(super) struct LoopSetup {
    pub(super) host: ExecutorHost,
    pub(super) model: SessionModel,
    pub(super) client: ProviderClient,
    pub(super) tools: SessionTools,
    pub(super) clocks: AnswerClocks,
    pub(super) max_iterations: u32,
    /// The cost limit of the profile.
    pub(super) max_cost_usd: Option<f64>,
    /// The session's directory as a real path.
    pub(super) cwd: PathBuf,
    pub(super) start: AgentStart,
    /// The folder for requests that failed; `None`: they are not written.
    pub(super) dumps: Option<DumpFolder>,
    pub(super) prefix_sha256: Arc<str>,
}

pub(super) struct NativeAgent {
    setup: LoopSetup,
    state: LoopState,
    /// The turn that ran last: the engine may continue it.
    last_turn: Option<TurnId>,
    /// A turn has begun and not ended: the future that ran it was dropped.
    in_turn: bool,
}

impl NativeAgent {
    /// `last_turn`: the last one of the record.
    pub(super) fn new(setup: LoopSetup, state: LoopState, last_turn: Option<TurnId>) -> Self {
        Self { setup, state, last_turn, in_turn: false }
    }

    /// Returns why a turn with a cost limit cannot be run.
    fn price_failure(&self, turn: &Turn) -> Option<Failure> {
        let LoopSetup { model, host, max_cost_usd, .. } = &self.setup;
        let has_limit = max_cost_usd.or(turn.options.max_cost_usd).is_some();
        let priced = model.provider.ensure_priced(&model.issuer.model, &host.prices);
        priced.err().filter(|_| has_limit)
    }
}

impl Agent for NativeAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome> {
        Box::pin(async move {
            if io.cancel.is_cancelled() {
                return AgentOutcome::interrupted("interrupted before it began");
            }
            if let Some(failure) = self.price_failure(turn) {
                return AgentOutcome::failed(failure);
            }
            let endpoint = match self.setup.model.endpoint(&self.setup.host).await {
                Ok(endpoint) => endpoint,
                Err(failure) => return AgentOutcome::failed(failure),
            };
            let is_continued = self.last_turn == Some(turn.id);
            self.last_turn = Some(turn.id);
            self.in_turn = true;
            let outcome =
                run_turn(&self.setup, &mut self.state, endpoint, (turn, is_continued), io).await;
            self.in_turn = false;
            outcome
        })
    }

    fn is_usable(&mut self) -> bool {
        !self.in_turn
    }

    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.setup.tools.close(grace).await })
    }
}

/// Whether the session has tools of our own: in model mode, there are none but the caller's.
pub(super) fn has_own_tools(spec: &SessionSpec) -> bool {
    spec.mode == Mode::Agent && spec.tools != ToolSet::None
}
