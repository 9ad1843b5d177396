//! The executor for every program that speaks the stream-json protocol.

use std::{io, path::Path, sync::Arc};

use angelia_core::{
    model::{
        Content, EventKind, Failure, FailureKind, Mode, NativeSessionId, Notice, NoticeLevel,
        SessionSpec,
    },
    ports::{
        Agent, AgentEvent, BoxFuture, Executor, ExecutorCapabilities, ExecutorHealth, OpenRequest,
    },
};
use uuid::Uuid;

use super::{
    agent::{CostPoll, StreamAgent, StreamAgentSettings},
    caller_tools::CallerTools,
    escape::TextHandling,
    launch::{self, ConversationStart},
    program::StreamProgram,
    start::{Handshake, LaunchPlan, ProgramStartError, StartedProgram, empty_folder},
    transcript::{self, ImportedHistory, TranscriptStore},
};
use crate::{
    host::ExecutorHost,
    pool::{ProcessStarter, WarmPool},
};

#[derive(Debug)]
pub(crate) struct StreamExecutor {
    host: ExecutorHost,
    program: Arc<dyn StreamProgram>,
    pool: Option<WarmPool<StartedProgram>>,
}

/// A started program for a session, and how it was started.
struct OpenConversation {
    started: StartedProgram,
    resumed: bool,
    warm: bool,
    startup_events: Vec<AgentEvent>,
    history_text: Option<Content>,
}

impl OpenConversation {
    fn from_start(started: StartedProgram) -> Self {
        Self {
            started,
            resumed: false,
            warm: false,
            startup_events: Vec::new(),
            history_text: None,
        }
    }
}

impl Executor for StreamExecutor {
    fn name(&self) -> &'static str {
        self.program.name()
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        self.program.capabilities()
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        self.program.health(&self.host, spec)
    }

    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, Failure>> {
        Box::pin(async move {
            let recipe = LaunchPlan::new(&self.host, &self.program, opening.spec).await?;
            let opened = self.open_conversation(&recipe, opening).await?;
            let mut agent = self.build_agent(&recipe, opened).await?;
            // Only in agent mode can the program start our own programs, which read the binding.
            if recipe.spec.mode == Mode::Agent {
                let mark = agent.link.child.mark();
                agent.session_binding = Some(self.host.bind_session(mark, opening.session));
            }
            Ok(Box::new(agent) as Box<dyn Agent>)
        })
    }

    fn warm_up(&self, spec: &SessionSpec) {
        let Some(pool) = &self.pool else { return };
        // A history must be imported before the start, so such a process cannot be shared.
        if spec.warm == 0 || !spec.history.is_empty() {
            return;
        }
        let pool = pool.clone();
        let (host, program) = (self.host.clone(), Arc::clone(&self.program));
        let spec = spec.clone();
        self.host.tasks.spawn_until_stopped(async move {
            match LaunchPlan::new(&host, &program, &spec).await {
                Ok(recipe) => {
                    let shape =
                        launch::pool_fingerprint(&recipe.spec, &recipe.installation.version);
                    pool.declare(&shape, spec.warm as usize, pool_starter(recipe));
                }
                Err(failure) => tracing::warn!(%failure, "cannot prepare warm processes"),
            }
        });
    }

    fn fork<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, Failure>> {
        Box::pin(async move {
            let copy = self.host.clock.fresh_uuid();
            let id = native.as_str().to_owned();
            self.with_transcripts(spec, "copied", move |transcripts, cwd| {
                transcripts.copy(&id, cwd, copy)
            })
            .await?;
            Ok(NativeSessionId::new(copy.to_string()))
        })
    }

    fn delete_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let id = native.as_str().to_owned();
        Box::pin(self.with_transcripts(spec, "removed", move |transcripts, cwd| {
            transcripts.remove(&id, cwd)
        }))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(pool) = &self.pool {
                pool.close().await;
            }
        })
    }
}

