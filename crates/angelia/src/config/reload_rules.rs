//! Decides which changes of the file a running daemon adopts on its own, and which need the owner's
//! confirmation or a restart (`docs/design/0018-live-configuration.md`). A program that can write
//! the file is not always the owner's, because agents run as the same user.

use std::path::Path;

use super::{
    delegates::privileges_of,
    types::{Billing, ConfigFile, Profile, SandboxChoice},
};

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReloadRule {
    /// At once, because the setting cannot widen anybody's access.
    AtOnce,
    /// At once if the new value allows no more than the old one, otherwise like
    /// [`Self::Confirmed`].
    IfNoWider,
    /// When the owner confirms it.
    Confirmed,
    /// When the daemon starts, because it is read only then.
    Restart,
}

use ReloadRule::{AtOnce, Confirmed, IfNoWider};

/// The settings outside profiles. Settings not listed here need a restart.
const RULES: [(&str, ReloadRule); 10] = [
    ("drain", AtOnce),
    // Only commands at a terminal use this, and they read the file themselves.
    ("desktop_notifications", AtOnce),
    ("mcp_servers", IfNoWider),
    // A different address would receive the prompts, and a different command would run as the
    // owner.
    ("providers", Confirmed),
    ("http.agent_mode", IfNoWider),
    // New and revoked keys take effect at once, because `angelia keys` writes them.
    ("http.keys", AtOnce),
    ("http.model_aliases", AtOnce),
    ("http.utility_profile", AtOnce),
    ("http.disconnect_grace", AtOnce),
    ("http.idempotency_window", AtOnce),
];

/// The settings of a profile. Settings not listed here need the owner's confirmation.
const PROFILE_RULES: [(&str, ReloadRule); 46] = [
    ("executor", IfNoWider),
    ("model", AtOnce),
    ("mode", IfNoWider),
    ("binary", Confirmed),
    ("command", Confirmed),
    ("cwd", IfNoWider),
    ("trust", IfNoWider),
    ("system_prompt_path", AtOnce),
    ("permissions", IfNoWider),
    ("allowed_tools", IfNoWider),
    ("disallowed_tools", IfNoWider),
    ("tools", IfNoWider),
    ("mcp_servers", IfNoWider),
    ("env", Confirmed),
    ("env_pass", IfNoWider),
    ("billing", IfNoWider),
    ("timeout", AtOnce),
    ("first_event_timeout", AtOnce),
    ("inter_event_silence_timeout", AtOnce),
    ("post_tool_quiet_timeout", AtOnce),
    ("tool_timeout", AtOnce),
    ("retry_timeout", AtOnce),
    ("compaction_timeout", AtOnce),
    ("background_grace", AtOnce),
    ("approval_timeout", AtOnce),
    ("caller_tool_timeout", AtOnce),
    ("budget_seconds", AtOnce),
    ("budget_tool_count", AtOnce),
    ("max_cost_usd", AtOnce),
    ("auto_resume_budget_guard", AtOnce),
    ("auto_resume_max_resumes", AtOnce),
    ("fallback_profile", IfNoWider),
    ("delegate_to", IfNoWider),
    ("review", IfNoWider),
    ("exclude_dynamic_system_prompt_sections", AtOnce),
    ("warm", AtOnce),
    // Like `model`: `providers` decides who gets the conversation.
    ("fallback", AtOnce),
    ("max_iterations", AtOnce),
    ("max_output_tokens", AtOnce),
    ("reasoning", AtOnce),
    ("sandbox", IfNoWider),
    ("sandbox_read", IfNoWider),
    ("sandbox_write", IfNoWider),
    ("network", IfNoWider),
    ("memory", IfNoWider),
    ("compaction", AtOnce),
];

/// Returns the rule for a setting outside profiles, by its path.
pub(super) fn rule_of(path: &str) -> ReloadRule {
    find(&RULES, path).unwrap_or(ReloadRule::Restart)
}

