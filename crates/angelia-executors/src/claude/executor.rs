//! The executor for every program that speaks the stream-json protocol.

use std::{io, path::Path, sync::Arc};

use angelia_core::{
    model::{
        Content, EventKind, Failure, FailureKind, Level, Mode, NativeSessionId, Notice, SessionSpec,
    },
    ports::{Agent, BoxFuture, Capabilities, Emitted, Executor, Health, Opening},
};
use uuid::Uuid;

use super::{
    agent::{Settings, Spending, StreamAgent},
    caller_tools::CallerTools,
    escape::Reader,
    launch::{self, Conversation},
    program::Program,
    start::{Handshake, NotStarted, Recipe, Started, empty_folder},
    transcript::{self, Carried, Transcripts},
};
use crate::{
    host::Host,
    pool::{Start, WarmPool},
};

#[derive(Debug)]
pub(crate) struct StreamExecutor {
    host: Host,
    program: Arc<dyn Program>,
    pool: Option<WarmPool<Started>>,
}

/// A started program for a session, and how it was started.
struct Opened {
    started: Started,
    resumed: bool,
    warm: bool,
    first_words: Vec<Emitted>,
    preface: Option<Content>,
}

impl Opened {
    fn plain(started: Started) -> Self {
        Self { started, resumed: false, warm: false, first_words: Vec::new(), preface: None }
    }
}

