//! An agent of our own loop: one conversation with a chain of models, plus the session's tools.
//! Unless the session has MCP servers, an idle agent has no process and costs only some RAM.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{
        AgentStart, CallerTool, CompactionSettings, Failure, Mode, Notice, RawJson, SessionSpec,
        ToolSet, Turn, TurnId,
    },
    ports::{Agent, AgentOutcome, BoxFuture, TurnIo},
};
use serde_json::Value;

use super::{
    knowledge::read_notes,
    mcp::McpServers,
    memory::SessionMemory,
    model_chain::{ModelChain, Route},
    prompt::PromptFrame,
    session_model::SessionModel,
    session_prefix::SessionPrefix,
    tools::{CallError, PreparedTool, Toolkit, delegate::DelegatedCost},
    turn::{LoopState, run_turn},
};
use crate::host::ExecutorHost;

/// The tools of a session, as requests describe them.
#[derive(Debug, Default)]
pub(super) struct SessionTools {
    /// In the order in which requests list them.
    pub(super) definitions: Vec<CallerTool>,
    /// Our own tools; `None` if the session has none.
    toolkit: Option<Toolkit>,
    /// The tools of MCP servers; `None` if the session has no servers.
    servers: Option<McpServers>,
    /// `None` if the session has no memory.
    memory: Option<Arc<SessionMemory>>,
    /// The cost of delegated work.
    delegated_cost: DelegatedCost,
    /// The schemas of all tools that we run, by name.
    own: HashMap<Arc<str>, Value>,
}

impl SessionTools {
    /// Collects our own tools that the specification selects, then the MCP servers' tools, then the
    /// caller's.
    pub(super) fn new(
        spec: &SessionSpec,
        toolkit: Option<Toolkit>,
        servers: Option<McpServers>,
    ) -> Self {
        let own: Vec<CallerTool> = toolkit.as_ref().map(Toolkit::definitions).unwrap_or_default();
        let own = own.into_iter().filter(|tool| is_selected(spec, &tool.name));
        let mut own: Vec<CallerTool> = own.collect();
        let schemas = own.iter().map(|tool| (Arc::clone(&tool.name), tool.input_schema.clone()));
        let mut schemas: Vec<(Arc<str>, RawJson)> = schemas.collect();
        if let Some(servers) = &servers {
            own.extend(servers.definitions());
            schemas.extend(servers.schemas());
        }
        // A caller's tool keeps its name, so a tool of ours with the same name is left out.
        let callers: HashSet<&str> = spec.caller_tools.iter().map(|tool| &*tool.name).collect();
        let mut definitions: Vec<_> =
            own.into_iter().filter(|tool| !callers.contains(&*tool.name)).collect();
        definitions.extend(spec.caller_tools.iter().cloned());
        let schemas = schemas.into_iter().filter(|(name, _)| !callers.contains(&**name));
        let schemas = schemas
            .map(|(name, schema)| (name, serde_json::from_str(schema.get()).unwrap_or_default()));
        Self { definitions, toolkit, servers, own: schemas.collect(), ..Self::default() }
    }

    /// Adds the cost account of the `delegate` tool, which is in the toolkit.
    pub(super) fn with_delegated_cost(self, delegated_cost: DelegatedCost) -> Self {
        Self { delegated_cost, ..self }
    }

    /// Returns the cost of work that was delegated since the last call.
    pub(super) fn take_delegated_cost(&self) -> f64 {
        self.delegated_cost.take()
    }

    /// Describes the tools as the session of `prefix` does, regardless of which ones this session
    /// can run.
    pub(super) fn described_as(self, prefix: &SessionPrefix) -> Self {
        let (definitions, own) = (prefix.definitions.clone(), prefix.schemas.clone());
        Self { definitions, own, ..self }
    }

    /// Returns the schemas of the tools that we run, for reviews of the session.
    pub(super) fn schemas(&self) -> HashMap<Arc<str>, Value> {
        self.own.clone()
    }

    /// Adds the memory, whose tool is in the toolkit.
    pub(super) fn with_memory(self, memory: Option<Arc<SessionMemory>>) -> Self {
        Self { memory, ..self }
    }

    /// Rereads the memory's notes; `None` if there is no memory or it cannot be read.
    pub(super) fn read_notes(&self) -> Option<Arc<str>> {
        self.memory.as_deref().and_then(read_notes)
    }

    /// Tells the memory whether a turn is the owner's.
    pub(super) fn hear_turn(&self, is_owners: bool) {
        if let Some(memory) = &self.memory {
            memory.hear_turn(is_owners);
        }
    }

