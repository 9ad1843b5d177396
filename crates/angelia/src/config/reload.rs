//! Merges a changed file into the effective configuration, according to
//! [`reload_rules`](super::reload_rules). Pure: the caller reads the file.

use std::{path::Path, sync::Arc};

use super::{
    hermes::BRIDGE_KEY,
    load::{Config, DEFAULT_PROFILE, ProfileEntry},
    reload_rules::{ReloadRule, exceeds, is_wider, is_wider_profile, profile_rule_of, rule_of},
    setting::SettingsBlock,
    types::{ConfigFile, ExecutorName, Profile, ProfileName},
};

/// Who is behind a change of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    /// Only the file has changed, and it is unknown who wrote it.
    None,
    Owner,
}

/// The result of a changed file.
#[derive(Clone, Debug)]
pub(crate) struct ConfigChange {
    /// The configuration in effect from now on.
    pub(crate) config: Config,
    /// The settings in it that have changed.
    pub(crate) applied: Vec<String>,
    /// The settings in the file that do not take effect yet.
    pub(crate) waiting: Vec<String>,
}

impl Config {
    /// Returns this configuration with those values of `file` that may take effect now. `home` is
    /// the owner's home, for paths that start with `~/`.
    pub(crate) fn with_changes(
        &self,
        file: &Self,
        confirmation: Confirmation,
        home: Option<&Path>,
    ) -> ConfigChange {
        let mut config = self.clone();
        let mut merge = Merge { confirmation, home, applied: Vec::new(), waiting: Vec::new() };
        merge.settings(&mut config.effective, &file.effective);
        merge.profiles(&mut config, file);
        merge.executors(&mut config, file);
        config.tree = file.tree.clone();
        let Merge { mut applied, mut waiting, .. } = merge;
        // For example, a fallback may name a profile that does not take effect yet.
        if !config.find_problems(home).is_empty() {
            config = self.clone();
            waiting.append(&mut applied);
        }
        waiting.sort();
        ConfigChange { config, applied, waiting }
    }
}

struct Merge<'a> {
    confirmation: Confirmation,
    home: Option<&'a Path>,
    applied: Vec<String>,
    waiting: Vec<String>,
}

