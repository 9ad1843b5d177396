//! The profiles of the configuration. The executor `auto` becomes the first agent that is ready.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{BoxFuture, Executor, LoginState, ProfileRequest, ProfileSummary, Profiles},
};
use tokio::time::Instant;

use crate::{
    assemble::App,
    config::{ResolveContext, ResolveError},
    delegation::OwnMcpServer,
};

/// How long the check that an executor is installed and logged in stays valid.
const READINESS_TTL: Duration = Duration::from_mins(1);

pub(crate) struct ConfiguredProfiles {
    app: Arc<App>,
    executors: Vec<Arc<dyn Executor>>,
    /// Specifications whose program was found ready within [`READINESS_TTL`], and when.
    ready: Mutex<Vec<(SessionSpec, Instant)>>,
    /// Our own MCP server, for profiles that may delegate.
    own_server: Option<OwnMcpServer>,
}

impl ConfiguredProfiles {
    pub(crate) fn new(app: Arc<App>, executors: Vec<Arc<dyn Executor>>) -> Self {
        Self { own_server: OwnMcpServer::new(&app), app, executors, ready: Mutex::default() }
    }

    async fn resolve_spec(&self, wanted: ProfileRequest) -> Result<SessionSpec, Failure> {
        let call = ResolveContext {
            environment: &self.app.environment,
            home: &self.app.home,
            named_cwd: wanted.cwd.as_deref(),
            caller_cwd: wanted.caller_cwd.as_deref(),
            at_terminal: wanted.at_terminal,
        };
        let config = &self.app.config;
        let candidates = match &wanted.target {
            Some(target) => config.resolve_target(target, &call),
            None => config.resolve(wanted.profile.as_deref(), &call),
        };
        let candidates = candidates.map_err(|error| invalid_failure(&error))?;
        let mut spec = self.first_ready(candidates).await?;
        spec.fallback = self.resolve_fallbacks(&spec, &call).await?;
        if let Some(model) = wanted.model {
            spec.model = Some(model);
        }
        self.add_own_server(&mut spec);
        Ok(spec)
    }

    /// Adds our own MCP server to a profile that may delegate, and to its fallbacks that may.
    fn add_own_server(&self, spec: &mut SessionSpec) {
        let Some(offer) = &self.own_server else { return };
        let config = &self.app.config;
        let mut next = Some(spec);
        while let Some(spec) = next {
            if !config.delegates(&spec.profile, &spec.executor).is_empty() {
                offer.add_to(spec, None);
            }
            next = spec.fallback.as_deref_mut();
        }
    }

    /// Resolves the chain of fallbacks of a profile. They all work in the profile's folder.
    async fn resolve_fallbacks(
        &self,
        spec: &SessionSpec,
        call: &ResolveContext<'_>,
    ) -> Result<Option<Box<SessionSpec>>, Failure> {
        let config = &self.app.config;
        let call = ResolveContext { named_cwd: Some(&spec.cwd), ..*call };
        let mut chain: Vec<SessionSpec> = Vec::new();
        loop {
            let last = chain.last().unwrap_or(spec);
            let Some(next) = config.fallback(&last.profile, &last.executor) else {
                break;
            };
            let candidates = config.resolve(Some(next), &call);
            let candidates = candidates.map_err(|error| invalid_failure(&error))?;
            chain.push(self.first_ready(candidates).await?);
        }
        // Linked from the last to the first, because each specification contains the next one.
        let hang_on = |fallback: Option<Box<SessionSpec>>, spec| {
            Some(Box::new(SessionSpec { fallback, ..spec }))
        };
        Ok(chain.into_iter().rev().fold(None, hang_on))
    }

    /// Returns the first candidate that is ready. The last one is not checked: it needs nothing, or
    /// it is the only one and reports itself what is missing.
    async fn first_ready(&self, mut candidates: Vec<SessionSpec>) -> Result<SessionSpec, Failure> {
        let last = candidates
            .pop()
            .ok_or_else(|| Failure::new(FailureKind::Internal, "the profile has no executor"))?;
        for spec in candidates {
            if self.was_recently_ready(&spec) || self.is_ready(&spec).await {
                return Ok(spec);
            }
        }
        Ok(last)
    }

