//! The profiles of the configuration. The executor `auto` becomes the first agent that is ready.

use std::{
    sync::{Arc, Mutex, PoisonError},
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
    /// The executor that `auto` resolved to last, and when.
    last_ready: Mutex<Option<(Arc<str>, Instant)>>,
    /// Our own MCP server, for profiles that may delegate.
    own_server: Option<OwnMcpServer>,
}

impl ConfiguredProfiles {
    pub(crate) fn new(app: Arc<App>, executors: Vec<Arc<dyn Executor>>) -> Self {
        Self { own_server: OwnMcpServer::new(&app), app, executors, last_ready: Mutex::default() }
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
            if self.was_recently_ready(&spec.executor) || self.is_ready(&spec).await {
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
            *self.last_ready.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((Arc::clone(&spec.executor), Instant::now()));
        }
        ready
    }

    fn was_recently_ready(&self, executor: &str) -> bool {
        let chosen = self.last_ready.lock().unwrap_or_else(PoisonError::into_inner);
        chosen
            .as_ref()
            .is_some_and(|(name, at)| **name == *executor && at.elapsed() < READINESS_TTL)
    }
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
