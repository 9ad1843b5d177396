//! Runs the turns of a bridge in the daemon of this home.

use angelia_core::{
    model::{ApprovalId, Decision, FailureKind, TurnId},
    ports::BoxFuture,
};
use angelia_frontends::{
    bridge::{
        AcceptedTurn, BridgeError, BridgeErrorCode, BridgeEventBatch, RunInfo, RunSpec,
        SESSION_NAME_PREFIX, SettingsMatch, TurnBackend, TurnEventSource, stored_key,
    },
    http::resources::SessionResource,
};

use crate::client::{self, ClientError, DaemonClient, HostTurn, NewSessionRequest};

#[derive(Debug)]
pub(super) struct DaemonTurns {
    daemon: DaemonClient,
}

impl DaemonTurns {
    pub(super) fn new(daemon: DaemonClient) -> Self {
        Self { daemon }
    }

    async fn start(&self, ask: &RunSpec) -> Result<AcceptedTurn, BridgeError> {
        let name = format!("{SESSION_NAME_PREFIX}{}", ask.request.session_id);
        let (session, fit) = match self.daemon.find_by_name(&name).await? {
            Some(session) => {
                let model = session.model.as_deref();
                let fit = ask.compare_settings(&session.profile, model, &session.cwd);
                (session, fit)
            }
            None => (self.create(ask, name).await?, SettingsMatch::Same),
        };
        let keeps = match fit {
            SettingsMatch::Same => None,
            SettingsMatch::KeepsOwn(what) => Some(what),
            SettingsMatch::Conflict(what) => {
                return Err(BridgeError::new(BridgeErrorCode::SessionDiffers, what));
            }
        };
        let key = ask.request.idempotency_key.as_deref().map(stored_key);
        let turn = HostTurn { text: &ask.request.message, key: key.as_deref() };
        let (accepted, repeats) = self.daemon.submit_for_host(session.id, &turn).await?;
        let turn = accepted.id;
        // A turn that this bridge started ends with its connection. A repeated request only follows
        // a turn that another connection started.
        let events = if repeats {
            self.daemon.events(turn, 0).await?
        } else {
            self.daemon.hold_turn(turn).await?
        };
        Ok(AcceptedTurn {
            turn,
            about: describe_turn(&session, turn, repeats),
            settings_notice: keeps,
            events: Box::new(DaemonTurnEvents(events)),
        })
    }

    async fn create(&self, ask: &RunSpec, name: String) -> Result<SessionResource, ClientError> {
        let new = NewSessionRequest {
            profile: ask.profile.as_deref().map(str::to_owned),
            cwd: ask.cwd.clone(),
            caller_cwd: ask.caller_cwd.clone(),
            model: ask.model.as_deref().map(str::to_owned),
            name: Some(name),
            ..NewSessionRequest::default()
        };
        self.daemon.create_session(&new).await
    }
}

fn describe_turn(session: &SessionResource, turn: TurnId, repeats: bool) -> RunInfo {
    RunInfo {
        turn_id: turn.to_string(),
        angelia_session_id: session.id.to_string(),
        profile: session.profile.clone(),
        executor: session.executor.clone(),
        model: session.model.clone(),
        cwd: session.cwd.as_path().into(),
        repeats,
    }
}

impl TurnBackend for DaemonTurns {
    fn begin<'a>(&'a self, ask: &'a RunSpec) -> BoxFuture<'a, Result<AcceptedTurn, BridgeError>> {
        Box::pin(async move { self.start(ask).await })
    }

    fn interrupt(&self, turn: TurnId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(error) = self.daemon.interrupt(turn, false).await {
                tracing::debug!(%turn, %error, "the turn could not be interrupted");
            }
        })
    }

    fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<(), BridgeError>> {
        Box::pin(async move {
            let decided = self.daemon.decide(approval, &decision).await;
            decided.map_err(|error| match error {
                ClientError::Refused(detail) if detail.kind == "conflict" => {
                    BridgeError::new(BridgeErrorCode::UnknownApproval, detail.message)
                }
                error => error.into(),
            })
        })
    }
}

struct DaemonTurnEvents(client::TurnEvents);

impl TurnEventSource for DaemonTurnEvents {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<BridgeEventBatch>, BridgeError>> {
        Box::pin(async { Ok(self.0.next().await?.map(BridgeEventBatch::Remote)) })
    }
}

impl From<ClientError> for BridgeError {
    fn from(error: ClientError) -> Self {
        let ClientError::Refused(detail) = error else {
            return Self::new(BridgeErrorCode::Unavailable, error.to_string());
        };
        let code = match (FailureKind::parse(&detail.kind), &*detail.kind) {
            (Some(kind), _) => kind.into(),
            (None, "busy") => BridgeErrorCode::SessionHeld,
            // The only conflict that submitting a turn can have.
            (None, "conflict") => BridgeErrorCode::KeyReused,
            (None, "not_found" | "too_large") => BridgeErrorCode::Invalid,
            (None, _) => BridgeErrorCode::Internal,
        };
        let message = match detail.hint {
            Some(hint) => format!("{}; {hint}", detail.message),
            None => detail.message,
        };
        Self::new(code, message)
    }
}
