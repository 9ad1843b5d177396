//! The configured profiles. The executor `auto` resolves to the first agent that is ready. `review`
//! finds the reviewers of their sessions.

mod review;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Failure, FailureKind, Mode, SessionRecord, SessionSpec},
    ports::{BoxFuture, Executor, LoginState, ProfileRequest, ProfileSummary, Profiles},
};
use angelia_frontends::mcp::{OWN_TOOLS_PATTERN, SERVER_NAME};
use tokio::time::Instant;

use crate::{
    assemble::App,
    config::{Config, ResolveContext, ResolveError},
    delegation::OwnMcpServer,
};

/// How long a check that an executor is installed and logged in stays valid.
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
        // A person who edits the file and then starts a session expects the new settings.
        self.app.live_config.refresh().await;
        let mut config = self.app.live_config.current();
        if wanted.prefers_model_mode {
            config = Arc::new(config.in_model_mode(wanted.profile.as_deref()));
        }
        let config = &*config;
        let call = ResolveContext {
            environment: &self.app.environment,
            home: &self.app.home,
            named_cwd: wanted.cwd.as_deref(),
            caller_cwd: wanted.caller_cwd.as_deref(),
            at_terminal: wanted.at_terminal,
        };
        let candidates = match &wanted.target {
            Some(target) => config.resolve_target(target, &call),
            None => config.resolve(wanted.profile.as_deref(), &call),
        };
        let candidates = candidates.map_err(|error| invalid_failure(&error))?;
        let mut spec = self.first_ready(candidates).await?;
        spec.fallback = self.resolve_fallbacks(config, &spec, &call).await?;
        if let Some(model) = wanted.model {
            spec.model = Some(model);
        }
        self.add_own_server(config, &mut spec);
        spec.review = self.resolve_review(config, &spec, &call)?;
        Ok(spec)
    }

    /// Adds our own MCP server to a profile that may delegate, and to those of its fallbacks that
    /// may.
    fn add_own_server(&self, config: &Config, spec: &mut SessionSpec) {
        let Some(offer) = &self.own_server else { return };
        let mut next = Some(spec);
        while let Some(spec) = next {
            let may_delegate = !config.delegates(&spec.profile, &spec.executor).is_empty();
            if may_delegate && !self.delegates_itself(&spec.executor) {
                offer.add_to(spec, None);
            }
            next = spec.fallback.as_deref_mut();
        }
    }

    /// Returns whether agents of this executor can delegate without our MCP server.
    fn delegates_itself(&self, executor: &str) -> bool {
        let executor = self.executors.iter().find(|one| one.name() == executor);
        executor.is_some_and(|executor| executor.capabilities().delegates)
    }

    /// Resolves a profile's chain of fallbacks. They all work in the profile's folder.
    async fn resolve_fallbacks(
        &self,
        config: &Config,
        spec: &SessionSpec,
        call: &ResolveContext<'_>,
    ) -> Result<Option<Box<SessionSpec>>, Failure> {
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
        // Link from the last to the first, because each specification contains the next one.
        let hang_on = |fallback: Option<Box<SessionSpec>>, spec| {
            Some(Box::new(SessionSpec { fallback, ..spec }))
        };
        Ok(chain.into_iter().rev().fold(None, hang_on))
    }

    /// Returns the first candidate that is ready. The last one is not checked: it needs nothing, or
    /// it is the only one and reports its own problems. It never replaces an agent that is
    /// installed or that the profile names.
    async fn first_ready(&self, mut candidates: Vec<SessionSpec>) -> Result<SessionSpec, Failure> {
        let last = candidates
            .pop()
            .ok_or_else(|| Failure::new(FailureKind::Internal, "the profile has no executor"))?;
        let mut obstacle = None;
        for spec in candidates {
            if self.was_recently_ready(&spec) {
                return Ok(spec);
            }
            match self.probe(&spec).await {
                Readiness::Ready => return Ok(spec),
                Readiness::Absent => {}
                Readiness::NotReady(failure) => {
                    obstacle.get_or_insert(failure);
                }
            }
        }
        obstacle.map_or(Ok(last), Err)
    }

    async fn probe(&self, spec: &SessionSpec) -> Readiness {
        let Some(executor) = self.executors.iter().find(|one| one.name() == &*spec.executor) else {
            return Readiness::Absent;
        };
        let health = executor.probe(spec).await;
        if health.is_ready() && health.login != LoginState::LoggedOut {
            self.recently_ready().push((spec.clone(), Instant::now()));
            return Readiness::Ready;
        }
        let is_meant = health.installation.is_some() || spec.binary.is_some();
        if !is_meant {
            return Readiness::Absent;
        }
        Readiness::NotReady(health.problem.unwrap_or_else(|| {
            let (kind, what) = match health.installation {
                Some(_) => (FailureKind::Auth, "not logged in"),
                None => (FailureKind::Unavailable, "not installed where the profile says"),
            };
            Failure::new(kind, format!("{} is {what}", spec.executor))
                .with_hint("`angelia doctor` says what to do")
        }))
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

/// Whether an agent can be used now.
enum Readiness {
    Ready,
    /// The agent is not installed, and the profile does not name its program.
    Absent,
    /// The agent is installed or named, but cannot be used.
    NotReady(Failure),
}

/// Returns whether a probe of one specification is also valid for the other: both must start the
/// same program with the same login, which the environment can choose.
pub(crate) fn is_same_program(one: &SessionSpec, other: &SessionSpec) -> bool {
    one.executor == other.executor
        && one.binary == other.binary
        && one.command == other.command
        && one.env == other.env
        && one.env_pass == other.env_pass
        && provider_of(one) == provider_of(other)
}

/// Returns the provider of a session on the built-in loop, whose model is `PROVIDER/MODEL`.
fn provider_of(spec: &SessionSpec) -> Option<&str> {
    spec.model.as_deref()?.split_once('/').map(|(provider, _)| provider)
}

impl Profiles for ConfiguredProfiles {
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(self.resolve_spec(wanted))
    }

    fn list(&self) -> Vec<ProfileSummary> {
        self.app.live_config.current().summaries()
    }

    fn older_settings<'a>(
        &'a self,
        session: &'a SessionRecord,
    ) -> BoxFuture<'a, Vec<&'static str>> {
        Box::pin(self.find_older_settings(session))
    }
}