impl Merge<'_> {
    /// Decides whether a setting that differs takes effect.
    fn decide(&mut self, name: String, rule: ReloadRule, is_wider: impl FnOnce() -> bool) -> bool {
        let is_confirmed = self.confirmation == Confirmation::Owner;
        let accepted = match rule {
            ReloadRule::AtOnce => true,
            ReloadRule::IfNoWider => is_confirmed || !is_wider(),
            ReloadRule::Confirmed => is_confirmed,
            ReloadRule::Restart => false,
        };
        if accepted {
            self.applied.push(name);
        } else {
            self.waiting.push(name);
        }
        accepted
    }

    /// Merges the settings that belong to no profile.
    fn settings(&mut self, merged: &mut ConfigFile, new: &ConfigFile) {
        let old = merged.clone();
        let mut decide = |block: &str, key: &str| {
            let path = if block.is_empty() { key.to_owned() } else { format!("{block}.{key}") };
            self.decide(path.clone(), rule_of(&path), || is_wider(&path, &old, new))
        };
        let blocks = ["profiles", "executors", BRIDGE_KEY, "sessions", "http", "limits", "bus"];
        merged.take_changes(new, &mut |key| !blocks.contains(&key) && decide("", key));
        merged.sessions.take_changes(&new.sessions, &mut |key| decide("sessions", key));
        merged.http.take_changes(&new.http, &mut |key| decide("http", key));
        merged.limits.take_changes(&new.limits, &mut |key| decide("limits", key));
        merged.bus.take_changes(&new.bus, &mut |key| decide("bus", key));
    }

    fn profiles(&mut self, merged: &mut Config, new: &Config) {
        let in_force = merged.profiles.clone();
        for name in in_force.keys().filter(|name| !new.profiles.contains_key(*name)) {
            self.applied.push(profile_path(name));
            merged.profiles.remove(name);
            copy_shown_profile(merged, new, name);
        }
        for (name, entry) in &new.profiles {
            let old = in_force.get(name);
            // On an executor that is new to the profile, compare it with all profiles on that
            // executor.
            let is_wider = entry.candidates.iter().any(|(executor, profile)| {
                let is_new = old.is_none_or(|old| old.on(*executor).is_none());
                let mut known = in_force.values().filter_map(|entry| entry.on(*executor));
                is_new && !known.any(|known| self.covers(known, profile))
            });
            match old {
                Some(old) => self.changed_profile(merged, new, name, old, is_wider),
                None => {
                    if self.decide(profile_path(name), ReloadRule::IfNoWider, || is_wider) {
                        merged.profiles.insert(Arc::clone(name), entry.clone());
                        copy_shown_profile(merged, new, name);
                    }
                }
            }
        }
        self.default_profile(merged, new);
    }

    /// Merges a profile that both configurations have. `is_wider` concerns the executors that are
    /// new to it.
    fn changed_profile(
        &mut self,
        merged: &mut Config,
        new: &Config,
        name: &Arc<str>,
        old: &ProfileEntry,
        is_wider: bool,
    ) {
        let Some(entry) = new.profiles.get(name) else { return };
        let path = profile_path(name);
        let mut accepted = Vec::new();
        let mut base = old.clone();
        if old.executors() != entry.executors() {
            let rule = profile_rule_of("executor");
            if !self.decide(format!("{path}.executor"), rule, || is_wider) {
                return;
            }
            accepted.push("executor");
            let known = |(executor, profile): &(ExecutorName, Profile)| {
                let known = old.on(*executor).unwrap_or(profile).clone();
                (*executor, Profile { executor: profile.executor, ..known })
            };
            base.candidates = entry.candidates.iter().map(known).collect();
        }
        base.resume = entry.resume;
        accepted.extend(self.profile_keys(&path, &mut base, entry));
        merged.profiles.insert(Arc::clone(name), base);
        if let (Some(shown), Some(now)) =
            (profile_in_mut(&mut merged.effective, name), profile_in(&new.effective, name))
        {
            shown.take_changes(now, &mut |key| accepted.contains(&key));
        }
    }

    /// Merges the keys of one profile for each of its executors, which are the same in both.
    /// Returns the accepted keys.
    fn profile_keys(
        &mut self,
        path: &str,
        merged: &mut ProfileEntry,
        new: &ProfileEntry,
    ) -> Vec<&'static str> {
        let old = merged.clone();
        let (applied, waiting) = (self.applied.len(), self.waiting.len());
        let mut accepted = Vec::new();
        for key in Profile::KEYS {
            let changed: Vec<(&Profile, Profile)> = (old.candidates.iter())
                .zip(&new.candidates)
                .map(|((_, old), (_, new))| (old, with_key(old, new, key)))
                .filter(|(old, changed)| *old != changed)
                .collect();
            if changed.is_empty() {
                continue;
            }
            let home = self.home;
            let is_wider =
                || changed.iter().any(|(old, new)| is_wider_profile(key, old, new, home));
            if self.decide(format!("{path}.{key}"), profile_rule_of(key), is_wider) {
                accepted.push(*key);
            }
        }
        for ((_, merged), (_, new)) in merged.candidates.iter_mut().zip(&new.candidates) {
            merged.take_changes(new, &mut |key| accepted.contains(&key));
        }
        let mut pairs = old.candidates.iter().zip(&merged.candidates);
        let is_wider = pairs.any(|((_, old), (_, merged))| exceeds(old, merged, self.home));
        if is_wider && self.confirmation == Confirmation::None {
            // Each key on its own allows no more, but together they do.
            merged.clone_from(&old);
            accepted.clear();
            let reverted = self.applied.split_off(applied);
            self.waiting.splice(waiting.., reverted);
        }
        accepted
    }

    /// Returns whether a profile allows nothing that `known`, on the same executor, does not allow.
    fn covers(&self, known: &Profile, profile: &Profile) -> bool {
        let is_closed = |key: &&str| {
            let changed = with_key(known, profile, key);
            changed == *known
                || match profile_rule_of(key) {
                    ReloadRule::AtOnce => true,
                    ReloadRule::IfNoWider => !is_wider_profile(key, known, &changed, self.home),
                    ReloadRule::Confirmed | ReloadRule::Restart => false,
                }
        };
        let mut keys = Profile::KEYS.iter().filter(|key| **key != "executor");
        keys.all(is_closed) && !exceeds(known, profile, self.home)
    }

    /// Merges the executors with their own defaults, used by callers that give a model id.
    fn executors(&mut self, merged: &mut Config, new: &Config) {
        let before = self.waiting.len();
        for ((executor, merged), (_, new)) in merged.targets.iter_mut().zip(&new.targets) {
            let entry = |profile: &Profile| ProfileEntry {
                candidates: vec![(*executor, profile.clone())],
                resume: true,
            };
            let (mut base, new) = (entry(merged), entry(new));
            self.profile_keys(&format!("executors.{}", executor.as_str()), &mut base, &new);
            if let Some((_, profile)) = base.candidates.pop() {
                *merged = profile;
            }
        }
        if self.waiting.len() == before {
            merged.effective.executors.clone_from(&new.effective.executors);
        }
    }

    /// Merges the choice of the profile used when none is named.
    fn default_profile(&mut self, merged: &mut Config, new: &Config) {
        if merged.default_profile == new.default_profile {
            return;
        }
        let is_plain = &*new.default_profile == DEFAULT_PROFILE;
        let is_known = merged.profiles.contains_key(&new.default_profile);
        let rule = if is_plain { ReloadRule::AtOnce } else { ReloadRule::Confirmed };
        if self.decide(format!("{BRIDGE_KEY}.enabled"), rule, || true) && is_known {
            merged.default_profile = Arc::clone(&new.default_profile);
        }
    }
}