    async fn is_ready(&self, spec: &SessionSpec) -> bool {
        let Some(executor) = self.executors.iter().find(|one| one.name() == &*spec.executor) else {
            return false;
        };
        let health = executor.probe(spec).await;
        let ready = health.is_ready() && !matches!(health.login, LoginState::LoggedOut);
        if ready {
            self.recently_ready().push((spec.clone(), Instant::now()));
        }
        ready
    }

    fn was_recently_ready(&self, spec: &SessionSpec) -> bool {
        self.recently_ready().iter().any(|(ready, _)| is_same_program(ready, spec))
    }

    fn recently_ready(&self) -> MutexGuard<'_, Vec<(SessionSpec, Instant)>> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.retain(|(_, at)| at.elapsed() < READINESS_TTL);
        ready
    }
}

/// Returns whether a probe of one specification also holds for the other: whether both start the
/// same program with the same login, which its environment can choose.
fn is_same_program(one: &SessionSpec, other: &SessionSpec) -> bool {
    one.executor == other.executor
        && one.binary == other.binary
        && one.command == other.command
        && one.env == other.env
        && one.env_pass == other.env_pass
}

impl Profiles for ConfiguredProfiles {
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(self.resolve_spec(wanted))
    }

    fn list(&self) -> Vec<ProfileSummary> {
        self.app.config.summaries()
    }
}

fn invalid_failure(error: &ResolveError) -> Failure {
    Failure::new(FailureKind::Invalid, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, fs, path::Path};

    use angelia_core::{
        model::NativeSessionId,
        ports::{
            Agent, ConversationError, ExecutorCapabilities, ExecutorHealth, InstalledAgent,
            OpenRequest,
        },
    };

    use super::*;

    /// An executor whose program is installed only where the specification names no other.
    struct InstalledWithoutPath;

    impl Executor for InstalledWithoutPath {
        fn name(&self) -> &'static str {
            "claude"
        }

        fn capabilities(&self) -> ExecutorCapabilities {
            unreachable!("the test only probes")
        }

        fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
            let installation = spec
                .binary
                .is_none()
                .then(|| InstalledAgent { path: "claude".into(), version: "1".into() });
            let health = ExecutorHealth { installation, login: LoginState::Unknown, problem: None };
            Box::pin(std::future::ready(health))
        }

        fn open<'a>(
            &'a self,
            _: OpenRequest<'a>,
        ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
            unreachable!("the test only probes")
        }

        fn warm_up(&self, _: &SessionSpec) {}

        fn fork<'a>(
            &'a self,
            _: &'a SessionSpec,
            _: &'a NativeSessionId,
        ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
            unreachable!("the test only probes")
        }

        fn delete_conversation<'a>(
            &'a self,
            _: &'a SessionSpec,
            _: &'a NativeSessionId,
        ) -> BoxFuture<'a, Result<(), Failure>> {
            unreachable!("the test only probes")
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            unreachable!("the test only probes")
        }
    }

    fn profiles(home: &Path, config: &str) -> ConfiguredProfiles {
        fs::write(home.join("config.yaml"), config).unwrap();
        let vars = [(OsString::from("ANGELIA_HOME"), home.into())];
        let app = App::load(vars.into_iter().collect(), None, &[]).unwrap();
        ConfiguredProfiles::new(Arc::new(app), vec![Arc::new(InstalledWithoutPath)])
    }

    #[tokio::test]
    async fn a_program_is_not_ready_because_another_is() {
        let home = tempfile::tempdir().unwrap();
        let config = "profiles: {a: {}, b: {binary: /missing/claude}, c: {env: {A: b}}}\n";
        let profiles = profiles(home.path(), config);
        for (name, executor) in [("a", "claude"), ("b", "parrot"), ("c", "claude"), ("b", "parrot")]
        {
            let request = ProfileRequest {
                profile: Some(name.into()),
                cwd: Some(home.path().into()),
                ..ProfileRequest::default()
            };
            let spec = profiles.resolve(request).await.unwrap();
            assert_eq!(&*spec.executor, executor, "{name}");
        }
    }
}
