//! Checks the delegation targets of profiles: each target must exist, and none may do more than the
//! profile that delegates to it. Cycles are allowed here; their depth is limited where work is
//! delegated.

use std::{path::Path, sync::Arc};

use angelia_core::ports::DelegateProfile;

use super::{
    load::Config,
    problem::Problem,
    types::{Mode, Profile, Trust, expand_home},
};
use crate::delegation::Privileges;

impl Config {
    /// Returns the profiles that this one may delegate to on the given executor.
    pub(crate) fn delegates(&self, profile: &str, executor: &str) -> &[String] {
        self.profile_on(profile, executor).map_or(&[], |profile| &profile.delegate_to)
    }

    /// Returns the profiles that this one may delegate to on any of its executors.
    pub(crate) fn all_delegates(&self, profile: &str) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for (_, profile) in self.candidates(profile) {
            for name in &profile.delegate_to {
                if !all.contains(&name.as_str()) {
                    all.push(name);
                }
            }
        }
        all
    }

    /// Describes profiles to an agent that may delegate to them.
    pub(crate) fn delegate_profiles<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<DelegateProfile> {
        let summaries = self.summaries();
        let known = names
            .into_iter()
            .filter_map(|name| summaries.iter().find(|summary| &*summary.name == name));
        let described = known.map(|profile| DelegateProfile {
            name: Arc::clone(&profile.name),
            about: match &profile.model {
                Some(model) => format!("{} {model}", profile.executor),
                None => profile.executor.to_string(),
            },
        });
        described.collect()
    }

    /// Returns the privileges of a profile on each of its executors.
    fn profile_privileges(&self, profile: &str, home: Option<&Path>) -> Vec<Privileges> {
        let candidates = self.candidates(profile).iter();
        candidates.map(|(_, profile)| privileges_of(profile, home)).collect()
    }

    /// Describes the rights in which the target profile, or one of its fallbacks, exceeds the
    /// caller on any executor.
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

    pub(super) fn check_delegates(&self, home: Option<&Path>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, entry) in &self.profiles {
            let mut reported: Vec<String> = Vec::new();
            for (executor, profile) in &entry.candidates {
                let caller = privileges_of(profile, home);
                let origin = self.key_origin(name, *executor, "delegate_to");
                let inherited = self.tree.at(["executors", executor.as_str(), "delegate_to"]);
                let is_own = inherited.is_none_or(|node| node.origin != *origin);
                // An executor's defaults also apply to profiles in model mode, where they do no
                // harm. Only a profile that sets `delegate_to` itself is a mistake.
                if profile.mode == Mode::Model && !is_own {
                    continue;
                }
                for target in &profile.delegate_to {
                    let Some(what) = self.check_target(target, profile.mode, &caller, home) else {
                        continue;
                    };
                    if !reported.contains(&what) {
                        let path = format!("profiles.{name}.delegate_to");
                        problems.push(Problem::new(origin, &path, what.clone()));
                        reported.push(what);
                    }
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
        if let Some(missing) = self.missing_profile(target) {
            return Some(missing);
        }
        let excess = self.find_excess(target, caller, home)?;
        Some(format!(
            "names `{target}`, which may do more than this profile: {excess}; narrow it, or leave \
             it out"
        ))
    }
}

pub(super) fn privileges_of(profile: &Profile, home: Option<&Path>) -> Privileges {
    Privileges {
        mode: profile.mode.into(),
        permissions: super::resolve::permissions(profile),
        tools: profile.tools.0.clone(),
        // A delegated turn never runs at a terminal, so `trust: auto` means off.
        trust: profile.trust == Trust::On,
        cwd: profile.cwd.as_ref().and_then(|path| expand_home(&path.0, home)),
    }
}
