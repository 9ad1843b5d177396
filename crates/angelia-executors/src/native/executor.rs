//! Implements the executor port for our own loop. Nothing has to be installed: opening an agent
//! means finding the model's provider and key, and reading the conversation from the record.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{
        AgentStart, EventKind, Failure, FailureKind, Mode, NativeSessionId, SessionId, SessionSpec,
    },
    ports::{
        Agent, BoxFuture, ConversationError, Executor, ExecutorCapabilities, ExecutorHealth,
        OpenRequest,
    },
};

use super::{
    agent::{LoopSetup, NativeAgent, SessionTools},
    client::{ProviderClient, Transport},
    compaction::{gauge::ContextGauge, size::request_tokens},
    instructions::Instructions,
    model_chain::ModelChain,
    prompt::PromptFrame,
    provider::{AssistantPart, Message},
    providers::provider_health,
    record::ConversationLog,
    session_model::{Clients, ModelOpener},
    session_prefix::{LivePrefixes, SessionPrefix},
    session_setup::OpenedTools,
    turn::LoopState,
};
use crate::host::ExecutorHost;

pub(super) const NAME: &str = "native";

/// Our own loop as an executor.
#[derive(Debug)]
pub(super) struct NativeExecutor {
    pub(super) host: ExecutorHost,
    clients: Arc<Clients>,
    prefixes: LivePrefixes,
}

impl NativeExecutor {
    pub(super) fn new(host: ExecutorHost) -> Self {
        Self { host, clients: Arc::default(), prefixes: LivePrefixes::default() }
    }

    /// Creates an executor that sends every request over `transport`.
    pub(super) fn over(host: ExecutorHost, transport: Arc<dyn Transport>) -> Self {
        let clients = Arc::new(Clients::only(ProviderClient::over(transport)));
        Self { host, clients, prefixes: LivePrefixes::default() }
    }

    async fn open_agent(&self, opening: OpenRequest<'_>) -> Result<NativeAgent, Failure> {
        let spec = opening.spec;
        let opener = ModelOpener {
            host: self.host.clone(),
            clients: Arc::clone(&self.clients),
            settings: spec.native.clone(),
            timeouts: spec.timeouts.clone(),
            output_schema: spec.output_schema.clone(),
            cached_for: spec.native.reviews.unwrap_or(opening.session),
            folder: self.session_folder(opening.session),
        };
        let chain = ModelChain::new(spec, opener)?;
        let model = chain.own_model().await?;
        let native = opening.native.filter(|_| spec.resume);
        let turns = match native {
            Some(_) => opening.record.turns().await?,
            None => Vec::new(),
        };
        // A review sends the prefix of the session that it reviews, if that session is open.
        let reviewed = spec.native.reviews.and_then(|session| self.prefixes.find(session));
        let OpenedTools { cwd, notes, notes_event, tools } =
            self.open_tools(&opening, &model, &turns, reviewed.as_deref()).await?;
        let mut instructions = (spec.trust && spec.mode == Mode::Agent).then(Instructions::default);
        let project = instructions.as_mut().and_then(|found| found.from_root(&cwd));
        let prompt = PromptFrame::new(spec, &cwd, project.as_deref());
        let own_system = || prompt.with_notes(&notes).into();
        let system = reviewed.as_ref().map_or_else(own_system, |prefix| prefix.system());
        let mut log = ConversationLog::new(system, &spec.history);
        let mut used = None;
        for turn in &turns {
            log.replay(turn);
            used = last_context(&turn.events, used);
        }
        let last_turn = turns.last().map(|turn| turn.id);
        let fresh = || NativeSessionId::new(self.host.clock.fresh_uuid().to_string());
        let request =
            reviewed.as_ref().map_or_else(|| model.request.clone(), |prefix| prefix.request());
        let mut gauge = ContextGauge::default();
        let estimated = request_tokens(log.conversation(), &tools.definitions);
        gauge.note_report(used.unwrap_or_default(), 0, estimated);
        let state = LoopState {
            gauge,
            call_ids: call_ids(&log),
            log,
            request,
            instructions,
            notes,
            notes_event,
            ..LoopState::default()
        };
        let setup = LoopSetup {
            start: AgentStart {
                profile: started_profile(spec),
                executor: NAME.into(),
                model: spec.model.clone(),
                native_session_id: Some(native.cloned().unwrap_or_else(fresh)),
                resumed: native.is_some(),
                warm: false,
            },
            prompt,
            prefix: self.keep_prefix(opening.session, &tools, &state),
            is_review: spec.native.reviews.is_some(),
            max_iterations: spec.native.max_iterations,
            compaction: spec.native.compaction,
            max_cost_usd: spec.budgets.cost_usd,
            host: self.host.clone(),
            chain,
            tools,
            cwd,
        };
        Ok(NativeAgent::new(setup, state, last_turn))
    }

