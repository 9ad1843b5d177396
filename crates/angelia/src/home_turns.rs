//! The turns of a home: those of its daemon if there is one, or else those of an engine in this
//! process. A command that outlives the daemon continues with its own engine.

use std::sync::{Arc, Mutex, PoisonError};

use angelia_core::model::{ApprovalId, Decision, SessionId, TurnId};
use angelia_frontends::{
    http::{
        CompactionResult, HealthStatus, NewSessionBody,
        resources::{SessionResource, TurnResource},
    },
    turn_service::{
        AcceptedTurn, ServiceFuture, SpecOverrides, TurnErrorKind, TurnEventSource, TurnService,
        TurnServiceError, TurnSubmission,
    },
};

use crate::{
    assemble::{App, LocalEngine},
    bus::pid_file,
    cli::{agent_use::ensure_owner_works_alone, error::CommandError, print},
    client::{ClientError, DaemonClient},
};

pub(crate) struct HomeTurns {
    pub(crate) service: Arc<dyn TurnService>,
    switch: Arc<ServiceSwitch>,
}

/// What a command does with the turns of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnsUse {
    /// Starts sessions with the command's settings.
    New,
    /// Concerns only existing sessions and turns, whose settings are recorded.
    Existing,
}

impl HomeTurns {
    /// Opens the turns in order to start new ones. `overrides` are flags that override the profile;
    /// the daemon does not know them, so they need an engine in this process.
    pub(crate) async fn open(
        app: &Arc<App>,
        command: &'static str,
        keep_warm: bool,
        overrides: SpecOverrides,
    ) -> Result<Self, CommandError> {
        Self::open_for(TurnsUse::New, app, command, keep_warm, overrides).await
    }

    async fn open_for(
        turns_use: TurnsUse,
        app: &Arc<App>,
        command: &'static str,
        keep_warm: bool,
        overrides: SpecOverrides,
    ) -> Result<Self, CommandError> {
        let is_plain = overrides == SpecOverrides::default();
        let daemon = if is_plain { turns_use.find_daemon(app).await } else { None };
        let (local, current) = if let Some(daemon) = daemon {
            (None, Arc::new(daemon) as Arc<dyn TurnService>)
        } else {
            ensure_owner_works_alone(&app.environment)?;
            let local = LocalEngine::start(app, command, keep_warm).await?;
            let turns = local.turns(overrides);
            (Some(local), turns)
        };
        let switch = Arc::new(ServiceSwitch {
            app: Arc::clone(app),
            command,
            keep_warm,
            turns_use,
            current: Mutex::new(current),
            local: tokio::sync::Mutex::new(local),
        });
        Ok(Self { service: Arc::clone(&switch) as _, switch })
    }

    /// Opens the turns for the duration of some work.
    pub(crate) async fn with<T, F>(
        turns_use: TurnsUse,
        app: &Arc<App>,
        command: &'static str,
        work: impl FnOnce(Arc<dyn TurnService>) -> F,
    ) -> Result<T, CommandError>
    where
        F: Future<Output = Result<T, CommandError>>,
    {
        let overrides = SpecOverrides::default();
        let turns = Self::open_for(turns_use, app, command, false, overrides).await?;
        let result = work(Arc::clone(&turns.service)).await;
        let closed = turns.close().await;
        result.and_then(|done| closed.map(|()| done))
    }

    /// Stops the engine that was started for this command. Fails if the end of a turn could not be
    /// recorded.
    pub(crate) async fn close(self) -> Result<(), CommandError> {
        let local = self.switch.local.lock().await.take();
        let Some(local) = local else { return Ok(()) };
        local.stop().await;
        match local.engine.lost_ends() {
            0 => Ok(()),
            _ => Err(CommandError::unrecorded_end()),
        }
    }
}

/// Passes every request to the daemon or, once the daemon is gone, to the next one or to an engine
/// in this process.
struct ServiceSwitch {
    app: Arc<App>,
    command: &'static str,
    keep_warm: bool,
    turns_use: TurnsUse,
    current: Mutex<Arc<dyn TurnService>>,
    /// The engine that was started for this command. Locked while looking for another service.
    local: tokio::sync::Mutex<Option<LocalEngine>>,
}

impl ServiceSwitch {
    fn current(&self) -> Arc<dyn TurnService> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls the current service, or its successor if the daemon no longer exists. A request that a
    /// dying daemon may have received is not sent again.
    async fn call<'a, T>(
        &self,
        request: impl Fn(Arc<dyn TurnService>) -> ServiceFuture<'a, T>,
    ) -> Result<T, TurnServiceError> {
        let service = self.current();
        match request(Arc::clone(&service)).await {
            Err(error) if error.kind == TurnErrorKind::Unreachable => {
                request(self.replace(&service, error).await?).await
            }
            answered => answered,
        }
    }

    /// Returns the replacement for a service that cannot be reached.
    async fn replace(
        &self,
        lost: &Arc<dyn TurnService>,
        error: TurnServiceError,
    ) -> Result<Arc<dyn TurnService>, TurnServiceError> {
        let mut local = self.local.lock().await;
        let current = self.current();
        if !Arc::ptr_eq(&current, lost) {
            // Another request has replaced it in the meantime.
            return Ok(current);
        }
        let next: Arc<dyn TurnService> =
            if let Some(daemon) = self.turns_use.find_daemon(&self.app).await {
                Arc::new(daemon)
            } else {
                print::note(
                    "angelia: the daemon has stopped; working without it\n  hint: `angelia serve` \
                 starts it again",
                );
                let started = LocalEngine::start(&self.app, self.command, self.keep_warm).await;
                let engine = started.map_err(|reason| error.with_hint(reason.to_string()))?;
                let turns = engine.turns(SpecOverrides::default());
                *local = Some(engine);
                turns
            };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        Ok(next)
    }
}

