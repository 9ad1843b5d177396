//! The process that runs a turn: the daemon of this home, if there is a compatible one, else this
//! process.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineError, EventBatch, NewSession, Watch},
    model::{
        ApprovalId, Content, Decision, ExternalName, Origin, SessionId, TurnEvent, TurnId,
        TurnOptions, TurnState,
    },
    ports::{Profiles as _, StoreError, Wanted},
};
use angelia_frontends::http::resources::Session;
use jiff::Timestamp;
use tokio::time::Instant;

use super::parked::Parking;
use crate::{
    assemble::{App, Local},
    cli::{
        args::RunArgs,
        error::{CommandError, Exit},
        print,
    },
    client::{Daemon, Events, NewSessionRequest},
};

/// How long to wait for a session that another process holds.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);

/// The scope of session names given with `run -s`.
const SCOPE: &str = "run";

pub(crate) enum Place {
    Here(Box<Local>),
    Daemon(Daemon),
}

/// The arguments of `run`, with the prompt read.
pub(crate) struct Request {
    pub(crate) args: RunArgs,
    pub(crate) text: String,
    pub(crate) can_ask: bool,
}

impl Place {
    pub(crate) async fn find(app: &Arc<App>) -> Result<Self, CommandError> {
        match Self::daemon(app).await {
            Some(daemon) => Ok(Self::Daemon(daemon)),
            None => Ok(Self::Here(Box::new(Local::start(app, "run", false).await?))),
        }
    }

    /// Returns the daemon of this home, if it has the same version and configuration as this
    /// command.
    pub(crate) async fn daemon(app: &Arc<App>) -> Option<Daemon> {
        let daemon = Daemon::connect(&app.home.socket()).await?;
        let hello = daemon.hello().await.ok()?;
        let reason = if &*hello.version != env!("CARGO_PKG_VERSION") {
            "is of another version"
        } else if hello.config_sha256.as_deref() != Some(app.config.sha256().as_str()) {
            "was started with another configuration"
        } else {
            return Some(daemon);
        };
        print::note(&format!("angelia: the running daemon {reason}; working without it"));
        None
    }

    pub(crate) async fn submit(&self, request: Request) -> Result<RunningTurn, CommandError> {
        match self {
            Self::Here(local) => submit_here(local, request).await,
            Self::Daemon(daemon) => submit_to_daemon(daemon, request).await,
        }
    }

    pub(crate) async fn watch(&self, turn: TurnId) -> Result<RunningTurn, CommandError> {
        match self {
            Self::Here(local) => {
                let watch = local.engine.watch(turn, 0).await?;
                let source = Source::Here { engine: local.engine.clone(), watch };
                Ok(RunningTurn::new(turn, source, true))
            }
            Self::Daemon(daemon) => {
                let events = Box::new(daemon.events(turn, 0).await?);
                let source = Source::Daemon { daemon: daemon.clone(), events };
                Ok(RunningTurn::new(turn, source, true))
            }
        }
    }

    pub(crate) async fn fork(&self, session: SessionId) -> Result<SessionId, CommandError> {
        match self {
            Self::Here(local) => Ok(local.engine.fork_session(session).await?.id),
            Self::Daemon(daemon) => Ok(daemon.fork(session).await?.id),
        }
    }

    pub(crate) async fn delete(&self, session: SessionId) -> Result<(), CommandError> {
        match self {
            Self::Here(local) => Ok(local.engine.delete_session(session).await?),
            Self::Daemon(daemon) => Ok(daemon.delete(session).await?),
        }
    }

    /// Shuts down what was started for this command.
    pub(crate) async fn leave(self) {
        if let Self::Here(local) = self {
            local.stop().await;
        }
    }
}

fn caller_cwd() -> Option<PathBuf> {
    std::env::current_dir().ok()
}

/// Resolves a path from the command line against the current directory, as a shell would.
fn absolute(path: &PathBuf) -> Result<PathBuf, CommandError> {
    std::path::absolute(path)
        .map_err(|error| CommandError::usage(format!("cannot work in {}: {error}", path.display())))
}