    /// Returns the tools that requests to a model describe.
    pub(super) fn definitions_for(&self, model: &SessionModel) -> &[CallerTool] {
        if model.takes_tools { &self.definitions } else { &[] }
    }

    /// Returns the names of all callable tools, including those that requests do not describe.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let described = self.definitions.iter().map(|tool| &*tool.name);
        let is_described = |name: &&str| self.definitions.iter().any(|tool| &*tool.name == *name);
        let others = self.own.keys().map(|name| &**name).filter(move |name| !is_described(name));
        described.chain(others)
    }

    /// Returns the schema of a tool that we run.
    pub(super) fn schema_of_own(&self, name: &str) -> Option<&Value> {
        self.own.get(name)
    }

    /// Prepares a call; returns `None` if the caller runs it.
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

    pub(super) fn servers(&self) -> Option<&McpServers> {
        self.servers.as_ref()
    }

    /// Takes the pending notices of the MCP servers and the memory.
    pub(super) fn take_notices(&self) -> Vec<Notice> {
        let mut notices = self.servers.as_ref().map(McpServers::take_notices).unwrap_or_default();
        notices.extend(self.memory.iter().flat_map(|memory| memory.take_notices()));
        notices
    }

    /// Stops everything that runs for the session.
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
    pub(super) chain: ModelChain,
    pub(super) tools: SessionTools,
    pub(super) max_iterations: u32,
    pub(super) compaction: CompactionSettings,
    /// The cost limit of the profile.
    pub(super) max_cost_usd: Option<f64>,
    /// The session's directory as a real path.
    pub(super) cwd: PathBuf,
    pub(super) start: AgentStart,
    /// The system prompt without the notes.
    pub(super) prompt: PromptFrame,
    /// The beginning of every request, which reviews of the session reuse.
    pub(super) prefix: Arc<SessionPrefix>,
    /// The session reviews another session, so it may use only memory and skills.
    pub(super) is_review: bool,
}

impl LoopSetup {
    /// Returns the hash of what precedes the conversation in requests to a model.
    pub(super) fn prefix_of(&self, route: &Route, state: &mut LoopState) -> Arc<str> {
        let system = &state.log.conversation().system;
        let make = || route.model.prefix_sha256(&self.tools, system);
        if route.place == 0 {
            Arc::clone(state.own_prefix_sha256.get_or_insert_with(make))
        } else {
            make()
        }
    }
}

pub(super) struct NativeAgent {
    setup: LoopSetup,
    state: LoopState,
    /// The turn that ran last, which the engine may continue.
    last_turn: Option<TurnId>,
    /// Set while a turn runs; stays set if the future that ran the turn is dropped.
    in_turn: bool,
}

impl NativeAgent {
    /// `last_turn` is the last turn in the record.
    pub(super) fn new(setup: LoopSetup, state: LoopState, last_turn: Option<TurnId>) -> Self {
        Self { setup, state, last_turn, in_turn: false }
    }

    /// Returns a failure if there is a cost limit but a model has no price.
    fn price_failure(&self, turn: &Turn) -> Option<Failure> {
        let has_limit = self.setup.max_cost_usd.or(turn.options.max_cost_usd).is_some();
        if has_limit { self.setup.chain.ensure_priced().err() } else { None }
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
            // Creating a key can take arbitrarily long: it may run a program or ask a server.
            let route = match io.cancel.run_until_cancelled(self.setup.chain.begin()).await {
                Some(Ok(route)) => route,
                Some(Err(failure)) => return AgentOutcome::failed(failure),
                None => return AgentOutcome::interrupted("interrupted before it began"),
            };
            let is_continued = self.last_turn == Some(turn.id);
            self.last_turn = Some(turn.id);
            self.in_turn = true;
            let outcome =
                run_turn(&self.setup, &mut self.state, route, (turn, is_continued), io).await;
            self.in_turn = false;
            self.setup.prefix.set_request(&self.state.request);
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

/// Returns whether the session has our tool with this name.
pub(super) fn is_selected(spec: &SessionSpec, tool: &str) -> bool {
    let is_listed = match &spec.tools {
        ToolSet::Default | ToolSet::All => true,
        ToolSet::None => false,
        ToolSet::List(names) => names.iter().any(|wanted| **wanted == *tool),
    };
    is_listed && spec.permissions.denial_reason(tool).is_none()
}

/// Returns whether the session has tools of our own. In model mode, it has only the caller's.
pub(super) fn has_own_tools(spec: &SessionSpec) -> bool {
    spec.mode == Mode::Agent && spec.tools != ToolSet::None
}