impl StreamExecutor {
    /// Creates the executor. If the host keeps warm processes, this needs a tokio runtime.
    pub(crate) fn new(host: ExecutorHost, program: Arc<dyn StreamProgram>) -> Self {
        let pool = host.keep_warm.then(|| WarmPool::new(&host.tasks));
        Self { host, program, pool }
    }

    fn transcripts(&self, spec: &SessionSpec) -> Result<Option<TranscriptStore>, Failure> {
        let mark = self.host.fresh_mark()?;
        let environment = self.host.child_environment(spec, &[], &mark)?;
        Ok(self.program.transcripts(&environment))
    }

    /// Runs a blocking operation on the program's own conversation files, off the runtime.
    async fn with_transcripts(
        &self,
        spec: &SessionSpec,
        what: &str,
        act: impl FnOnce(&TranscriptStore, &Path) -> io::Result<()> + Send + 'static,
    ) -> Result<(), Failure> {
        let spec = launch::effective_spec(spec, &empty_folder(&self.host.work_dir)).into_owned();
        let Some(transcripts) = self.transcripts(&spec)? else {
            return Ok(());
        };
        let done = tokio::task::spawn_blocking(move || act(&transcripts, &spec.cwd)).await;
        match done {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(transcript_failure(what, &error)),
            Err(error) => Err(Failure::new(FailureKind::Internal, error.to_string())),
        }
    }

    async fn open_conversation(
        &self,
        recipe: &LaunchPlan,
        opening: OpenRequest<'_>,
    ) -> Result<OpenConversation, Failure> {
        let native = opening.native.filter(|_| recipe.spec.resume);
        let Some(native) = native else {
            return self.start_conversation(recipe).await;
        };
        let transcripts = self.transcripts(&recipe.spec)?;
        let known =
            transcripts.is_none_or(|known| known.find(native.as_str(), &recipe.spec.cwd).is_some());
        if known {
            let conversation = ConversationStart::Resume(native.as_str());
            match recipe.start(conversation).await {
                Ok(started) => {
                    return Ok(OpenConversation {
                        resumed: true,
                        ..OpenConversation::from_start(started)
                    });
                }
                Err(ProgramStartError::Failed(failure)) => return Err(failure),
                Err(ProgramStartError::ConversationLost) => {}
            }
        }
        let mut opened = self.start_conversation(recipe).await?;
        opened.startup_events.push(warning_notice(
            "resume_lost",
            format!(
                "{} no longer has this conversation; it starts anew and does not know what was \
                 said before",
                self.program.title()
            ),
        ));
        Ok(opened)
    }

    async fn start_conversation(&self, recipe: &LaunchPlan) -> Result<OpenConversation, Failure> {
        if !recipe.spec.history.is_empty() {
            return self.import_history(recipe).await;
        }
        if let Some(pool) = &self.pool {
            let shape = launch::pool_fingerprint(&recipe.spec, &recipe.installation.version);
            let count = recipe.spec.warm as usize;
            let waiting = pool_starter(recipe.clone());
            if let Some(started) = pool.take(&shape, count, waiting).await {
                return Ok(OpenConversation {
                    warm: true,
                    ..OpenConversation::from_start(started)
                });
            }
        }
        let id = self.host.clock.fresh_uuid();
        self.start_new(recipe, id).await.map(OpenConversation::from_start)
    }

    async fn start_new(&self, recipe: &LaunchPlan, id: Uuid) -> Result<StartedProgram, Failure> {
        match recipe.start(ConversationStart::New(id)).await {
            Ok(started) => Ok(started),
            Err(ProgramStartError::Failed(failure)) => Err(failure),
            Err(ProgramStartError::ConversationLost) => {
                Err(Failure::new(FailureKind::Agent, "a new conversation was refused as unknown"))
            }
        }
    }