    /// Keeps the beginning of the session's requests for its reviews.
    fn keep_prefix(
        &self,
        session: SessionId,
        tools: &SessionTools,
        state: &LoopState,
    ) -> Arc<SessionPrefix> {
        let system = Arc::clone(&state.log.conversation().system);
        let (definitions, request) = (tools.definitions.clone(), state.request.clone());
        let prefix = SessionPrefix::new(system, definitions, tools.schemas(), request);
        let prefix = Arc::new(prefix);
        self.prefixes.insert(session, &prefix);
        prefix
    }

    pub(super) fn angelia_home(&self) -> PathBuf {
        let work_dir = &self.host.work_dir;
        real_or_stated(work_dir.parent().unwrap_or(work_dir))
    }

    /// Returns the folder with a session's files.
    pub(super) fn session_folder(&self, session: SessionId) -> PathBuf {
        self.angelia_home().join("sessions").join(session.to_string())
    }
}

impl Executor for NativeExecutor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        ExecutorCapabilities::ALL
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(provider_health(spec, &self.host, true))
    }

    fn inspect<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(provider_health(spec, &self.host, false))
    }

    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
        Box::pin(async move {
            let agent = self.open_agent(opening).await?;
            Ok(Box::new(agent) as Box<dyn Agent>)
        })
    }

    /// Nothing has to be started in advance.
    fn warm_up(&self, _spec: &SessionSpec) {}

    /// The copy's record contains the original's, so the copy only needs an id.
    fn fork<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
        let copy = NativeSessionId::new(self.host.clock.fresh_uuid().to_string());
        Box::pin(std::future::ready(Ok(copy)))
    }

    /// There is no transcript besides the record.
    fn delete_conversation<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Returns the profile under which a session's usage is counted. Reviews are counted separately.
fn started_profile(spec: &SessionSpec) -> Arc<str> {
    match spec.native.reviews {
        Some(_) => format!("{}/review", spec.profile).into(),
        None => Arc::clone(&spec.profile),
    }
}

pub(super) fn real_cwd(cwd: &Path) -> Result<PathBuf, Failure> {
    cwd.canonicalize().map_err(|error| {
        let message = format!("the directory {} cannot be used: {error}", cwd.display());
        Failure::new(FailureKind::Invalid, message)
    })
}

pub(super) fn real_or_stated(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns how many tokens of the window were in use after these events, or `before` if they do not
/// say.
fn last_context(events: &[EventKind], before: Option<u64>) -> Option<u64> {
    let readings = events.iter().rev().filter_map(|event| match event {
        EventKind::Usage(usage) => usage.context.map(|context| context.used),
        _ => None,
    });
    readings.chain(before).next()
}

fn call_ids(log: &ConversationLog) -> HashSet<Arc<str>> {
    let answers = log.conversation().messages.iter().filter_map(|message| match message {
        Message::Assistant(answer) => Some(&answer.parts),
        Message::User(_) | Message::Results(_) => None,
    });
    let calls = answers.flatten().filter_map(|part| match part {
        AssistantPart::Call(call) => Some(Arc::clone(&call.id)),
        AssistantPart::Text(_) | AssistantPart::Reasoning(_) => None,
    });
    calls.collect()
}
