//! Checks the fallback profiles: each must exist, and no chain of them may lead back to its start.

use super::{
    load::Config,
    problem::{Problem, nearest},
};

impl Config {
    /// Returns the profile that takes over from this one on the given executor.
    pub(crate) fn fallback(&self, profile: &str, executor: &str) -> Option<&str> {
        let mut candidates = self.profiles.get(profile)?.candidates.iter();
        let (_, profile) = candidates.find(|(name, _)| name.as_str() == executor)?;
        profile.fallback_profile.as_deref()
    }

    pub(super) fn check_fallbacks(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, entry) in &self.profiles {
            let executors = entry.candidates.iter().map(|(executor, _)| executor.as_str());
            let mut named =
                executors.filter_map(|executor| Some((executor, self.fallback(name, executor)?)));
            let Some((executor, next)) = named.next() else {
                continue;
            };
            let what = if !self.profiles.contains_key(next) {
                let nearest = nearest(next, self.profile_names());
                let hint =
                    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
                format!("names no profile: there is no `{next}`{hint}")
            } else if self.has_fallback_cycle(name) {
                format!("leads back to `{name}` itself; end the chain somewhere")
            } else {
                continue;
            };
            let origin = [["profiles", &**name], ["executors", executor]]
                .iter()
                .find_map(|[block, key]| self.tree.at([*block, *key, "fallback_profile"]))
                .or_else(|| self.tree.at([&**name, "fallback_profile"]));
            let path = format!("profiles.{name}.fallback_profile");
            match origin {
                Some(node) => problems.push(Problem::new(&node.origin, &path, what)),
                None => problems.push(Problem::new(&self.tree.origin, &path, what)),
            }
        }
        problems
    }

    /// Returns whether the chain of fallbacks from this profile leads back to it, on any executor.
    fn has_fallback_cycle(&self, start: &str) -> bool {
        let mut open = vec![start];
        let mut seen: Vec<&str> = Vec::new();
        while let Some(name) = open.pop() {
            let Some(entry) = self.profiles.get(name) else {
                continue;
            };
            for (executor, _) in &entry.candidates {
                match self.fallback(name, executor.as_str()) {
                    Some(next) if next == start => return true,
                    Some(next) if !seen.contains(&next) => {
                        seen.push(next);
                        open.push(next);
                    }
                    _ => {}
                }
            }
        }
        false
    }
}
