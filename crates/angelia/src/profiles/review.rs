//! The reviewers of a profile's sessions.

use angelia_core::model::{Failure, MemoryUse, ReviewPlan, SessionSpec};

use super::{ConfiguredProfiles, invalid_failure};
use crate::config::{Config, ResolveContext};

impl ConfiguredProfiles {
    /// Resolves how a session is reviewed. The reviewer works in the session's folder.
    pub(super) fn resolve_review(
        &self,
        config: &Config,
        spec: &SessionSpec,
        call: &ResolveContext<'_>,
    ) -> Result<Option<ReviewPlan>, Failure> {
        let Some(fields) = config.review(&spec.profile, &spec.executor) else { return Ok(None) };
        let mut reviewer = match &fields.profile {
            None => fields.model.is_some().then(|| spec.clone()),
            Some(profile) => {
                let call = ResolveContext { named_cwd: Some(&spec.cwd), ..*call };
                let candidates = config.resolve(Some(profile), &call);
                let candidates = candidates.map_err(|error| invalid_failure(&error))?;
                candidates.into_iter().find(|one| self.keeps_memory(one))
            }
        };
        if let (Some(reviewer), Some(model)) = (&mut reviewer, &fields.model) {
            reviewer.model = Some(model.as_str().into());
        }
        let is_possible = reviewer.as_ref().is_some_and(|one| self.keeps_memory(one))
            || fields.profile.is_none() && self.keeps_memory(spec);
        Ok(is_possible.then(|| ReviewPlan {
            turns: fields.turns.0,
            tool_calls: fields.tool_calls.0,
            iterations: fields.iterations.0,
            reviewer: reviewer.map(Box::new),
        }))
    }

    /// Returns whether agents with this specification have a memory that a review can write to.
    fn keeps_memory(&self, spec: &SessionSpec) -> bool {
        let executor = self.executors.iter().find(|one| one.name() == &*spec.executor);
        executor.is_some_and(|executor| executor.capabilities().memory)
            && spec.native.memory != MemoryUse::Off
    }
}
