//! The profiles of the configuration. The executor `auto` becomes the first agent that is ready.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{BoxFuture, Executor, Login, ProfileSummary, Profiles, Wanted},
};
use tokio::time::Instant;

use crate::{
    assemble::App,
    config::{Call, ResolveError},
    delegation::Offer,
};

/// How long the check that an executor is installed and logged in stays valid.
const BELIEVED: Duration = Duration::from_mins(1);

pub(crate) struct ConfiguredProfiles {
    app: Arc<App>,
    executors: Vec<Arc<dyn Executor>>,
    /// The executor that `auto` resolved to last, and when.
    chosen: Mutex<Option<(Arc<str>, Instant)>>,
    /// Our own MCP server, for profiles that may delegate.
    offer: Option<Offer>,
}

impl ConfiguredProfiles {
    pub(crate) fn new(app: Arc<App>, executors: Vec<Arc<dyn Executor>>) -> Self {
        Self { offer: Offer::new(&app), app, executors, chosen: Mutex::default() }
    }

    async fn specify(&self, wanted: Wanted) -> Result<SessionSpec, Failure> {
        let call = Call {
            environment: &self.app.environment,
            home: &self.app.home,
            named_cwd: wanted.cwd.as_deref(),
            caller_cwd: wanted.caller_cwd.as_deref(),
            at_terminal: wanted.at_terminal,
        };
        let config = &self.app.config;
        let candidates = match &wanted.target {
            Some(target) => config.resolve_plain(target, &call),
            None => config.resolve(wanted.profile.as_deref(), &call),
        };
        let candidates = candidates.map_err(|error| invalid(&error))?;
        let mut spec = self.first_ready(candidates).await?;
        spec.fallback = self.fallback(&spec, &call).await?;
        if let Some(model) = wanted.model {
            spec.model = Some(model);
        }
        self.offer_tools(&mut spec);
        Ok(spec)
    }

    /// Adds our own MCP server to a profile that may delegate, and to its fallbacks that may.
    fn offer_tools(&self, spec: &mut SessionSpec) {
        let Some(offer) = &self.offer else { return };
        let config = &self.app.config;
        let mut next = Some(spec);
        while let Some(spec) = next {
            if !config.delegates(&spec.profile, &spec.executor).is_empty() {
                offer.give(spec, None);
            }
            next = spec.fallback.as_deref_mut();
        }
    }

    /// Resolves the chain of fallbacks of a profile. They all work in the profile's folder.
    async fn fallback(
        &self,
        spec: &SessionSpec,
        call: &Call<'_>,
    ) -> Result<Option<Box<SessionSpec>>, Failure> {
        let config = &self.app.config;
        let call = Call { named_cwd: Some(&spec.cwd), ..*call };
        let mut chain: Vec<SessionSpec> = Vec::new();
        loop {
            let last = chain.last().unwrap_or(spec);
            let Some(next) = config.fallback(&last.profile, &last.executor) else {
                break;
            };
            let candidates = config.resolve(Some(next), &call);
            let candidates = candidates.map_err(|error| invalid(&error))?;
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
            if self.was_chosen(&spec.executor) || self.is_ready(&spec).await {
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
        let ready = health.is_ready() && !matches!(health.login, Login::Out);
        if ready {
            *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((Arc::clone(&spec.executor), Instant::now()));
        }
        ready
    }

    fn was_chosen(&self, executor: &str) -> bool {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.as_ref().is_some_and(|(name, at)| **name == *executor && at.elapsed() < BELIEVED)
    }
}

impl Profiles for ConfiguredProfiles {
    fn spec(&self, wanted: Wanted) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(self.specify(wanted))
    }

    fn list(&self) -> Vec<ProfileSummary> {
        self.app.config.summaries()
    }
}

fn invalid(error: &ResolveError) -> Failure {
    Failure::new(FailureKind::Invalid, error.to_string())
}
