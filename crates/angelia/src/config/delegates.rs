//! Checks which profiles may delegate to which: each target must exist, and none may do more than
//! the profile that delegates to it. Cycles are allowed here; their depth is limited where work is
//! delegated.

use std::path::Path;

use super::{
    load::Config,
    problem::{Problem, nearest},
    types::{Mode, Profile, Trust},
};
use crate::delegation::Privileges;

impl Config {
    /// Returns the profiles that this one may delegate to on the given executor.
    pub(crate) fn delegates(&self, profile: &str, executor: &str) -> &[String] {
        let candidates = self.profiles.get(profile).map(|entry| &entry.candidates);
        let mut candidates = candidates.into_iter().flatten();
        let found = candidates.find(|(name, _)| name.as_str() == executor);
        found.map_or(&[], |(_, profile)| &profile.delegate_to)
    }

    /// Returns the profiles that this one may delegate to on any of its executors.
    pub(crate) fn all_delegates(&self, profile: &str) -> Vec<&str> {
        let candidates = self.profiles.get(profile).map(|entry| &entry.candidates);
        let mut all: Vec<&str> = Vec::new();
        for (_, profile) in candidates.into_iter().flatten() {
            for name in &profile.delegate_to {
                if !all.contains(&name.as_str()) {
                    all.push(name);
                }
            }
        }
        all
    }

    /// Returns what a profile may do on each of its executors.
    fn profile_privileges(&self, profile: &str, home: Option<&Path>) -> Vec<Privileges> {
        let candidates = self.profiles.get(profile).map(|entry| &entry.candidates);
        let candidates = candidates.into_iter().flatten();
        candidates.map(|(_, profile)| privileges_of(profile, home)).collect()
    }

    /// Describes how the target profile, or one of its fallbacks, exceeds the caller on any
    /// executor.
    fn find_excess(
        &self,
        target: &str,
        caller: &Privileges,
        home: Option<&Path>,
    ) -> Option<String> {
        let names = self.with_fallbacks(target).into_iter();
        let mut reaches = names.flat_map(|name| self.profile_privileges(name, home));
        reaches.find_map(|reach| reach.excess_over(caller))
    }

    /// Returns a profile and the profiles that take over from it.
    pub(crate) fn with_fallbacks<'a>(&'a self, profile: &'a str) -> Vec<&'a str> {
        let mut names = vec![profile];
        let mut looked_at = 0;
        while let Some(name) = names.get(looked_at) {
            looked_at += 1;
            let candidates = self.profiles.get(*name).map(|entry| &entry.candidates);
            for (_, profile) in candidates.into_iter().flatten() {
                if let Some(next) = profile.fallback_profile.as_deref()
                    && !names.contains(&next)
                {
                    names.push(next);
                }
            }
        }
        names
    }

    pub(super) fn check_delegates(&self, home: Option<&Path>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, entry) in &self.profiles {
            let mut said: Vec<String> = Vec::new();
            for (executor, profile) in &entry.candidates {
                let caller = privileges_of(profile, home);
                let inherited = self.tree.at(["executors", executor.as_str(), "delegate_to"]);
                let origin = (self.tree.at(["profiles", &**name, "delegate_to"]))
                    .or_else(|| self.tree.at([&**name, "delegate_to"]))
                    .or(inherited)
                    .unwrap_or(&self.tree);
                let is_own = inherited.is_none_or(|node| node.origin != origin.origin);
                // Defaults of an executor also reach profiles in model mode, where they do no harm.
                // Only a profile that sets `delegate_to` itself has made a mistake.
                if profile.mode == Mode::Model && !is_own {
                    continue;
                }
                for target in &profile.delegate_to {
                    let Some(what) = self.check_target(target, profile.mode, &caller, home) else {
                        continue;
                    };
                    if said.contains(&what) {
                        continue;
                    }
                    let path = format!("profiles.{name}.delegate_to");
                    problems.push(Problem::new(&origin.origin, &path, what.clone()));
                    said.push(what);
                }
            }
        }
        problems
    }

    fn check_target(
        &self,
        target: &str,
        mode: Mode,
        caller: &Privileges,
        home: Option<&Path>,
    ) -> Option<String> {
        if mode == Mode::Model {
            let what = "is of no use in model mode, where only the caller has tools; remove it";
            return Some(what.to_owned());
        }
        if !self.profiles.contains_key(target) {
            let hint = nearest(target, self.profile_names())
                .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            return Some(format!("names no profile: there is no `{target}`{hint}"));
        }
        let excess = self.find_excess(target, caller, home)?;
        Some(format!(
            "names `{target}`, which may do more than this profile: {excess}; narrow it, or leave \
             it out"
        ))
    }
}

fn privileges_of(profile: &Profile, home: Option<&Path>) -> Privileges {
    Privileges {
        mode: profile.mode.into(),
        permissions: super::resolve::permissions(profile),
        tools: profile.tools.0.clone(),
        // A delegated turn never runs at a terminal, so `trust: auto` means off.
        trust: profile.trust == Trust::On,
        cwd: profile.cwd.as_ref().and_then(|path| path.expand(home)),
    }
}