async fn submit_here(local: &Local, request: Request) -> Result<RunningTurn, CommandError> {
    let engine = &local.engine;
    let session = session_here(local, &request.args, request.can_ask).await?;
    let options =
        TurnOptions { can_ask: request.can_ask, can_park: true, ..TurnOptions::new(Origin::Owner) };
    let input = vec![Content::text(request.text)];
    let patience = Instant::now() + PATIENCE;
    let submitted = loop {
        match engine.submit(session, input.clone(), options.clone()).await {
            // Another process holds the session; most turns are short.
            Err(EngineError::Store(StoreError::Held(_))) if Instant::now() < patience => {
                tokio::time::sleep(RETRY).await;
            }
            submitted => break submitted?,
        }
    };
    let source = Source::Here { engine: engine.clone(), watch: submitted.watch };
    Ok(RunningTurn::new(submitted.turn, source, request.can_ask))
}

async fn session_here(
    local: &Local,
    args: &RunArgs,
    at_terminal: bool,
) -> Result<SessionId, CommandError> {
    let engine = &local.engine;
    let mut name = None;
    if let Some(wanted) = &args.session {
        if let Ok(id) = wanted.parse::<SessionId>() {
            let session = engine.session(id).await?;
            fits(args, &session.spec.profile, session.spec.model.as_deref())?;
            return Ok(id);
        }
        let external = ExternalName { scope: SCOPE.into(), name: wanted.as_str().into() };
        if let Some(id) = engine.named(&external).await? {
            let session = engine.session(id).await?;
            fits(args, &session.spec.profile, session.spec.model.as_deref())?;
            return Ok(id);
        }
        name = Some(external);
    }
    let wanted = Wanted {
        profile: args.profile.as_deref().map(Into::into),
        target: None,
        cwd: args.cwd.as_ref().map(absolute).transpose()?,
        caller_cwd: caller_cwd(),
        model: args.model.as_deref().map(Into::into),
        at_terminal,
    };
    let spec = local.profiles.spec(wanted).await?;
    let session = engine.create_session(NewSession { spec, title: None, name }).await?;
    Ok(session.id)
}

/// Fails if the options ask for another profile, model or directory than the session has. A session
/// keeps what it was started with, so a different option must not be ignored.
fn fits(args: &RunArgs, profile: &str, model: Option<&str>) -> Result<(), CommandError> {
    let differs = |wanted: &Option<String>, has: &str| wanted.as_deref().is_some_and(|w| w != has);
    let what = if differs(&args.profile, profile) {
        format!("the profile `{profile}`")
    } else if model.is_some_and(|model| differs(&args.model, model)) {
        format!("the model `{}`", model.unwrap_or_default())
    } else if args.cwd.is_some() {
        "a directory of its own".to_owned()
    } else {
        return Ok(());
    };
    Err(CommandError::new(Exit::Usage, format!("the session was begun with {what} and keeps it"))
        .with_hint("leave the option out, or begin another session"))
}

async fn submit_to_daemon(daemon: &Daemon, request: Request) -> Result<RunningTurn, CommandError> {
    let args = &request.args;
    let session = match known_to_daemon(daemon, args.session.as_deref()).await? {
        Some(session) => {
            fits(args, &session.profile, session.model.as_deref())?;
            session
        }
        None => daemon.create_session(&new_session(&request)?).await?,
    };
    let turn = daemon.submit(session.id, &request.text, request.can_ask).await?.id;
    let events = Box::new(daemon.events(turn, 0).await?);
    let source = Source::Daemon { daemon: daemon.clone(), events };
    Ok(RunningTurn::new(turn, source, request.can_ask))
}

/// Returns the session that `-s` names, by its id or by a name given earlier; `None`: a new one
/// must be created.
async fn known_to_daemon(
    daemon: &Daemon,
    session: Option<&str>,
) -> Result<Option<Session>, CommandError> {
    Ok(match session {
        Some(id) if id.parse::<SessionId>().is_ok() => Some(daemon.session(id).await?),
        Some(name) => daemon.named(name).await?,
        None => None,
    })
}

fn new_session(request: &Request) -> Result<NewSessionRequest, CommandError> {
    let args = &request.args;
    Ok(NewSessionRequest {
        profile: args.profile.clone(),
        cwd: args.cwd.as_ref().map(absolute).transpose()?,
        caller_cwd: caller_cwd(),
        model: args.model.clone(),
        name: args.session.clone(),
        title: None,
        at_terminal: request.can_ask,
    })
}

