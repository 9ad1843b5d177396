//! Runs the turns of a bridge in the daemon of this home.

use angelia_core::{
    model::{ApprovalId, Decision, FailureKind, TurnId},
    ports::BoxFuture,
};
use angelia_frontends::{
    bridge::{About, Ask, Batch, Begun, Code, Events, Fit, NAMES, Refused, Turns, stored_key},
    http::resources::Session,
};

use crate::client::{self, ClientError, Daemon, HostTurn, NewSessionRequest};

#[derive(Debug)]
pub(super) struct DaemonTurns {
    daemon: Daemon,
}

impl DaemonTurns {
    pub(super) fn new(daemon: Daemon) -> Self {
        Self { daemon }
    }

    async fn start(&self, ask: &Ask) -> Result<Begun, Refused> {
        let name = format!("{NAMES}{}", ask.request.session_id);
        let (session, fit) = match self.daemon.named(&name).await? {
            Some(session) => {
                let model = session.model.as_deref();
                let fit = ask.fit(&session.profile, model, &session.cwd);
                (session, fit)
            }
            None => (self.create(ask, name).await?, Fit::Fits),
        };
        let keeps = match fit {
            Fit::Fits => None,
            Fit::Keeps(what) => Some(what),
            Fit::Differs(what) => return Err(Refused::new(Code::SessionDiffers, what)),
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
            self.daemon.hold(turn).await?
        };
        Ok(Begun {
            turn,
            about: about(&session, turn, repeats),
            keeps,
            events: Box::new(Followed(events)),
        })
    }

    async fn create(&self, ask: &Ask, name: String) -> Result<Session, ClientError> {
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

fn about(session: &Session, turn: TurnId, repeats: bool) -> About {
    About {
        turn_id: turn.to_string(),
        angelia_session_id: session.id.to_string(),
        profile: session.profile.clone(),
        executor: session.executor.clone(),
        model: session.model.clone(),
        cwd: session.cwd.as_path().into(),
        repeats,
    }
}

impl Turns for DaemonTurns {
    fn begin<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Begun, Refused>> {
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
    ) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let decided = self.daemon.decide(approval, &decision).await;
            decided.map_err(|error| match error {
                ClientError::Refused(detail) if detail.kind == "conflict" => {
                    Refused::new(Code::UnknownApproval, detail.message)
                }
                error => error.into(),
            })
        })
    }
}

struct Followed(client::Events);

impl Events for Followed {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Batch>, Refused>> {
        Box::pin(async { Ok(self.0.next().await?.map(Batch::Elsewhere)) })
    }
}

impl From<ClientError> for Refused {
    fn from(error: ClientError) -> Self {
        let ClientError::Refused(detail) = error else {
            return Self::new(Code::Unavailable, error.to_string());
        };
        let code = match (FailureKind::parse(&detail.kind), &*detail.kind) {
            (Some(kind), _) => kind.into(),
            (None, "busy") => Code::SessionHeld,
            // The only conflict that submitting a turn can have.
            (None, "conflict") => Code::KeyReused,
            (None, "not_found" | "too_large") => Code::Invalid,
            (None, _) => Code::Internal,
        };
        let message = match detail.hint {
            Some(hint) => format!("{}; {hint}", detail.message),
            None => detail.message,
        };
        Self::new(code, message)
    }
}