impl Executor for StreamExecutor {
    fn name(&self) -> &'static str {
        self.program.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.program.capabilities()
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, Health> {
        self.program.health(&self.host, spec)
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Box<dyn Agent>, Failure>> {
        Box::pin(async move {
            let recipe = Recipe::new(&self.host, &self.program, opening.spec).await?;
            let opened = self.opened(&recipe, opening).await?;
            let mut agent = self.agent(&recipe, opened).await?;
            // Only in agent mode can the program start our own programs, which read the binding.
            if recipe.spec.mode == Mode::Agent {
                let mark = agent.link.child.mark();
                agent.bound = Some(self.host.bind(mark, opening.session));
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
            match Recipe::new(&host, &program, &spec).await {
                Ok(recipe) => {
                    let shape = launch::shape(&recipe.spec, &recipe.installation.version);
                    pool.declare(&shape, spec.warm as usize, waiting(recipe));
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
            self.on_transcripts(spec, "copied", move |transcripts, cwd| {
                transcripts.copy(&id, cwd, copy)
            })
            .await?;
            Ok(NativeSessionId::new(copy.to_string()))
        })
    }

    fn forget<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let id = native.as_str().to_owned();
        Box::pin(
            self.on_transcripts(spec, "removed", move |transcripts, cwd| {
                transcripts.remove(&id, cwd)
            }),
        )
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
    pub(crate) fn new(host: Host, program: Arc<dyn Program>) -> Self {
        let pool = host.keep_warm.then(|| WarmPool::new(&host.tasks));
        Self { host, program, pool }
    }

    fn transcripts(&self, spec: &SessionSpec) -> Result<Option<Transcripts>, Failure> {
        let mark = self.host.fresh_mark()?;
        let environment = self.host.child_environment(spec, &[], &mark)?;
        Ok(self.program.transcripts(&environment))
    }

    /// Runs a blocking operation on the program's own conversation files, off the runtime.
    async fn on_transcripts(
        &self,
        spec: &SessionSpec,
        what: &str,
        act: impl FnOnce(&Transcripts, &Path) -> io::Result<()> + Send + 'static,
    ) -> Result<(), Failure> {
        let spec = launch::effective(spec, &empty_folder(&self.host.work_dir)).into_owned();
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

    async fn opened(&self, recipe: &Recipe, opening: Opening<'_>) -> Result<Opened, Failure> {
        let native = opening.native.filter(|_| recipe.spec.resume);
        let Some(native) = native else {
            return self.new_conversation(recipe).await;
        };
        let transcripts = self.transcripts(&recipe.spec)?;
        let known =
            transcripts.is_none_or(|known| known.find(native.as_str(), &recipe.spec.cwd).is_some());
        if known {
            let conversation = Conversation::Resume(native.as_str());
            match recipe.start(conversation).await {
                Ok(started) => {
                    return Ok(Opened { resumed: true, ..Opened::plain(started) });
                }
                Err(NotStarted::Failed(failure)) => return Err(failure),
                Err(NotStarted::ConversationLost) => {}
            }
        }
        let mut opened = self.new_conversation(recipe).await?;
        opened.first_words.push(notice(
            "resume_lost",
            format!(
                "{} no longer has this conversation; it starts anew and does not know what was \
                 said before",
                self.program.title()
            ),
        ));
        Ok(opened)
    }

    async fn new_conversation(&self, recipe: &Recipe) -> Result<Opened, Failure> {
        if !recipe.spec.history.is_empty() {
            return self.carried(recipe).await;
        }
        if let Some(pool) = &self.pool {
            let shape = launch::shape(&recipe.spec, &recipe.installation.version);
            let count = recipe.spec.warm as usize;
            let waiting = waiting(recipe.clone());
            if let Some(started) = pool.take(&shape, count, waiting).await {
                return Ok(Opened { warm: true, ..Opened::plain(started) });
            }
        }
        let id = self.host.clock.fresh_uuid();
        self.start_new(recipe, id).await.map(Opened::plain)
    }

    async fn start_new(&self, recipe: &Recipe, id: Uuid) -> Result<Started, Failure> {
        match recipe.start(Conversation::New(id)).await {
            Ok(started) => Ok(started),
            Err(NotStarted::Failed(failure)) => Err(failure),
            Err(NotStarted::ConversationLost) => {
                Err(Failure::new(FailureKind::Agent, "a new conversation was refused as unknown"))
            }
        }
    }

    /// Starts a conversation with a history that happened elsewhere. The history is written as the
    /// program's own transcript and resumed; a program that does not accept the transcript gets the
    /// history as plain text before the first message.
    async fn carried(&self, recipe: &Recipe) -> Result<Opened, Failure> {
        let id = self.host.clock.fresh_uuid();
        let (carried, at) = (recipe.clone(), self.host.clock.now());
        self.on_transcripts(&recipe.spec, "written", move |transcripts, cwd| {
            transcripts.write(&Carried {
                id,
                cwd,
                version: &carried.installation.version,
                model: carried.spec.model.as_deref(),
                history: &carried.spec.history,
                at,
            })
        })
        .await?;
        match recipe.start(Conversation::Resume(&id.to_string())).await {
            Ok(started) => Ok(Opened::plain(started)),
            Err(NotStarted::Failed(failure)) => Err(failure),
            Err(NotStarted::ConversationLost) => {
                let other = self.host.clock.fresh_uuid();
                let mut opened = Opened::plain(self.start_new(recipe, other).await?);
                opened.preface = Some(Content::text(transcript::as_text(&recipe.spec.history)));
                opened.first_words.push(notice(
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

    async fn agent(&self, recipe: &Recipe, opened: Opened) -> Result<StreamAgent, Failure> {
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
        if started.greeting.is_none() {
            match started.initialize(spec, &mut parts).await {
                Ok(()) => {}
                Err(NotStarted::Failed(failure)) => return Err(failure),
                Err(NotStarted::ConversationLost) => {
                    return Err(Failure::new(FailureKind::Agent, "the process was lost"));
                }
            }
        }
        // Another translator may have read the handshake. Replay the `initialize` response, which
        // names the billing lane.
        if let Some(greeting) = &started.greeting {
            let line = greeting.strip_suffix(b"\n").unwrap_or(greeting);
            parts.translator.line(line, &mut Vec::new());
        }
        // In model mode commands and attachments are switched off, whatever the version.
        let known = recipe.installation.features.is_known() || spec.mode == Mode::Model;
        let reader = if known { Reader::Known } else { Reader::Unknown };
        Ok(StreamAgent {
            link: started.link,
            translator: parts.translator,
            tools: parts.tools,
            settings: Settings {
                title: self.program.title(),
                redactor: self.host.redactor.clone(),
                clock: Arc::clone(&self.host.clock),
                reader,
                model_mode: spec.mode == Mode::Model,
            },
            first_words: opened.first_words,
            preface: opened.preface,
            retired: false,
            in_turn: false,
            requests: 0,
            held: Vec::new(),
            spending: Spending::new(spec.budgets.cost_usd.is_some()),
            bound: None,
        })
    }
}

fn waiting(recipe: Recipe) -> Start<Started> {
    Arc::new(move || {
        let recipe = recipe.clone();
        Box::pin(async move { recipe.start_waiting().await })
    })
}

fn notice(code: &str, text: String) -> Emitted {
    Emitted::Event(EventKind::Notice(Notice::new(Level::Warning, code, text)))
}

fn transcript_failure(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        format!("the agent's transcript of the conversation cannot be {what}: {error}"),
    )
    .with_hint("check the permissions and the free space of the agent's own folder")
}
