//! Checks the fallback profiles: each must exist, and no chain of fallbacks may lead back to its
//! start.

use super::{load::Config, problem::Problem};

impl Config {
    /// Returns the profile that takes over from this one on the given executor.
    pub(crate) fn fallback(&self, profile: &str, executor: &str) -> Option<&str> {
        self.profile_on(profile, executor)?.fallback_profile.as_deref()
    }

    /// Returns the profiles that take over from this one on any of its executors.
    fn fallbacks(&self, profile: &str) -> impl Iterator<Item = &str> {
        let candidates = self.candidates(profile).iter();
        candidates.filter_map(|(_, profile)| profile.fallback_profile.as_deref())
    }

    /// Returns a profile and all profiles that can take over from it.
    pub(crate) fn with_fallbacks<'a>(&'a self, profile: &'a str) -> Vec<&'a str> {
        let mut names = vec![profile];
        let mut looked_at = 0;
        while let Some(name) = names.get(looked_at).copied() {
            looked_at += 1;
            for next in self.fallbacks(name) {
                if !names.contains(&next) {
                    names.push(next);
                }
            }
        }
        names
    }

    pub(super) fn check_fallbacks(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for name in self.profile_names() {
            let mut reported: Vec<String> = Vec::new();
            for (executor, profile) in self.candidates(name) {
                let next = profile.fallback_profile.as_deref();
                let Some(what) = next.and_then(|next| self.check_fallback(name, next)) else {
                    continue;
                };
                // Most executors inherit the profile's own fallback, so one report is enough.
                if !reported.contains(&what) {
                    let origin = self.key_origin(name, *executor, "fallback_profile");
                    let path = format!("profiles.{name}.fallback_profile");
                    problems.push(Problem::new(origin, &path, what.clone()));
                    reported.push(what);
                }
            }
        }
        problems
    }

    fn check_fallback(&self, name: &str, next: &str) -> Option<String> {
        if let Some(missing) = self.missing_profile(next) {
            return Some(missing);
        }
        let chain = self.with_fallbacks(name);
        let is_cycle = chain
            .iter()
            .any(|name_in_chain| self.fallbacks(name_in_chain).any(|target| target == name));
        is_cycle.then(|| format!("leads back to `{name}` itself; end the chain somewhere"))
    }
}
