//! The executor for every program that speaks the stream-json protocol.

use std::{io, path::Path, sync::Arc};

use angelia_core::{
    model::{
        Content, Failure, FailureKind, Mode, NativeSessionId, NoticeLevel, PastConversation,
        PastTurn, SessionSpec, TurnOrigin,
    },
    ports::{
        Agent, AgentEvent, BoxFuture, ConversationError, Executor, ExecutorCapabilities,
        ExecutorHealth, OpenRequest,
    },
};

use super::{
    agent::{CostPoll, StreamAgent, StreamAgentSettings},
    escape::TextHandling,
    launch::{self, ConversationStart},
    past_conversations,
    program::StreamProgram,
    start::{LaunchPlan, ProgramStartError, StartedProgram},
    transcript::{self, ImportedHistory, TranscriptStore},
};
use crate::{
    host::ExecutorHost,
    pool::{ProcessStarter, WarmPool},
    turn_driver::{DrivenAgent, notice_event},
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
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
        Box::pin(async move {
            let plan = LaunchPlan::new(&self.host, &self.program, opening.spec).await?;
            let mut opened = self.open_conversation(&plan, opening).await?;
            let startup_events = std::mem::take(&mut opened.startup_events);
            let mut agent = self.build_agent(&plan, opened).await?;
            // Only in agent mode can the program start our own programs, which read the binding.
            if plan.spec.mode == Mode::Agent {
                let mark = agent.link.child.mark();
                agent.session_binding = Some(self.host.bind_session(mark, opening.session));
            }
            Ok(Box::new(DrivenAgent::new(agent, startup_events)) as Box<dyn Agent>)
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
                Ok(plan) => {
                    let shape = launch::pool_fingerprint(&plan.spec, &plan.installation.version);
                    pool.declare(&shape, spec.warm as usize, pool_starter(plan));
                }
                Err(failure) => tracing::warn!(%failure, "cannot prepare warm processes"),
            }
        });
    }

    fn fork<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
        Box::pin(async move {
            let copy = self.host.clock.fresh_uuid();
            let id = native.as_str().to_owned();
            let copied = self.with_transcripts(spec, "copied", move |transcripts, cwd| {
                match transcripts.copy(&id, cwd, copy) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    copied => copied.map(|()| true),
                }
            });
            match copied.await? {
                Some(false) => Err(ConversationError::Lost),
                _ => Ok(NativeSessionId::new(copy.to_string())),
            }
        })
    }

    fn past_conversations<'a>(
        &'a self,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Vec<PastConversation>, Failure>> {
        Box::pin(async move {
            let listed = self.with_transcripts(spec, "listed", |transcripts, _| {
                past_conversations::list(&transcripts.projects())
            });
            Ok(listed.await?.unwrap_or_default())
        })
    }

    fn read_past_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<Vec<PastTurn>, ConversationError>> {
        Box::pin(async move {
            let id = native.as_str().to_owned();
            let read =
                self.with_transcripts(spec, "read", move |transcripts, cwd| {
                    match transcripts.read(&id, cwd) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                        rows => rows.map(|rows| Some(past_conversations::read(&rows))),
                    }
                });
            read.await?.flatten().ok_or(ConversationError::Lost)
        })
    }

    fn delete_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            // A model-mode conversation may date from before that mode had its own folder.
            let owners = SessionSpec { mode: Mode::Agent, ..spec.clone() };
            for spec in [spec, &owners] {
                let id = native.as_str().to_owned();
                self.with_transcripts(spec, "removed", move |transcripts, cwd| {
                    transcripts.remove(&id, cwd)
                })
                .await?;
                if spec.mode == Mode::Agent {
                    break;
                }
            }
            Ok(())
        })
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
        let environment = self.program.environment(&self.host, spec, &mark)?;
        Ok(self.program.transcripts(&environment.variables))
    }

    /// Runs a blocking operation on the program's own conversation files, off the runtime. Returns
    /// `None` if the program keeps no such files.
    async fn with_transcripts<T: Send + 'static>(
        &self,
        spec: &SessionSpec,
        what: &str,
        act: impl FnOnce(&TranscriptStore, &Path) -> io::Result<T> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let spec = launch::effective_spec(spec).into_owned();
        let Some(transcripts) = self.transcripts(&spec)? else {
            return Ok(None);
        };
        let done = tokio::task::spawn_blocking(move || act(&transcripts, &spec.cwd)).await;
        match done {
            Ok(Ok(done)) => Ok(Some(done)),
            Ok(Err(error)) => Err(transcript_failure(what, &error)),
            Err(error) => Err(Failure::new(FailureKind::Internal, error.to_string())),
        }
    }

    async fn open_conversation(
        &self,
        plan: &LaunchPlan,
        opening: OpenRequest<'_>,
    ) -> Result<OpenConversation, ConversationError> {
        let native = opening.native.filter(|_| plan.spec.resume);
        let Some(native) = native else {
            return Ok(self.start_conversation(plan).await?);
        };
        let transcripts = self.transcripts(&plan.spec)?;
        let known =
            transcripts.is_none_or(|known| known.find(native.as_str(), &plan.spec.cwd).is_some());
        if !known {
            return Err(ConversationError::Lost);
        }
        match plan.start(ConversationStart::Resume(native.as_str())).await {
            Ok(started) => {
                Ok(OpenConversation { resumed: true, ..OpenConversation::from_start(started) })
            }
            Err(ProgramStartError::Failed(failure)) => Err(failure.into()),
            Err(ProgramStartError::ConversationLost) => Err(ConversationError::Lost),
        }
    }

    async fn start_conversation(&self, plan: &LaunchPlan) -> Result<OpenConversation, Failure> {
        if !plan.spec.history.is_empty() {
            return self.import_history(plan).await;
        }
        if let Some(pool) = &self.pool {
            let shape = launch::pool_fingerprint(&plan.spec, &plan.installation.version);
            let count = plan.spec.warm as usize;
            let waiting = pool_starter(plan.clone());
            if let Some(started) = pool.take(&shape, count, waiting).await {
                return Ok(OpenConversation {
                    warm: true,
                    ..OpenConversation::from_start(started)
                });
            }
        }
        self.start_new(plan).await
    }

    async fn start_new(&self, plan: &LaunchPlan) -> Result<OpenConversation, Failure> {
        let id = self.host.clock.fresh_uuid();
        match plan.start(ConversationStart::New(id)).await {
            Ok(started) => Ok(OpenConversation::from_start(started)),
            Err(error) => Err(error.into_failure()),
        }
    }

    /// Starts a conversation with the history of another agent or client. The history is written as
    /// the program's own transcript and resumed. A program that does not accept the transcript gets
    /// the history as plain text before the first message.
    async fn import_history(&self, plan: &LaunchPlan) -> Result<OpenConversation, Failure> {
        let id = self.host.clock.fresh_uuid();
        let (carried, at) = (plan.clone(), self.host.clock.now());
        self.with_transcripts(&plan.spec, "written", move |transcripts, _| {
            transcripts.write(&ImportedHistory {
                id,
                version: &carried.installation.version,
                spec: &carried.spec,
                at,
            })
        })
        .await?;
        match plan.start(ConversationStart::Resume(&id.to_string())).await {
            Ok(started) => Ok(OpenConversation::from_start(started)),
            Err(ProgramStartError::Failed(failure)) => Err(failure),
            Err(ProgramStartError::ConversationLost) => {
                let mut opened = self.start_new(plan).await?;
                opened.history_text =
                    Some(Content::text(transcript::history_as_text(&plan.spec.history)));
                opened.startup_events.push(notice_event(
                    NoticeLevel::Warning,
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
        plan: &LaunchPlan,
        opened: OpenConversation,
    ) -> Result<StreamAgent, Failure> {
        let spec = &plan.spec;
        let prefix = launch::prefix_sha256(spec, &plan.installation.version);
        let mut translator = plan.translator(opened.resumed, opened.warm, Some(prefix.into()));
        let mut handshake = plan.handshake();
        let mut started = opened.started;
        if started.initialize_response.is_none() {
            let initialized = started.initialize(spec, &mut handshake).await;
            initialized.map_err(ProgramStartError::into_failure)?;
        }
        if let Some(response) = &started.initialize_response {
            translator.read_account(response);
        }
        // In model mode, commands and attachments are turned off in every version.
        let known = plan.installation.features.is_verified() || spec.mode == Mode::Model;
        let reader = if known { TextHandling::Verified } else { TextHandling::Unverified };
        Ok(StreamAgent {
            link: started.link,
            translator,
            tools: handshake.tools,
            settings: StreamAgentSettings {
                title: self.program.title(),
                redactor: self.host.redactor.clone(),
                clock: Arc::clone(&self.host.clock),
                text_handling: reader,
                model_mode: spec.mode == Mode::Model,
            },
            history_text: opened.history_text,
            origin: TurnOrigin::Owner,
            awaits_first_delta: false,
            has_unread_lines: false,
            request_count: 0,
            pending_steers: Vec::new(),
            cost_poll: CostPoll::new(spec.budgets.cost_usd.is_some()),
            session_binding: None,
        })
    }
}

fn pool_starter(plan: LaunchPlan) -> ProcessStarter<StartedProgram> {
    Arc::new(move || {
        let plan = plan.clone();
        Box::pin(async move { plan.start_for_pool().await })
    })
}

fn transcript_failure(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        format!("the agent's transcript of the conversation cannot be {what}: {error}"),
    )
    .with_hint("check the permissions and the free space of the agent's own folder")
}
