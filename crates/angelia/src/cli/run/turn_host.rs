//! The process that runs a turn: the daemon of this home, if there is a compatible one, else this
//! process.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineError, EventBatch, NewSession, TurnWatch},
    model::{
        ApprovalId, Content, Decision, ExternalName, SessionId, TurnEvent, TurnId, TurnOptions,
        TurnOrigin, TurnState,
    },
    ports::{ProfileRequest, Profiles as _, StoreError},
};
use angelia_frontends::http::resources::SessionResource;
use jiff::Timestamp;
use tokio::time::Instant;

use super::park_tracker::ParkTracker;
use crate::{
    assemble::{App, LocalEngine},
    cli::{
        args::RunArgs,
        error::{CommandError, Exit},
        print,
    },
    client::{DaemonClient, NewSessionRequest, TurnEvents},
};

/// How long to wait for a session that another process holds.
const HELD_SESSION_TIMEOUT: Duration = Duration::from_secs(5);
const HELD_SESSION_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The scope of session names given with `run -s`.
const NAME_SCOPE: &str = "run";

pub(crate) enum TurnHost {
    Local(Box<LocalEngine>),
    Daemon(DaemonClient),
}

/// The arguments of `run`, with the prompt read.
pub(crate) struct TurnSubmission {
    pub(crate) args: RunArgs,
    pub(crate) text: String,
    pub(crate) can_ask: bool,
}

impl TurnHost {
    pub(crate) async fn find(app: &Arc<App>) -> Result<Self, CommandError> {
        match Self::find_daemon(app).await {
            Some(daemon) => Ok(Self::Daemon(daemon)),
            None => Ok(Self::Local(Box::new(LocalEngine::start(app, "run", false).await?))),
        }
    }

