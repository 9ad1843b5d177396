//! Runs the turns of a bridge on the engine of this process.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineError, NewSession, RequestKey, Submission, SubmittedTurn, TurnWatch},
    model::{
        ApprovalId, Content, Decision, ExternalName, Failure, SessionRecord, SessionSpec,
        ToolPattern, ToolSet, TurnId, TurnOptions, TurnOrigin,
    },
    ports::{BoxFuture, ProfileRequest, Profiles, StoreError},
};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::{
    AcceptedTurn, BridgeError, BridgeErrorCode, BridgeEventBatch, RunInfo, RunSpec,
    SESSION_NAME_PREFIX, TurnBackend, TurnEventSource, request::RunRequest,
    run_spec::SettingsMatch,
};
use crate::http::OWNER_NAME_SCOPE;

/// How long to wait for a session that another process holds.
const SESSION_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// How long an idempotency key is remembered.
const KEY_LIFETIME: Duration = Duration::from_hours(24);

/// Flags that change the specification of new sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecOverrides {
    /// A run that reaches this many tool calls ends as `partial` and is not resumed automatically.
    pub max_tools: Option<u32>,
    pub tools: Option<ToolSet>,
    /// Added to the profile's disallowed tools.
    pub disallowed: Vec<ToolPattern>,
    pub timeout: Option<Duration>,
    pub first_event_timeout: Option<Duration>,
    pub silence_timeout: Option<Duration>,
}

impl SpecOverrides {
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
        set(&mut spec.timeouts.timeout, self.timeout);
        set(&mut spec.timeouts.first_event, self.first_event_timeout);
        set(&mut spec.timeouts.silence, self.silence_timeout);
        if let Some(fallback) = &mut spec.fallback {
            self.apply(fallback);
        }
    }
}

/// Runs turns on the engine of this process.
pub struct EngineTurns {
    engine: Engine,
    profiles: Arc<dyn Profiles>,
    overrides: SpecOverrides,
}

impl EngineTurns {
    pub fn new(engine: Engine, profiles: Arc<dyn Profiles>, overrides: SpecOverrides) -> Self {
        Self { engine, profiles, overrides }
    }

    async fn find_or_create_session(
        &self,
        ask: &RunSpec,
    ) -> Result<(Arc<SessionRecord>, SettingsMatch), BridgeError> {
        let name = ExternalName {
            scope: OWNER_NAME_SCOPE.into(),
            name: format!("{SESSION_NAME_PREFIX}{}", ask.request.session_id).into(),
        };
        if let Some(known) = self.engine.find_by_name(&name).await? {
            match self.engine.cached_session(known).await {
                Ok(session) => {
                    let spec = &session.spec;
                    let fit = ask.compare_settings(&spec.profile, spec.model.as_deref(), &spec.cwd);
                    return Ok((session, fit));
                }
                // The session was deleted between the two calls: its name is free again.
                Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let wanted = ProfileRequest {
            profile: ask.profile.clone(),
            target: None,
            cwd: ask.cwd.clone(),
            caller_cwd: ask.caller_cwd.clone(),
            model: ask.model.clone(),
            at_terminal: false,
        };
        let mut spec = self.profiles.resolve(wanted).await?;
        self.overrides.apply(&mut spec);
        let new = NewSession { spec, title: None, name: Some(name) };
        let session = self.engine.create_session(new).await?;
        Ok((Arc::new(session), SettingsMatch::Same))
    }

    async fn start(&self, ask: &RunSpec) -> Result<AcceptedTurn, BridgeError> {
        let (session, fit) = self.find_or_create_session(ask).await?;
        let keeps = match fit {
            SettingsMatch::Same => None,
            SettingsMatch::KeepsOwn(what) => Some(what),
            SettingsMatch::Conflict(what) => {
                return Err(BridgeError::new(BridgeErrorCode::SessionDiffers, what));
            }
        };
        let submitted = self.submit(&session, &ask.request).await?;
        let spec = &session.spec;
        let about = RunInfo {
            turn_id: submitted.turn.to_string(),
            angelia_session_id: session.id.to_string(),
            profile: spec.profile.to_string(),
            executor: spec.executor.to_string(),
            model: spec.model.as_deref().map(str::to_owned),
            cwd: spec.cwd.as_path().into(),
            repeats: submitted.is_repeat,
        };
        Ok(AcceptedTurn {
            turn: submitted.turn,
            about,
            settings_notice: keeps,
            events: Box::new(EngineTurnEvents(submitted.watch)),
        })
    }

    async fn submit(
        &self,
        session: &SessionRecord,
        request: &RunRequest,
    ) -> Result<SubmittedTurn, BridgeError> {
        let options = TurnOptions {
            can_ask: true,
            // A host forwards text of others, so nothing in it may act as a command.
            ..TurnOptions::new(TurnOrigin::Remote)
        };
        let key = request.idempotency_key.as_deref().map(|key| RequestKey {
            caller: "owner".into(),
            key: stored_key(key).into(),
            input: None,
            window: KEY_LIFETIME,
        });
        let input = vec![Content::Text(Arc::clone(&request.message))];
        let new = Submission { key, ..Submission::new(session.id, input, options) };
        let patience = Instant::now() + SESSION_WAIT_TIMEOUT;
        loop {
            match self.engine.submit_with(new.clone()).await {
                // Another process runs a turn of this session; most turns are short.
                Err(EngineError::Store(StoreError::Held(_))) if Instant::now() < patience => {
                    sleep(RETRY_INTERVAL).await;
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
    digest.iter().fold(SESSION_NAME_PREFIX.to_owned(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(out, "{byte:02x}");
        out
    })
}

impl TurnBackend for EngineTurns {
    fn begin<'a>(&'a self, ask: &'a RunSpec) -> BoxFuture<'a, Result<AcceptedTurn, BridgeError>> {
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
    ) -> BoxFuture<'_, Result<(), BridgeError>> {
        Box::pin(async move { Ok(self.engine.decide(approval, decision).await?) })
    }
}

struct EngineTurnEvents(TurnWatch);

impl TurnEventSource for EngineTurnEvents {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<BridgeEventBatch>, BridgeError>> {
        Box::pin(async {
            let batch = self.0.next().await.map_err(EngineError::from)?;
            Ok(batch.map(BridgeEventBatch::Local))
        })
    }
}

impl From<Failure> for BridgeError {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind.into(), failure.to_string())
    }
}

impl From<EngineError> for BridgeError {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::Store(StoreError::Held(_) | StoreError::LeaseLost) => {
                BridgeErrorCode::SessionHeld
            }
            EngineError::Store(_) => BridgeErrorCode::Internal,
            EngineError::KeyReused(_) => BridgeErrorCode::KeyReused,
            EngineError::QueueFull { .. } => BridgeErrorCode::SessionBusy,
            EngineError::NotFound(_) => BridgeErrorCode::Invalid,
            EngineError::NotRunning => BridgeErrorCode::NotRunning,
            EngineError::NotPending => BridgeErrorCode::UnknownApproval,
            EngineError::ShuttingDown => BridgeErrorCode::ShuttingDown,
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