/// A turn that this command follows, in this process or in the daemon.
pub(crate) struct RunningTurn {
    turn: TurnId,
    source: Source,
    parking: Parking,
}

enum Source {
    Here { engine: Engine, watch: Watch },
    Daemon { daemon: Daemon, events: Box<Events> },
}

/// Events in order: shared with the log of the local engine, or owned.
pub(crate) enum Batch {
    Here(EventBatch),
    Daemon(Vec<TurnEvent>),
}

impl std::ops::Deref for Batch {
    type Target = [TurnEvent];

    fn deref(&self) -> &[TurnEvent] {
        match self {
            Self::Here(batch) => batch,
            Self::Daemon(events) => events,
        }
    }
}

impl RunningTurn {
    fn new(turn: TurnId, source: Source, is_patient: bool) -> Self {
        Self { turn, source, parking: Parking::new(is_patient) }
    }

    /// Follows a turn that was submitted to the engine of this process.
    pub(crate) fn here(engine: Engine, turn: TurnId, watch: Watch) -> Self {
        Self::new(turn, Source::Here { engine, watch }, false)
    }

    /// Follows a turn that was submitted to the daemon.
    pub(crate) fn in_daemon(daemon: Daemon, turn: TurnId, events: Events) -> Self {
        let events = Box::new(events);
        Self::new(turn, Source::Daemon { daemon, events }, false)
    }

    /// Returns the next events; never empty, because a turn ends with a `Finished` event. Cancel
    /// safe.
    pub(crate) async fn next(&mut self) -> Result<Batch, CommandError> {
        // The `parked` notice has the time of the reset only in its text, so the turn's record is
        // read.
        if self.parking.must_look_up() {
            let resumes_at = self.resumes_at().await?;
            self.parking.resumes_at(resumes_at);
        }
        if let Some(end) = self.parking.end(self.turn) {
            return Ok(Batch::Daemon(vec![end]));
        }
        let batch = match &mut self.source {
            Source::Here { watch, .. } => watch.next().await?.map(Batch::Here),
            Source::Daemon { events, .. } => events.next().await?.map(Batch::Daemon),
        };
        if let Some(batch) = batch {
            self.parking.note(&batch);
            return Ok(batch);
        }
        // The event stream ended before the turn did: the process that held the parked turn is
        // gone.
        self.parking.leave();
        let end = self.parking.end(self.turn);
        end.map(|end| Batch::Daemon(vec![end]))
            .ok_or_else(|| CommandError::internal("the turn's events ended without its end"))
    }

    /// Returns when a parked turn resumes; `None`: it is no longer parked.
    async fn resumes_at(&self) -> Result<Option<Timestamp>, CommandError> {
        Ok(match &self.source {
            Source::Here { engine, .. } => match engine.turn(self.turn).await?.state {
                TurnState::Parked { resumes_at } => Some(resumes_at),
                _ => None,
            },
            Source::Daemon { daemon, .. } => daemon.turn(self.turn).await?.resumes_at,
        })
    }

    /// Asks a running turn to stop, and detaches from a parked one. It is not an error if the turn
    /// has already finished.
    pub(crate) async fn stop(&mut self, kill: bool) {
        if self.parking.leave() {
            return;
        }
        let stopped = match &self.source {
            Source::Here { engine, .. } => {
                engine.interrupt(self.turn, kill).await.map_err(|error| error.to_string())
            }
            Source::Daemon { daemon, .. } => {
                daemon.interrupt(self.turn, kill).await.map_err(|error| error.to_string())
            }
        };
        if let Err(error) = stopped {
            tracing::debug!(error, "the turn could not be stopped");
        }
    }

    /// Sends a decision. It is not an error if another client decided first.
    pub(crate) async fn decide(&self, approval: ApprovalId, decision: Decision) {
        let decided = match &self.source {
            Source::Here { engine, .. } => {
                engine.decide(approval, decision).await.map_err(|error| error.to_string())
            }
            Source::Daemon { daemon, .. } => {
                daemon.decide(approval, &decision).await.map_err(|error| error.to_string())
            }
        };
        if let Err(error) = decided {
            tracing::debug!(error, "the decision came too late");
        }
    }
}
