//! Checks the reviewers of sessions: each must be a profile on the built-in loop that has a memory
//! to write to.

use angelia_core::model::MemoryUse;

use super::{
    load::Config,
    problem::Problem,
    types::{ExecutorName, Mode, Profile, ReviewFields},
};

impl Config {
    /// Returns how the sessions of a profile are reviewed on the given executor.
    pub(crate) fn review(&self, profile: &str, executor: &str) -> Option<&ReviewFields> {
        let profile = self.profile_on(profile, executor)?;
        profile.review.0.as_ref().filter(|_| profile.mode == Mode::Agent)
    }

    pub(super) fn check_reviews(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        for name in self.profile_names() {
            let mut reported: Vec<String> = Vec::new();
            for (executor, profile) in self.candidates(name) {
                let Some(what) = self.check_review(*executor, profile) else { continue };
                if !reported.contains(&what) {
                    let origin = self.key_origin(name, *executor, "review");
                    let path = format!("profiles.{name}.review");
                    problems.push(Problem::new(origin, &path, what.clone()));
                    reported.push(what);
                }
            }
        }
        problems
    }

    fn check_review(&self, executor: ExecutorName, profile: &Profile) -> Option<String> {
        let fields = profile.review.0.as_ref()?;
        let Some(reviewer) = &fields.profile else {
            if executor == ExecutorName::Parrot {
                return None;
            }
            if executor != ExecutorName::Native {
                return Some("needs `profile`: the name of one with `executor: native`".to_owned());
            }
            return without_memory(profile)
                .then(|| "needs `memory: on`, which it fills".to_owned());
        };
        if let Some(missing) = self.missing_profile(reviewer) {
            return Some(missing);
        }
        match self.profile_on(reviewer, ExecutorName::Native.as_str()) {
            None => Some(format!("names `{reviewer}`, which does not have `executor: native`")),
            Some(other) if without_memory(other) => {
                Some(format!("names `{reviewer}`, which needs `memory: on` for it"))
            }
            Some(_) => None,
        }
    }
}

fn without_memory(profile: &Profile) -> bool {
    profile.mode == Mode::Model || profile.memory.0 == MemoryUse::Off
}
