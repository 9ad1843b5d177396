//! Implements the [`Executor`] port for ACP agents.

use std::sync::Arc;

use angelia_core::{
    model::{
        Content, EventKind, Failure, FailureKind, Level, NativeSessionId, Notice, SessionSpec,
        SystemPrompt,
    },
    ports::{Agent, BoxFuture, Capabilities, Emitted, Executor, Health, Installed, Login, Opening},
};

use super::{
    agent::AcpAgent,
    launch,
    protocol::outgoing::Call,
    start::{self, Started},
    translate::{Context, Translator},
};
use crate::{
    claude::transcript,
    host::Host,
    pool::{Start, WarmPool},
};

pub(super) const NAME: &str = "acp";

/// Drives ACP agents, with one process per session.
#[derive(Debug)]
pub(super) struct Acp {
    host: Host,
    /// Open conversations that wait for their first turn.
    pool: Option<WarmPool<Started>>,
}

impl Executor for Acp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            replace_prompt: false,
            append_prompt: true,
            carry_history: true,
            caller_tools: false,
            output_schema: false,
            images: true,
            steer: false,
            fork: false,
            resume: true,
            model_mode: false,
        }
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, Health> {
        Box::pin(async move {
            match self.look(spec).await {
                Ok(installed) => {
                    Health { installed: Some(installed), login: Login::Unknown, problem: None }
                }
                Err(problem) => {
                    Health { installed: None, login: Login::Unknown, problem: Some(problem) }
                }
            }
        })
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Box<dyn Agent>, Failure>> {
        Box::pin(async move {
            let native = opening.native.filter(|_| opening.spec.resume);
            // A pooled agent has a new conversation, so it cannot serve a resumed session.
            let ready = match native {
                None => self.waiting(opening.spec).await,
                Some(_) => None,
            };
            let (started, warm) = if let Some(started) = ready {
                (started, true)
            } else {
                let started = start::open(&self.host, opening.spec, native).await?;
                (started, false)
            };
            let mut agent = self.agent(opening.spec, started, warm);
            let mark = agent.connection.link.child.mark();
            agent.bound = Some(self.host.bind(mark, opening.session));
            Ok(Box::new(agent) as Box<dyn Agent>)
        })
    }

    fn warm_up(&self, spec: &SessionSpec) {
        if let Some(pool) = &self.pool
            && can_wait(spec)
        {
            let start = starter(self.host.clone(), spec.clone());
            pool.declare(&launch::shape(spec), spec.warm as usize, start);
        }
    }

    fn fork<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, Failure>> {
        Box::pin(async move {
            let message = "an ACP agent cannot copy a conversation";
            Err(Failure::new(FailureKind::Invalid, message)
                .with_hint("start a new session, or use another `executor`"))
        })
    }

    fn forget<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let delete = start::ask(
                &self.host,
                spec,
                |greeting| greeting.deletes.then(|| Call::delete(native.as_str())),
                "remove the conversation",
            );
            match delete.await {
                Ok(Some(_)) => Ok(()),
                Ok(None) => {
                    tracing::info!(
                        "the ACP agent keeps its record of the conversation: it offers no deletion"
                    );
                    Ok(())
                }
                // The agent does not know the conversation, so there is nothing to delete.
                Err(failure) if failure.kind == FailureKind::Invalid => Ok(()),
                Err(failure) => Err(failure),
            }
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

impl Acp {
    /// Creates a warm pool if `host.keep_warm` is set, which requires a running Tokio runtime.
    pub(super) fn new(host: Host) -> Self {
        let pool = host.keep_warm.then(|| WarmPool::new(&host.tasks));
        Self { host, pool }
    }

    async fn look(&self, spec: &SessionSpec) -> Result<Installed, Failure> {
        if spec.command.is_empty() {
            let message = "no profile runs an ACP agent";
            return Err(Failure::new(FailureKind::Unavailable, message).with_hint(
                "if you want one, set `executor: acp` and `command` in a profile, such as \
                 `command: [gemini, --acp]`",
            ));
        }
        let mark = self.host.fresh_mark()?;
        let environment = self.host.child_environment(spec, &[], &mark)?;
        let found = launch::find(&self.host, spec, &environment)?;
        let running = start::run(&self.host, spec).await?;
        let greeting = running.greeting.clone();
        running.close().await;
        let version = greeting.agent_version.as_deref().unwrap_or("of ACP 1");
        let version = match &greeting.title {
            Some(title) => format!("{title} {version}"),
            None => version.to_owned(),
        };
        Ok(Installed { path: found.program, version: version.into() })
    }

    /// Takes an agent out of the warm pool, if one fits `spec`.
    async fn waiting(&self, spec: &SessionSpec) -> Option<Started> {
        let pool = self.pool.as_ref()?;
        if !can_wait(spec) {
            return None;
        }
        let start = starter(self.host.clone(), spec.clone());
        pool.take(&launch::shape(spec), spec.warm as usize, start).await
    }

    fn agent(&self, spec: &SessionSpec, started: Started, warm: bool) -> AcpAgent {
        let running = started.running;
        let version = running.greeting.agent_version.clone().unwrap_or_default();
        let mut first_words = Vec::new();
        let mut preface = Vec::new();
        if !started.resumed {
            if let SystemPrompt::Append(text) = &spec.system {
                preface.push(Content::Text(Arc::clone(text)));
            }
            if !spec.history.is_empty() {
                preface.push(Content::text(transcript::as_text(&spec.history)));
                let text = "ACP cannot transfer a history; it was sent to the agent as text";
                first_words.push(notice(Level::Info, "history_as_text", text.to_owned()));
            }
        }
        if started.lost {
            let agent = running.greeting.name();
            let text = format!(
                "{agent} no longer has this conversation, or cannot resume it; it starts a new one \
                 and does not know what was said before"
            );
            first_words.push(notice(Level::Warning, "resume_lost", text));
        }
        let mut translator = Translator::new(Context {
            profile: Arc::clone(&spec.profile),
            executor: NAME.into(),
            session: started.session,
            model: started.model,
            resumed: started.resumed,
            warm,
            prefix_sha256: Some(launch::prefix_sha256(spec, &version).into()),
            roots: vec![spec.cwd.clone(), running.service.root().to_owned()],
            permissions: spec.permissions.clone(),
            greeting: running.greeting,
            tells_cost: spec.budgets.cost_usd.is_some(),
        });
        // The usage of a resumed conversation is the baseline for the cost of its first turn.
        for said in &started.heard {
            translator.notification("session/update", Some(said), &mut Vec::new());
        }
        AcpAgent {
            connection: running.connection,
            translator,
            service: running.service,
            redactor: self.host.redactor.clone(),
            first_words,
            preface,
            // An agent may still replay the conversation after it has answered `session/load`.
            unsettled: started.resumed,
            retired: false,
            in_turn: false,
            bound: None,
        }
    }
}

/// Returns whether an agent for `spec` may wait in the pool. A session with a history of its own is
/// not pooled, because no other session could use that agent.
fn can_wait(spec: &SessionSpec) -> bool {
    spec.warm > 0 && spec.history.is_empty() && launch::check(spec).is_ok()
}

fn starter(host: Host, spec: SessionSpec) -> Start<Started> {
    Arc::new(move || {
        let (host, spec) = (host.clone(), spec.clone());
        Box::pin(async move { start::start(&host, &spec).await })
    })
}

fn notice(level: Level, code: &str, text: String) -> Emitted {
    Emitted::Event(EventKind::Notice(Notice::new(level, code, text)))
}
