//! Runs turns on the engine of this process.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineError, EventBatch, NewSession, RequestKey, Submission, TurnWatch},
    model::{
        ApprovalId, AuditAction, AuditActor, Decision, SessionId, SessionSpec, ToolPattern,
        ToolSet, TurnId, TurnOptions, TurnOrigin,
    },
    ports::{Executor, Profiles},
};
use tokio_util::sync::CancellationToken;

use super::{AcceptedTurn, ServiceFuture, TurnEventSource, TurnService, TurnSubmission};
use crate::{
    http::{
        CompactionResult, IDEMPOTENCY_WINDOW, NewSessionBody, owners_name,
        resources::{SessionResource, TurnResource},
    },
    mcp::lineage::{account_of_session, delegating_session},
};

/// Flags that change the specification of new sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecOverrides {
    /// After this many requests to the model, or tool calls where only these can be counted, a turn
    /// ends as `partial` and is not resumed automatically.
    pub max_iterations: Option<u32>,
    pub tools: Option<ToolSet>,
    /// Added to the profile's disallowed tools.
    pub disallowed: Vec<ToolPattern>,
    pub timeout: Option<Duration>,
    pub first_event_timeout: Option<Duration>,
    pub silence_timeout: Option<Duration>,
}

impl SpecOverrides {
    /// Applies the flags to a specification, which names one of the `executors`.
    fn apply(&self, spec: &mut SessionSpec, executors: &[Arc<dyn Executor>]) {
        if let Some(count) = self.max_iterations {
            let executor = executors.iter().find(|one| one.name() == &*spec.executor);
            if executor.is_some_and(|executor| executor.capabilities().iterations) {
                spec.native.max_iterations = count;
            } else {
                spec.budgets.tools = Some(count);
                spec.budgets.resumes = 0;
            }
        }
        if let Some(tools) = &self.tools {
            spec.tools.clone_from(tools);
        }
        spec.permissions.disallowed.extend(self.disallowed.iter().cloned());
        let set = |clock: &mut Duration, wanted: Option<Duration>| {
            *clock = wanted.unwrap_or(*clock);
        };
        set(&mut spec.timeouts.timeout, self.timeout);
        set(&mut spec.timeouts.first_event, self.first_event_timeout);
        set(&mut spec.timeouts.silence, self.silence_timeout);
        if let Some(fallback) = &mut spec.fallback {
            self.apply(fallback, executors);
        }
    }
}

pub struct EngineTurns {
    engine: Engine,
    profiles: Arc<dyn Profiles>,
    overrides: SpecOverrides,
}

impl EngineTurns {
    pub fn new(engine: Engine, profiles: Arc<dyn Profiles>, overrides: SpecOverrides) -> Self {
        Self { engine, profiles, overrides }
    }
}

impl TurnService for EngineTurns {
    fn is_shared(&self) -> bool {
        false
    }

    fn session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move {
            let session = self.engine.cached_session(id).await?;
            Ok(SessionResource::with_older_settings(&session, &*self.profiles).await)
        })
    }

    fn find_session<'a>(&'a self, name: &'a str) -> ServiceFuture<'a, Option<SessionResource>> {
        Box::pin(async move {
            let Some(id) = self.engine.find_by_name(&owners_name(name)).await? else {
                return Ok(None);
            };
            match self.engine.cached_session(id).await {
                Ok(session) => {
                    let session = SessionResource::with_older_settings(&session, &*self.profiles);
                    Ok(Some(session.await))
                }
                // The session was deleted between the two calls, so its name is free again.
                Err(EngineError::NotFound(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn create_session(
        &self,
        new: NewSessionBody,
        at_terminal: bool,
    ) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move {
            let source = new.session_source().ok();
            let (wanted, title, name) = new.into_parts(at_terminal);
            let mut spec = self.profiles.resolve(wanted).await?;
            self.overrides.apply(&mut spec, self.engine.executors());
            let new = NewSession { spec, title, name, source };
            let session = self.engine.create_session(new).await?;
            Ok((&session).into())
        })
    }

    fn change_model(&self, id: SessionId, model: Arc<str>) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move {
            let changed = self.engine.change_session(id, |spec| spec.model = Some(model)).await?;
            Ok((&changed).into())
        })
    }

    fn fork_session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource> {
        Box::pin(async move { Ok((&self.engine.fork_session(id).await?).into()) })
    }

    fn compact_session(&self, id: SessionId) -> ServiceFuture<'_, CompactionResult> {
        Box::pin(async move {
            let options = TurnOptions::new(TurnOrigin::Owner);
            Ok(self.engine.compact(id, options).await?.into())
        })
    }

    fn delete_session(&self, id: SessionId) -> ServiceFuture<'_, ()> {
        Box::pin(async move {
            self.engine.delete_session(id).await?;
            let subject = format!("session {id}");
            self.engine.record_audit(AuditActor::Terminal, AuditAction::Deletion, subject).await;
            Ok(())
        })
    }

    fn submit(&self, new: TurnSubmission) -> ServiceFuture<'_, AcceptedTurn> {
        Box::pin(async move {
            let mut options = new.body.options(new.origin)?;
            if let Some(from) = options.caller.as_deref().and_then(delegating_session) {
                options.charged_to = Some(account_of_session(&self.engine, from).await?);
            }
            let key = new.key.map(|key| RequestKey {
                caller: "owner".into(),
                key: key.into(),
                input: None,
                window: IDEMPOTENCY_WINDOW,
            });
            let one_off = new.body.one_off;
            let submission = Submission {
                key,
                one_off,
                ..Submission::new(new.session, new.body.input.0, options)
            };
            let never = CancellationToken::new();
            let submitted = self.engine.submit_when_free(submission, &never).await?;
            Ok(AcceptedTurn {
                turn: submitted.turn,
                is_repeat: submitted.is_repeat,
                events: Box::new(submitted.watch),
            })
        })
    }

    fn watch(&self, turn: TurnId) -> ServiceFuture<'_, Box<dyn TurnEventSource>> {
        Box::pin(async move { Ok(Box::new(self.engine.watch(turn, 0).await?) as _) })
    }

    fn turn(&self, id: TurnId) -> ServiceFuture<'_, TurnResource> {
        Box::pin(async move { Ok((&self.engine.turn(id).await?).into()) })
    }

    fn interrupt(&self, turn: TurnId, kill: bool) -> ServiceFuture<'_, ()> {
        Box::pin(async move { Ok(self.engine.interrupt(turn, kill).await?) })
    }

    fn decide(&self, approval: ApprovalId, decision: Decision) -> ServiceFuture<'_, ()> {
        Box::pin(async move {
            let subject = format!("approval {approval}: {}", decision.verdict.as_str());
            self.engine.decide(approval, decision).await?;
            self.engine.record_audit(AuditActor::Terminal, AuditAction::Decision, subject).await;
            Ok(())
        })
    }
}

impl TurnEventSource for TurnWatch {
    fn next(&mut self) -> ServiceFuture<'_, Option<EventBatch>> {
        Box::pin(async move { Ok(Self::next(self).await?) })
    }
}

impl std::fmt::Debug for EngineTurns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineTurns").field("overrides", &self.overrides).finish_non_exhaustive()
    }
}
