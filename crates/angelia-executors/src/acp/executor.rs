//! Implements the [`Executor`] port for ACP agents.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{
        Content, Failure, FailureKind, NativeSessionId, NoticeLevel, SessionSpec, SystemPrompt,
    },
    ports::{
        Agent, BoxFuture, ConversationError, Executor, ExecutorCapabilities, ExecutorHealth,
        InstalledAgent, LoginState, OpenRequest,
    },
};

use super::{
    agent::AcpAgent,
    launch,
    protocol::outgoing::AcpCall,
    start::{self, AcpSession},
    translate::{AcpContext, AcpTranslator},
};
use crate::{
    claude::transcript,
    host::ExecutorHost,
    pool::{ProcessStarter, WarmPool},
    process::session_binding::SessionBinding,
    prompt_prefix::prefix_fingerprint,
    turn_driver::{DrivenAgent, notice_event},
};

pub(super) const NAME: &str = "acp";

/// Drives ACP agents, with one process per session.
#[derive(Debug)]
pub(super) struct AcpExecutor {
    host: ExecutorHost,
    /// Open conversations that wait for their first turn.
    pool: Option<WarmPool<AcpSession>>,
}

impl Executor for AcpExecutor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        ExecutorCapabilities {
            replace_prompt: false,
            append_prompt: true,
            carry_history: true,
            caller_tools: false,
            tool_choice: false,
            output_schema: false,
            images: true,
            steer: false,
            fork: false,
            resume: true,
            model_mode: false,
            iterations: false,
            delegates: false,
            memory: false,
            compact: false,
        }
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        Box::pin(async move {
            match self.probe_agent(spec).await {
                Ok(installed) => ExecutorHealth {
                    installation: Some(installed),
                    login: LoginState::Unknown,
                    problem: None,
                },
                Err(problem) => ExecutorHealth {
                    installation: None,
                    login: LoginState::Unknown,
                    problem: Some(problem),
                },
            }
        })
    }

    fn inspect<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        let (installation, problem) = match self.find_program(spec) {
            Ok(path) => {
                let version = "an ACP agent".into();
                (Some(InstalledAgent { path, version }), None)
            }
            Err(problem) => (None, Some(problem)),
        };
        let health = ExecutorHealth { installation, login: LoginState::Unknown, problem };
        Box::pin(std::future::ready(health))
    }

    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
        Box::pin(async move {
            let native = opening.native.filter(|_| opening.spec.resume);
            // A pooled agent has a new conversation, so it cannot serve a resumed session.
            let ready = match native {
                None => self.take_warm(opening.spec).await,
                Some(_) => None,
            };
            let (started, warm) = if let Some(started) = ready {
                (started, true)
            } else {
                let started = start::open_session(&self.host, opening.spec, native).await?;
                (started, false)
            };
            let mark = started.process.connection.link.child.mark();
            let binding = self.host.bind_session(mark, opening.session);
            Ok(self.build_agent(opening.spec, started, warm, binding))
        })
    }

    fn warm_up(&self, spec: &SessionSpec) {
        if let Some(pool) = &self.pool
            && is_poolable(spec)
        {
            let start = pool_starter(self.host.clone(), spec.clone());
            pool.declare(&launch::pool_key(spec), spec.warm as usize, start);
        }
    }

    fn fork<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
        Box::pin(async move {
            let message = "an ACP agent cannot copy a conversation";
            let hint = "start a new session, or use another `executor`";
            Err(Failure::new(FailureKind::Invalid, message).with_hint(hint).into())
        })
    }

    fn delete_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let delete = start::call_once(
                &self.host,
                spec,
                |greeting| greeting.can_delete.then(|| AcpCall::delete(native.as_str())),
                "remove the conversation",
            );
            match delete.await {
                Ok(Some(_)) => Ok(()),
                Ok(None) => {
                    tracing::info!(
                        "the ACP agent keeps its record of the conversation: it cannot delete any"
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

impl AcpExecutor {
    /// Creates a warm pool if `host.keep_warm` is set, which requires a running Tokio runtime.
    pub(super) fn new(host: ExecutorHost) -> Self {
        let pool = host.keep_warm.then(|| WarmPool::new(&host.tasks));
        Self { host, pool }
    }

    /// Returns the path of the agent's program.
    fn find_program(&self, spec: &SessionSpec) -> Result<PathBuf, Failure> {
        if spec.command.is_empty() {
            let message = "no profile runs an ACP agent";
            return Err(Failure::new(FailureKind::Unavailable, message).with_hint(
                "if you want one, set `executor: acp` and `command` in a profile, such as \
                 `command: [gemini, --acp]`",
            ));
        }
        let mark = self.host.fresh_mark()?;
        let environment = self.host.child_environment(spec, &[], &mark)?;
        Ok(launch::find_command(&self.host, spec, &environment)?.program)
    }

    async fn probe_agent(&self, spec: &SessionSpec) -> Result<InstalledAgent, Failure> {
        let path = self.find_program(spec)?;
        let running = start::start_process(&self.host, spec).await?;
        let greeting = running.agent.clone();
        running.close().await;
        let version = greeting.agent_version.as_deref().unwrap_or("of ACP 1");
        let version = match &greeting.title {
            Some(title) => format!("{title} {version}"),
            None => version.to_owned(),
        };
        Ok(InstalledAgent { path, version: version.into() })
    }

    /// Takes an agent out of the warm pool, if one fits `spec`.
    async fn take_warm(&self, spec: &SessionSpec) -> Option<AcpSession> {
        let pool = self.pool.as_ref()?;
        if !is_poolable(spec) {
            return None;
        }
        let start = pool_starter(self.host.clone(), spec.clone());
        pool.take(&launch::pool_key(spec), spec.warm as usize, start).await
    }

    fn build_agent(
        &self,
        spec: &SessionSpec,
        started: AcpSession,
        warm: bool,
        session_binding: SessionBinding,
    ) -> Box<dyn Agent> {
        let AcpSession { process: running, conversation, usage_updates } = started;
        let version = running.agent.agent_version.clone().unwrap_or_default();
        let mut startup_events = Vec::new();
        let mut preface = Vec::new();
        if !conversation.resumed {
            if let SystemPrompt::Append(text) = &spec.system {
                preface.push(Content::Text(Arc::clone(text)));
            }
            if !spec.history.is_empty() {
                preface.push(Content::text(transcript::history_as_text(&spec.history)));
                let text = "ACP cannot transfer a history; it was sent to the agent as text";
                startup_events.push(notice_event(
                    NoticeLevel::Info,
                    "history_as_text",
                    text.to_owned(),
                ));
            }
        }
        let mut translator = AcpTranslator::new(AcpContext {
            profile: Arc::clone(&spec.profile),
            executor: NAME.into(),
            session: conversation.session,
            model: conversation.model,
            resumed: conversation.resumed,
            warm,
            prefix_sha256: Some(prefix_fingerprint(spec, &version).sha256().into()),
            roots: vec![spec.cwd.clone(), running.service.root().to_owned()],
            agent: running.agent,
            reports_cost: spec.budgets.cost_usd.is_some(),
        });
        // The usage of a resumed conversation is the baseline for the cost of its first turn.
        for params in &usage_updates {
            translator.on_notification("session/update", Some(params), &mut Vec::new());
        }
        let agent = AcpAgent {
            connection: running.connection,
            translator,
            service: running.service,
            redactor: self.host.redactor.clone(),
            preface,
            // An agent may still replay the conversation after it has answered `session/load`.
            unsettled: conversation.resumed,
            announce_at: None,
            _session_binding: session_binding,
        };
        Box::new(DrivenAgent::new(agent, startup_events))
    }
}

/// Reports whether an agent for `spec` may wait in the pool. A session with its own history is not
/// pooled, because no other session could use its agent.
fn is_poolable(spec: &SessionSpec) -> bool {
    spec.warm > 0 && spec.history.is_empty() && launch::check_spec(spec).is_ok()
}

fn pool_starter(host: ExecutorHost, spec: SessionSpec) -> ProcessStarter<AcpSession> {
    Arc::new(move || {
        let (host, spec) = (host.clone(), spec.clone());
        Box::pin(async move { Ok(start::open_session(&host, &spec, None).await?) })
    })
}