    /// Starts a conversation with a history that happened elsewhere. The history is written as the
    /// program's own transcript and resumed; a program that does not accept the transcript gets the
    /// history as plain text before the first message.
    async fn import_history(&self, recipe: &LaunchPlan) -> Result<OpenConversation, Failure> {
        let id = self.host.clock.fresh_uuid();
        let (carried, at) = (recipe.clone(), self.host.clock.now());
        self.with_transcripts(&recipe.spec, "written", move |transcripts, cwd| {
            transcripts.write(&ImportedHistory {
                id,
                cwd,
                version: &carried.installation.version,
                model: carried.spec.model.as_deref(),
                history: &carried.spec.history,
                at,
            })
        })
        .await?;
        match recipe.start(ConversationStart::Resume(&id.to_string())).await {
            Ok(started) => Ok(OpenConversation::from_start(started)),
            Err(ProgramStartError::Failed(failure)) => Err(failure),
            Err(ProgramStartError::ConversationLost) => {
                let other = self.host.clock.fresh_uuid();
                let mut opened = OpenConversation::from_start(self.start_new(recipe, other).await?);
                opened.history_text =
                    Some(Content::text(transcript::history_as_text(&recipe.spec.history)));
                opened.startup_events.push(warning_notice(
                    "history_as_text",
                    format!(
                        "this version of {} does not accept a history; it was sent as text",
                        self.program.title()
                    ),
                ));
                Ok(opened)
            }
        }
    }

    async fn build_agent(
        &self,
        recipe: &LaunchPlan,
        opened: OpenConversation,
    ) -> Result<StreamAgent, Failure> {
        let spec = &recipe.spec;
        let prefix = launch::prefix_sha256(spec, &recipe.installation.version);
        let translator = recipe.translator(opened.resumed, opened.warm, Some(prefix.into()));
        let mut parts = Handshake {
            title: self.program.title(),
            redactor: &self.host.redactor,
            translator,
            tools: CallerTools::new(&spec.caller_tools),
        };
        let mut started = opened.started;
        if started.initialize_response.is_none() {
            match started.initialize(spec, &mut parts).await {
                Ok(()) => {}
                Err(ProgramStartError::Failed(failure)) => return Err(failure),
                Err(ProgramStartError::ConversationLost) => {
                    return Err(Failure::new(FailureKind::Agent, "the process was lost"));
                }
            }
        }
        // Another translator may have read the handshake. Replay the `initialize` response, which
        // names the billing lane.
        if let Some(greeting) = &started.initialize_response {
            let line = greeting.strip_suffix(b"\n").unwrap_or(greeting);
            parts.translator.translate_line(line, &mut Vec::new());
        }
        // In model mode commands and attachments are switched off, whatever the version.
        let known = recipe.installation.features.is_verified() || spec.mode == Mode::Model;
        let reader = if known { TextHandling::Verified } else { TextHandling::Unverified };
        Ok(StreamAgent {
            link: started.link,
            translator: parts.translator,
            tools: parts.tools,
            settings: StreamAgentSettings {
                title: self.program.title(),
                redactor: self.host.redactor.clone(),
                clock: Arc::clone(&self.host.clock),
                text_handling: reader,
                model_mode: spec.mode == Mode::Model,
            },
            startup_events: opened.startup_events,
            history_text: opened.history_text,
            retired: false,
            in_turn: false,
            request_count: 0,
            pending_steers: Vec::new(),
            cost_poll: CostPoll::new(spec.budgets.cost_usd.is_some()),
            session_binding: None,
        })
    }
}

fn pool_starter(recipe: LaunchPlan) -> ProcessStarter<StartedProgram> {
    Arc::new(move || {
        let recipe = recipe.clone();
        Box::pin(async move { recipe.start_for_pool().await })
    })
}

fn warning_notice(code: &str, text: String) -> AgentEvent {
    AgentEvent::Event(EventKind::Notice(Notice::new(NoticeLevel::Warning, code, text)))
}

fn transcript_failure(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        format!("the agent's transcript of the conversation cannot be {what}: {error}"),
    )
    .with_hint("check the permissions and the free space of the agent's own folder")
}