    /// Returns the daemon of this home, if it has the same version and configuration as this
    /// command.
    pub(crate) async fn find_daemon(app: &Arc<App>) -> Option<DaemonClient> {
        let daemon = DaemonClient::connect(&app.home.socket()).await?;
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

    pub(crate) async fn submit(
        &self,
        request: TurnSubmission,
    ) -> Result<RunningTurn, CommandError> {
        match self {
            Self::Local(local) => submit_here(local, request).await,
            Self::Daemon(daemon) => submit_to_daemon(daemon, request).await,
        }
    }

    pub(crate) async fn watch(&self, turn: TurnId) -> Result<RunningTurn, CommandError> {
        match self {
            Self::Local(local) => {
                let watch = local.engine.watch(turn, 0).await?;
                let source = TurnSource::Local { engine: local.engine.clone(), watch };
                Ok(RunningTurn::new(turn, source, true))
            }
            Self::Daemon(daemon) => {
                let events = Box::new(daemon.events(turn, 0).await?);
                let source = TurnSource::Daemon { daemon: daemon.clone(), events };
                Ok(RunningTurn::new(turn, source, true))
            }
        }
    }

    pub(crate) async fn fork(&self, session: SessionId) -> Result<SessionId, CommandError> {
        match self {
            Self::Local(local) => Ok(local.engine.fork_session(session).await?.id),
            Self::Daemon(daemon) => Ok(daemon.fork(session).await?.id),
        }
    }

    pub(crate) async fn delete(&self, session: SessionId) -> Result<(), CommandError> {
        match self {
            Self::Local(local) => Ok(local.engine.delete_session(session).await?),
            Self::Daemon(daemon) => Ok(daemon.delete(session).await?),
        }
    }

    /// Shuts down what was started for this command.
    pub(crate) async fn close(self) {
        if let Self::Local(local) = self {
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

async fn submit_here(
    local: &LocalEngine,
    request: TurnSubmission,
) -> Result<RunningTurn, CommandError> {
    let engine = &local.engine;
    let session = session_here(local, &request.args, request.can_ask).await?;
    let options = TurnOptions {
        can_ask: request.can_ask,
        can_park: true,
        ..TurnOptions::new(TurnOrigin::Owner)
    };
    let input = vec![Content::text(request.text)];
    let patience = Instant::now() + HELD_SESSION_TIMEOUT;
    let submitted = loop {
        match engine.submit(session, input.clone(), options.clone()).await {
            // Another process holds the session; most turns are short.
            Err(EngineError::Store(StoreError::Held(_))) if Instant::now() < patience => {
                tokio::time::sleep(HELD_SESSION_RETRY_DELAY).await;
            }
            submitted => break submitted?,
        }
    };
    let source = TurnSource::Local { engine: engine.clone(), watch: submitted.watch };
    Ok(RunningTurn::new(submitted.turn, source, request.can_ask))
}

async fn session_here(
    local: &LocalEngine,
    args: &RunArgs,
    at_terminal: bool,
) -> Result<SessionId, CommandError> {
    let engine = &local.engine;
    let mut name = None;
    if let Some(wanted) = &args.session {
        if let Ok(id) = wanted.parse::<SessionId>() {
            let session = engine.session(id).await?;
            check_session_options(args, &session.spec.profile, session.spec.model.as_deref())?;
            return Ok(id);
        }
        let external = ExternalName { scope: NAME_SCOPE.into(), name: wanted.as_str().into() };
        if let Some(id) = engine.find_by_name(&external).await? {
            let session = engine.session(id).await?;
            check_session_options(args, &session.spec.profile, session.spec.model.as_deref())?;
            return Ok(id);
        }
        name = Some(external);
    }
    let wanted = ProfileRequest {
        profile: args.profile.as_deref().map(Into::into),
        target: None,
        cwd: args.cwd.as_ref().map(absolute).transpose()?,
        caller_cwd: caller_cwd(),
        model: args.model.as_deref().map(Into::into),
        at_terminal,
    };
    let spec = local.profiles.resolve(wanted).await?;
    let session = engine.create_session(NewSession { spec, title: None, name }).await?;
    Ok(session.id)
}

/// Fails if the options ask for another profile, model or directory than the session has. A session
/// keeps what it was started with, so a different option must not be ignored.
fn check_session_options(
    args: &RunArgs,
    profile: &str,
    model: Option<&str>,
) -> Result<(), CommandError> {
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

async fn submit_to_daemon(
    daemon: &DaemonClient,
    request: TurnSubmission,
) -> Result<RunningTurn, CommandError> {
    let args = &request.args;
    let session = match find_session(daemon, args.session.as_deref()).await? {
        Some(session) => {
            check_session_options(args, &session.profile, session.model.as_deref())?;
            session
        }
        None => daemon.create_session(&new_session(&request)?).await?,
    };
    let turn = daemon.submit(session.id, &request.text, request.can_ask).await?.id;
    let events = Box::new(daemon.events(turn, 0).await?);
    let source = TurnSource::Daemon { daemon: daemon.clone(), events };
    Ok(RunningTurn::new(turn, source, request.can_ask))
}

/// Returns the session that `-s` names, by its id or by a name given earlier; `None`: a new one
/// must be created.
async fn find_session(
    daemon: &DaemonClient,
    session: Option<&str>,
) -> Result<Option<SessionResource>, CommandError> {
    Ok(match session {
        Some(id) if id.parse::<SessionId>().is_ok() => Some(daemon.session(id).await?),
        Some(name) => daemon.find_by_name(name).await?,
        None => None,
    })
}

fn new_session(request: &TurnSubmission) -> Result<NewSessionRequest, CommandError> {
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
    source: TurnSource,
    park_tracker: ParkTracker,
}

enum TurnSource {
    Local { engine: Engine, watch: TurnWatch },
    Daemon { daemon: DaemonClient, events: Box<TurnEvents> },
}

/// Events in order: shared with the log of the local engine, or owned.
pub(crate) enum TurnEventBatch {
    Shared(EventBatch),
    Owned(Vec<TurnEvent>),
}

impl std::ops::Deref for TurnEventBatch {
    type Target = [TurnEvent];

    fn deref(&self) -> &[TurnEvent] {
        match self {
            Self::Shared(batch) => batch,
            Self::Owned(events) => events,
        }
    }
}

impl RunningTurn {
    fn new(turn: TurnId, source: TurnSource, is_patient: bool) -> Self {
        Self { turn, source, park_tracker: ParkTracker::new(is_patient) }
    }

    /// Follows a turn that was submitted to the engine of this process.
    pub(crate) fn local(engine: Engine, turn: TurnId, watch: TurnWatch) -> Self {
        Self::new(turn, TurnSource::Local { engine, watch }, false)
    }

    /// Follows a turn that was submitted to the daemon.
    pub(crate) fn in_daemon(daemon: DaemonClient, turn: TurnId, events: TurnEvents) -> Self {
        let events = Box::new(events);
        Self::new(turn, TurnSource::Daemon { daemon, events }, false)
    }

    /// Returns the next events; never empty, because a turn ends with a `Finished` event. Cancel
    /// safe.
    pub(crate) async fn next(&mut self) -> Result<TurnEventBatch, CommandError> {
        // The `parked` notice has the time of the reset only in its text, so the turn's record is
        // read.
        if self.park_tracker.needs_resume_time() {
            let resumes_at = self.load_resume_time().await?;
            self.park_tracker.set_resume_time(resumes_at);
        }
        if let Some(end) = self.park_tracker.final_event(self.turn) {
            return Ok(TurnEventBatch::Owned(vec![end]));
        }
        let batch = match &mut self.source {
            TurnSource::Local { watch, .. } => watch.next().await?.map(TurnEventBatch::Shared),
            TurnSource::Daemon { events, .. } => events.next().await?.map(TurnEventBatch::Owned),
        };
        if let Some(batch) = batch {
            self.park_tracker.observe(&batch);
            return Ok(batch);
        }
        // The event stream ended before the turn did: the process that held the parked turn is
        // gone.
        self.park_tracker.detach();
        let end = self.park_tracker.final_event(self.turn);
        end.map(|end| TurnEventBatch::Owned(vec![end]))
            .ok_or_else(|| CommandError::internal("the turn's events ended without its end"))
    }

    /// Returns when a parked turn resumes; `None`: it is no longer parked.
    async fn load_resume_time(&self) -> Result<Option<Timestamp>, CommandError> {
        Ok(match &self.source {
            TurnSource::Local { engine, .. } => match engine.turn(self.turn).await?.state {
                TurnState::Parked { resumes_at } => Some(resumes_at),
                _ => None,
            },
            TurnSource::Daemon { daemon, .. } => daemon.turn(self.turn).await?.resumes_at,
        })
    }

    /// Asks a running turn to stop, and detaches from a parked one. It is not an error if the turn
    /// has already finished.
    pub(crate) async fn stop(&mut self, kill: bool) {
        if self.park_tracker.detach() {
            return;
        }
        let stopped = match &self.source {
            TurnSource::Local { engine, .. } => {
                engine.interrupt(self.turn, kill).await.map_err(|error| error.to_string())
            }
            TurnSource::Daemon { daemon, .. } => {
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
            TurnSource::Local { engine, .. } => {
                engine.decide(approval, decision).await.map_err(|error| error.to_string())
            }
            TurnSource::Daemon { daemon, .. } => {
                daemon.decide(approval, &decision).await.map_err(|error| error.to_string())
            }
        };
        if let Err(error) = decided {
            tracing::debug!(error, "the decision came too late");
        }
    }
}