/// Returns the rule for a profile's key.
pub(super) fn profile_rule_of(key: &str) -> ReloadRule {
    find(&PROFILE_RULES, key).unwrap_or(Confirmed)
}

/// Returns the settings with this rule, by their names in the reference.
#[cfg(test)]
pub(super) fn keys_with(rule: ReloadRule) -> impl Iterator<Item = String> {
    let profile = PROFILE_RULES.iter().map(|(key, rule)| (format!("profiles.*.{key}"), *rule));
    let others = RULES.iter().map(|(path, rule)| ((*path).to_owned(), *rule));
    others.chain(profile).filter(move |(_, one)| *one == rule).map(|(path, _)| path)
}

fn find(rules: &[(&str, ReloadRule)], key: &str) -> Option<ReloadRule> {
    rules.iter().find(|(known, _)| *known == key).map(|(_, rule)| *rule)
}

/// Returns whether a setting outside profiles allows more than before.
pub(super) fn is_wider(path: &str, old: &ConfigFile, new: &ConfigFile) -> bool {
    match path {
        "http.agent_mode" => new.http.agent_mode,
        "mcp_servers" => !is_part_of(new.mcp_servers.iter(), old.mcp_servers.iter()),
        _ => true,
    }
}

/// Returns whether a profile allows more than another one that differs only in this key.
pub(super) fn is_wider_profile(
    key: &str,
    old: &Profile,
    new: &Profile,
    home: Option<&Path>,
) -> bool {
    match key {
        // A profile without a directory works only for callers that have one.
        "cwd" if old.cwd.is_none() => new.cwd.is_some(),
        "cwd" | "mode" | "trust" | "permissions" | "allowed_tools" | "disallowed_tools"
        | "tools" => exceeds(old, new, home),
        "mcp_servers" => !is_part_of(new.mcp_servers.iter(), old.mcp_servers.iter()),
        "env_pass" => !is_part_of(new.env_pass.iter(), old.env_pass.iter()),
        "delegate_to" => !is_part_of(new.delegate_to.iter(), old.delegate_to.iter()),
        "fallback_profile" => new.fallback_profile.is_some(),
        "sandbox" => new.sandbox != SandboxChoice::Landlock && old.sandbox != SandboxChoice::Off,
        "sandbox_read" => !is_part_of(new.sandbox_read.iter(), old.sandbox_read.iter()),
        "sandbox_write" => !is_part_of(new.sandbox_write.iter(), old.sandbox_write.iter()),
        "network" => new.network,
        // A different model would receive the conversations.
        "review" => new.review.0.is_some(),
        "memory" => new.memory.0 > old.memory.0,
        "billing" => old.billing != Billing::Any,
        _ => true,
    }
}

/// Returns whether the agents of a profile may do more than those of another.
pub(super) fn exceeds(old: &Profile, new: &Profile, home: Option<&Path>) -> bool {
    privileges_of(new, home).excess_over(&privileges_of(old, home)).is_some()
}

fn is_part_of<T: PartialEq>(
    mut part: impl Iterator<Item = T>,
    whole: impl Iterator<Item = T>,
) -> bool {
    let whole: Vec<T> = whole.collect();
    part.all(|item| whole.contains(&item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{setting::SettingsBlock as _, types::Http};

    #[test]
    fn every_key_of_a_profile_and_of_http_is_classified() {
        let restart = ["allowed_hosts", "allowed_origins"];
        for key in Http::KEYS {
            let rule = find(&RULES, &format!("http.{key}"));
            assert_eq!(rule.is_none(), restart.contains(key), "http.{key}");
        }
        for key in Profile::KEYS {
            assert!(find(&PROFILE_RULES, key).is_some(), "{key}");
        }
        for (key, _) in PROFILE_RULES {
            assert!(Profile::KEYS.contains(&key), "{key}");
        }
    }
}