/// Requests that start something are switched over. All others concern a turn of the service that
/// runs it, and no other service can answer them.
impl TurnService for ServiceSwitch {
    fn is_shared(&self) -> bool {
        self.current().is_shared()
    }

    fn session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource> {
        Box::pin(self.call(move |service| Box::pin(async move { service.session(id).await })))
    }

    fn find_session<'a>(&'a self, name: &'a str) -> ServiceFuture<'a, Option<SessionResource>> {
        Box::pin(
            self.call(move |service| Box::pin(async move { service.find_session(name).await })),
        )
    }

    fn create_session(
        &self,
        new: NewSessionBody,
        at_terminal: bool,
    ) -> ServiceFuture<'_, SessionResource> {
        Box::pin(self.call(move |service| {
            let new = new.clone();
            Box::pin(async move { service.create_session(new, at_terminal).await })
        }))
    }

    fn change_model(&self, id: SessionId, model: Arc<str>) -> ServiceFuture<'_, SessionResource> {
        Box::pin(self.call(move |service| {
            let model = Arc::clone(&model);
            Box::pin(async move { service.change_model(id, model).await })
        }))
    }

    fn fork_session(&self, id: SessionId) -> ServiceFuture<'_, SessionResource> {
        Box::pin(self.call(move |service| Box::pin(async move { service.fork_session(id).await })))
    }

    fn compact_session(&self, id: SessionId) -> ServiceFuture<'_, CompactionResult> {
        Box::pin(
            self.call(move |service| Box::pin(async move { service.compact_session(id).await })),
        )
    }

    fn delete_session(&self, id: SessionId) -> ServiceFuture<'_, ()> {
        Box::pin(
            self.call(move |service| Box::pin(async move { service.delete_session(id).await })),
        )
    }

    fn submit(&self, new: TurnSubmission) -> ServiceFuture<'_, AcceptedTurn> {
        Box::pin(self.call(move |service| {
            let new = new.clone();
            Box::pin(async move { service.submit(new).await })
        }))
    }

    fn watch(&self, turn: TurnId) -> ServiceFuture<'_, Box<dyn TurnEventSource>> {
        let service = self.current();
        Box::pin(async move { service.watch(turn).await })
    }

    fn turn(&self, id: TurnId) -> ServiceFuture<'_, TurnResource> {
        let service = self.current();
        Box::pin(async move { service.turn(id).await })
    }

    fn interrupt(&self, turn: TurnId, kill: bool) -> ServiceFuture<'_, ()> {
        let service = self.current();
        Box::pin(async move { service.interrupt(turn, kill).await })
    }

    fn decide(&self, approval: ApprovalId, decision: Decision) -> ServiceFuture<'_, ()> {
        let service = self.current();
        Box::pin(async move { service.decide(approval, decision).await })
    }
}

impl TurnsUse {
    async fn find_daemon(self, app: &App) -> Option<DaemonClient> {
        match self {
            Self::New => find_daemon(app).await,
            Self::Existing => running_daemon(app).await,
        }
    }
}

/// Returns the daemon of this home, regardless of its version and configuration.
pub(crate) async fn running_daemon(app: &App) -> Option<DaemonClient> {
    Some(greet_daemon(app).await?.0)
}

/// Returns the daemon of this home for new sessions. A command with its own settings, which the
/// daemon does not have, works without the daemon.
pub(crate) async fn find_daemon(app: &App) -> Option<DaemonClient> {
    if app.has_flags() {
        return None;
    }
    let (daemon, hello) = greet_daemon(app).await?;
    let own = app.config_source_sha256();
    let is_same = hello.as_ref().and_then(|hello| hello.config_sha256.as_deref()) == Some(&*own);
    if app.has_own_settings() && !is_same {
        print::note(
            "angelia: the running daemon has other settings than this command was given (--config, \
             or variables); working without it",
        );
        return None;
    }
    if let Some(error) = &app.config_error {
        print::note(&format!(
            "angelia: {error}\n  the running daemon keeps the last good configuration"
        ));
    }
    if let Some(hello) = hello.filter(|hello| hello.version != env!("CARGO_PKG_VERSION")) {
        let version = describe_version(&hello.version, env!("CARGO_PKG_VERSION"));
        print::note(&format!("angelia: the running daemon {version}"));
    }
    Some(daemon)
}

/// Connects to the daemon of this home. A daemon that is too busy to answer at once still counts.
async fn greet_daemon(app: &App) -> Option<(DaemonClient, Option<HealthStatus>)> {
    let daemon = DaemonClient::connect(&app.home.socket()).await?;
    match daemon.hello().await {
        Ok(hello) => Some((daemon, Some(hello))),
        Err(ClientError::Timeout) if pid_file::holder(&app.home.pid_file()).is_some() => {
            Some((daemon, None))
        }
        // Another program listens there, not one of our daemons.
        Err(_) => None,
    }
}

/// Describes a daemon whose version differs from this command's.
fn describe_version(daemon: &str, own: &str) -> String {
    let number = |version: &str| -> Vec<u32> {
        version.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
    };
    if number(daemon) < number(own) {
        format!("is older ({daemon}, this is {own}); `angelia restart` replaces it")
    } else {
        format!("is of another version ({daemon}, this is {own})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_daemon_is_to_be_restarted() {
        for older in ["0.1.0", "0.2.9", "0.2"] {
            let note = describe_version(older, "0.2.10");
            assert!(note.contains("older") && note.contains("angelia restart"), "{note}");
        }
        for other in ["0.2.11", "0.3.0", "1.0.0-rc.1", "0.2.10-dev"] {
            assert!(!describe_version(other, "0.2.10").contains("older"), "{other}");
        }
    }
}