fn profile_path(name: &str) -> String {
    if name == BRIDGE_KEY { name.to_owned() } else { format!("profiles.{name}") }
}

/// Returns a copy of `old` with one key taken from `new`.
pub(super) fn with_key(old: &Profile, new: &Profile, key: &str) -> Profile {
    let mut changed = old.clone();
    changed.take_changes(new, &mut |one| one == key);
    changed
}

/// Returns a profile as `config show` prints it.
fn profile_in<'a>(file: &'a ConfigFile, name: &Arc<str>) -> Option<&'a Profile> {
    if &**name == BRIDGE_KEY {
        return file.claude_code_bridge.as_ref().map(|bridge| &bridge.profile);
    }
    file.profiles.get(&ProfileName(Arc::clone(name)))
}

fn profile_in_mut<'a>(file: &'a mut ConfigFile, name: &Arc<str>) -> Option<&'a mut Profile> {
    if &**name == BRIDGE_KEY {
        return file.claude_code_bridge.as_mut().map(|bridge| &mut bridge.profile);
    }
    file.profiles.get_mut(&ProfileName(Arc::clone(name)))
}

/// Adopts a profile that is new, or removes one that is gone.
fn copy_shown_profile(merged: &mut Config, new: &Config, name: &Arc<str>) {
    if &**name == BRIDGE_KEY {
        merged.effective.claude_code_bridge.clone_from(&new.effective.claude_code_bridge);
        return;
    }
    let key = ProfileName(Arc::clone(name));
    match new.effective.profiles.get(&key) {
        Some(profile) => merged.effective.profiles.insert(key, profile.clone()),
        None => merged.effective.profiles.remove(&key),
    };
}
