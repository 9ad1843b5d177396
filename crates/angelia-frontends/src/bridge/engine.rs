//! Runs the turns of a bridge on the engine of this process.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineError, NewSession, RequestKey, Submission, Submitted, Watch},
    model::{
        ApprovalId, Content, Decision, ExternalName, Failure, Origin, SessionRecord, SessionSpec,
        ToolPattern, ToolSet, TurnId, TurnOptions,
    },
    ports::{BoxFuture, Profiles, StoreError, Wanted},
};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::{
    About, Ask, Batch, Begun, Code, Events, NAMES, Refused, Turns, ask::Fit, request::RunRequest,
};
use crate::http::OWNERS_NAMES;

/// How long to wait for a session that another process holds.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);

/// How long an idempotency key is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);

/// Flags that change the specification of new sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// A run that reaches this many tool calls ends as `partial` and is not resumed automatically.
    pub max_tools: Option<u32>,
    pub tools: Option<ToolSet>,
    /// Added to the profile's disallowed tools.
    pub disallowed: Vec<ToolPattern>,
    pub timeout: Option<Duration>,
    pub first_event_timeout: Option<Duration>,
    pub silence_timeout: Option<Duration>,
}

impl Overrides {
    fn apply(&self, spec: &mut SessionSpec) {
        if let Some(count) = self.max_tools {
            spec.budgets.tools = Some(count);
            spec.budgets.resumes = 0;
        }
        if let Some(tools) = &self.tools {
            spec.tools.clone_from(tools);
        }
        spec.permissions.disallowed.extend(self.disallowed.iter().cloned());
        let set = |clock: &mut Duration, wanted: Option<Duration>| {
            *clock = wanted.unwrap_or(*clock);
        };
        set(&mut spec.clocks.timeout, self.timeout);
        set(&mut spec.clocks.first_event, self.first_event_timeout);
        set(&mut spec.clocks.silence, self.silence_timeout);
        if let Some(fallback) = &mut spec.fallback {
            self.apply(fallback);
        }
    }
}

/// Runs turns on the engine of this process.
pub struct EngineTurns {
    engine: Engine,
    profiles: Arc<dyn Profiles>,
    overrides: Overrides,
}

impl EngineTurns {
    pub fn new(engine: Engine, profiles: Arc<dyn Profiles>, overrides: Overrides) -> Self {
        Self { engine, profiles, overrides }
    }

    async fn session(&self, ask: &Ask) -> Result<(Arc<SessionRecord>, Fit), Refused> {
        let name = ExternalName {
            scope: OWNERS_NAMES.into(),
            name: format!("{NAMES}{}", ask.request.session_id).into(),
        };
        if let Some(known) = self.engine.named(&name).await? {
            match self.engine.to_continue(known).await {
                Ok(session) => {
                    let spec = &session.spec;
                    let fit = ask.fit(&spec.profile, spec.model.as_deref(), &spec.cwd);
                    return Ok((session, fit));
                }
                // The session was deleted between the two calls: its name is free again.
                Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let wanted = Wanted {
            profile: ask.profile.clone(),
            target: None,
            cwd: ask.cwd.clone(),
            caller_cwd: ask.caller_cwd.clone(),
            model: ask.model.clone(),
            at_terminal: false,
        };
        let mut spec = self.profiles.spec(wanted).await?;
        self.overrides.apply(&mut spec);
        let new = NewSession { spec, title: None, name: Some(name) };
        let session = self.engine.create_session(new).await?;
        Ok((Arc::new(session), Fit::Fits))
    }

    async fn start(&self, ask: &Ask) -> Result<Begun, Refused> {
        let (session, fit) = self.session(ask).await?;
        let keeps = match fit {
            Fit::Fits => None,
            Fit::Keeps(what) => Some(what),
            Fit::Differs(what) => return Err(Refused::new(Code::SessionDiffers, what)),
        };
        let submitted = self.submit(&session, &ask.request).await?;
        let spec = &session.spec;
        let about = About {
            turn_id: submitted.turn.to_string(),
            angelia_session_id: session.id.to_string(),
            profile: spec.profile.to_string(),
            executor: spec.executor.to_string(),
            model: spec.model.as_deref().map(str::to_owned),
            cwd: spec.cwd.as_path().into(),
            repeats: submitted.repeats,
        };
        Ok(Begun {
            turn: submitted.turn,
            about,
            keeps,
            events: Box::new(Followed(submitted.watch)),
        })
    }

    async fn submit(
        &self,
        session: &SessionRecord,
        request: &RunRequest,
    ) -> Result<Submitted, Refused> {
        let options = TurnOptions {
            can_ask: true,
            // A host forwards text of others, so nothing in it may act as a command.
            ..TurnOptions::new(Origin::Remote)
        };
        let key = request.idempotency_key.as_deref().map(|key| RequestKey {
            caller: "owner".into(),
            key: stored_key(key).into(),
            input: None,
            window: REMEMBERED,
        });
        let input = vec![Content::Text(Arc::clone(&request.message))];
        let new = Submission { key, follows: true, ..Submission::new(session.id, input, options) };
        let patience = Instant::now() + PATIENCE;
        loop {
            match self.engine.submit_as(new.clone()).await {
                // Another process runs a turn of this session; most turns are short.
                Err(EngineError::Store(StoreError::Held(_))) if Instant::now() < patience => {
                    sleep(RETRY).await;
                }
                submitted => return Ok(submitted?),
            }
        }
    }
}

/// Returns the stored form of a host's idempotency key: a hash, so that any text works, with a
/// prefix that separates it from the keys of other frontends.
pub fn stored_key(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().fold(NAMES.to_owned(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(out, "{byte:02x}");
        out
    })
}

impl Turns for EngineTurns {
    fn begin<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Begun, Refused>> {
        Box::pin(self.start(ask))
    }

    fn interrupt(&self, turn: TurnId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(error) = self.engine.interrupt(turn, false).await {
                tracing::debug!(%turn, %error, "cannot interrupt the turn");
            }
        })
    }

    fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move { Ok(self.engine.decide(approval, decision).await?) })
    }
}

struct Followed(Watch);

impl Events for Followed {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Batch>, Refused>> {
        Box::pin(async {
            let batch = self.0.next().await.map_err(EngineError::from)?;
            Ok(batch.map(Batch::Here))
        })
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind.into(), failure.to_string())
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::Store(StoreError::Held(_) | StoreError::LeaseLost) => Code::SessionHeld,
            EngineError::Store(_) => Code::Internal,
            EngineError::KeyReused(_) => Code::KeyReused,
            EngineError::QueueFull { .. } => Code::SessionBusy,
            EngineError::NotFound(_) => Code::Invalid,
            EngineError::NotRunning => Code::NotRunning,
            EngineError::NotPending => Code::UnknownApproval,
            EngineError::ShuttingDown => Code::ShuttingDown,
            EngineError::Failed(failure) => failure.kind.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl std::fmt::Debug for EngineTurns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineTurns").field("overrides", &self.overrides).finish_non_exhaustive()
    }
}