impl ConfiguredProfiles {
    async fn find_older_settings(&self, session: &SessionRecord) -> Vec<&'static str> {
        self.app.live_config.refresh().await;
        let changed = self.app.live_config.file_time();
        if changed.is_none_or(|changed| changed <= session.created_at) {
            return Vec::new();
        }
        let spec = &session.spec;
        let call = ResolveContext {
            environment: &self.app.environment,
            home: &self.app.home,
            // In model mode, the folder belongs to the profile.
            named_cwd: (spec.mode == Mode::Agent).then_some(&spec.cwd),
            caller_cwd: None,
            at_terminal: false,
        };
        let config = self.app.live_config.current();
        // A model id that belongs to no profile has no settings to compare, and neither does a
        // profile that is gone.
        let Ok(candidates) = config.resolve(Some(&spec.profile), &call) else {
            return Vec::new();
        };
        match candidates.iter().find(|one| one.executor == spec.executor) {
            Some(now) => differing_settings(spec, now),
            None => vec!["executor"],
        }
    }
}

/// Returns the names of the profile settings in which a session differs from the current
/// specification. Omits settings that Angelia itself adds, and those that depend on the caller.
fn differing_settings(session: &SessionSpec, now: &SessionSpec) -> Vec<&'static str> {
    let allowed = |spec: &SessionSpec| -> Vec<String> {
        let patterns = spec.permissions.allowed.iter().map(ToString::to_string);
        patterns.filter(|pattern| pattern != OWN_TOOLS_PATTERN).collect()
    };
    let servers = |spec: &SessionSpec| -> Vec<(Arc<str>, String)> {
        let servers = spec.mcp_servers.iter().filter(|(name, _)| ***name != *SERVER_NAME);
        servers.map(|(name, server)| (Arc::clone(name), server.get().to_owned())).collect()
    };
    let compared = [
        // A profile without a model leaves the choice to the session.
        ("model", now.model.is_some() && session.model != now.model),
        ("mode", session.mode != now.mode),
        ("binary", session.binary != now.binary),
        ("command", session.command != now.command),
        ("system_prompt_path", session.mode == now.mode && session.system != now.system),
        ("permissions", session.permissions.level != now.permissions.level),
        ("allowed_tools", allowed(session) != allowed(now)),
        ("disallowed_tools", session.permissions.disallowed != now.permissions.disallowed),
        ("tools", session.tools != now.tools),
        ("mcp_servers", servers(session) != servers(now)),
        ("env", session.env != now.env),
        ("env_pass", session.env_pass != now.env_pass),
        ("billing", session.billing != now.billing),
        ("clocks", session.timeouts != now.timeouts),
        ("budgets", session.budgets != now.budgets),
        ("settings of native", session.native != now.native),
    ];
    compared.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
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

    /// An executor whose program is installed only if the specification names no other.
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
        for (name, executor) in
            [("a", Some("claude")), ("b", None), ("c", Some("claude")), ("b", None)]
        {
            let request = ProfileRequest {
                profile: Some(name.into()),
                cwd: Some(home.path().into()),
                ..ProfileRequest::default()
            };
            match profiles.resolve(request).await {
                Ok(spec) => assert_eq!(Some(&*spec.executor), executor, "{name}"),
                Err(failure) => {
                    assert_eq!((executor, failure.kind), (None, FailureKind::Unavailable));
                }
            }
        }
    }
}
