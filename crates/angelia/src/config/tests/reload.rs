//! Tests which settings of a changed file take effect at once, and which wait.

use super::TestHome;
use crate::config::{Config, Confirmation, reload::ConfigChange};

fn config(text: &str) -> Config {
    TestHome::with_file(text).config()
}

fn change(old: &str, new: &str, confirmation: Confirmation) -> ConfigChange {
    config(old).with_changes(&config(new), confirmation, Some("/home/owner".as_ref()))
}

/// Asserts the effect of a change of the file without a confirmation.
#[track_caller]
fn assert_change(old: &str, new: &str, applied: &[&str], waiting: &[&str]) -> Config {
    let change = change(old, new, Confirmation::None);
    assert_eq!(change.applied, applied, "applied: {old} -> {new}");
    assert_eq!(change.waiting, waiting, "waiting: {old} -> {new}");
    change.config
}

/// Puts settings into the default profile, on an executor of its own.
fn profile(settings: &str) -> String {
    format!("profiles: {{default: {{executor: claude, {settings}}}}}\n")
}

#[test]
fn what_opens_no_door_takes_effect_at_once() {
    for (old, new, key) in [
        ("", "model: opus", "model"),
        ("timeout: 10m", "timeout: 3h", "timeout"),
        ("approval_timeout: 1h", "", "approval_timeout"),
        ("", "budget_tool_count: 5", "budget_tool_count"),
        ("max_cost_usd: 1", "max_cost_usd: 9", "max_cost_usd"),
        ("", "system_prompt_path: /prompt.md", "system_prompt_path"),
        ("", "warm: 4", "warm"),
        // Narrower than before.
        ("permissions: unattended", "permissions: ask", "permissions"),
        ("allowed_tools: [Bash, Read]", "allowed_tools: [\"Bash(git *)\"]", "allowed_tools"),
        ("", "disallowed_tools: [Bash]", "disallowed_tools"),
        ("", "tools: none", "tools"),
        ("trust: on", "trust: off", "trust"),
        ("", "mode: model", "mode"),
        ("cwd: /src", "cwd: /src/part", "cwd"),
        ("cwd: /src", "", "cwd"),
        ("env_pass: [A, B]", "env_pass: [B]", "env_pass"),
        ("mcp_servers: {a: {command: x}}", "", "mcp_servers"),
        ("", "billing: subscription", "billing"),
    ] {
        let name = format!("profiles.default.{key}");
        let now = assert_change(&profile(old), &profile(new), &[&name], &[]);
        let candidate = &now.candidates("default")[0].1;
        assert_eq!(candidate, &config(&profile(new)).candidates("default")[0].1, "{key}");
    }
}

#[test]
fn what_opens_a_door_waits_for_the_owner() {
    for (old, new, key) in [
        ("", "permissions: edit", "permissions"),
        ("permissions: edit", "permissions: unattended", "permissions"),
        ("", "allowed_tools: [Bash]", "allowed_tools"),
        ("allowed_tools: [\"Bash(git *)\"]", "allowed_tools: [Bash]", "allowed_tools"),
        ("disallowed_tools: [Bash]", "", "disallowed_tools"),
        ("tools: [Read]", "tools: all", "tools"),
        ("trust: off", "trust: on", "trust"),
        ("mode: model", "", "mode"),
        ("cwd: /src", "cwd: /", "cwd"),
        ("", "cwd: /src", "cwd"),
        ("", "env: {LD_PRELOAD: /x.so}", "env"),
        ("env: {A: b}", "", "env"),
        ("", "env_pass: [GITHUB_TOKEN]", "env_pass"),
        ("", "binary: /opt/claude", "binary"),
        ("", "mcp_servers: {a: {command: x}}", "mcp_servers"),
        ("mcp_servers: {a: {command: x}}", "mcp_servers: {a: {command: y}}", "mcp_servers"),
        ("billing: subscription", "billing: any", "billing"),
    ] {
        let (old, new) = (profile(old), profile(new));
        let name = format!("profiles.default.{key}");
        let now = assert_change(&old, &new, &[], &[&name]);
        assert_eq!(now.candidates("default"), config(&old).candidates("default"), "{key}");
        let confirmed = change(&old, &new, Confirmation::Owner);
        assert_eq!((confirmed.applied, confirmed.waiting), (vec![name], vec![]));
        let wanted = config(&new);
        assert_eq!(confirmed.config.candidates("default"), wanted.candidates("default"));
    }
}

#[test]
fn one_edit_is_divided() {
    let now = assert_change(
        &profile("model: opus"),
        &profile("model: sonnet, permissions: unattended, timeout: 1h"),
        &["profiles.default.model", "profiles.default.timeout"],
        &["profiles.default.permissions"],
    );
    let profile = &now.candidates("default")[0].1;
    assert_eq!(profile.model.as_deref(), Some("sonnet"));
    assert_eq!(now.summaries()[0].model.as_deref(), Some("sonnet"));
    assert_eq!(serde_json::to_value(profile).unwrap()["permissions"], "ask");
    assert_eq!(now.to_json()["profiles"]["default"]["permissions"], "ask");
}

#[test]
fn defaults_of_an_executor_cannot_widen_a_profile_unseen() {
    let wider = "executors: {claude: {permissions: unattended}}\n";
    assert_change(
        "",
        wider,
        &[],
        &["executors.claude.permissions", "profiles.default.permissions"],
    );
    // The removed line had hidden them.
    let hidden = format!("{wider}{}", profile("permissions: ask"));
    let bare = format!("{wider}{}", profile(""));
    assert_change(&hidden, &bare, &[], &["profiles.default.permissions"]);
}

#[test]
fn a_new_profile_counts_at_once_if_an_old_one_allows_as_much() {
    let with =
        |profiles: &str| format!("profiles: {{default: {{permissions: edit}}, {profiles}}}\n");
    for (new, is_wider) in [
        ("p: {executor: claude, model: opus}", false),
        ("p: {executor: codex, permissions: edit}", false),
        ("p: {mode: model}", false),
        ("p: {executor: claude, permissions: unattended}", true),
        ("p: {executor: claude, env: {A: b}}", true),
        ("p: {executor: acp, command: [gemini, --acp]}", true),
        ("p: {executor: claude, cwd: /}", true),
    ] {
        let all: &[&str] = &["profiles.p"];
        let (applied, waiting) = if is_wider { (&[][..], all) } else { (all, &[][..]) };
        let now = assert_change(&with(""), &with(new), applied, waiting);
        assert_eq!(now.profile_names().any(|name| name == "p"), !is_wider, "{new}");
    }
    let now = assert_change(&with("p: {}"), &with(""), &["profiles.p"], &[]);
    assert_eq!(now.profile_names().collect::<Vec<_>>(), ["default"]);
}

#[test]
fn an_executor_is_changed_to_one_that_another_profile_may_use() {
    let (auto, claude) = ("profiles: {p: {}}\n", "profiles: {p: {executor: claude}}\n");
    assert_change(auto, claude, &["profiles.p.executor"], &[]);
    let acp = "profiles: {p: {executor: acp, command: [x]}}\n";
    let now = assert_change(auto, acp, &[], &["profiles.p.executor"]);
    assert_eq!(now.candidates("p").len(), 3);
    let now = change(auto, acp, Confirmation::Owner).config;
    assert_eq!(now.candidates("p"), config(acp).candidates("p"));
}

#[test]
fn the_rest_of_the_file_is_divided_too() {
    let old = "";
    for (new, name) in [
        ("http: {agent_mode: true}\n", "http.agent_mode"),
        ("mcp_servers: {a: {command: x}}\n", "mcp_servers"),
    ] {
        assert_change(old, new, &[], &[name]);
        assert_eq!(change(old, new, Confirmation::Owner).applied, [name]);
        assert_change(new, old, &[name], &[]);
    }
    for (new, name) in [
        ("listen: 127.0.0.1:1\n", "listen"),
        ("http: {allowed_origins: [\"https://a.example\"]}\n", "http.allowed_origins"),
        ("sessions: {keep: 1d}\n", "sessions.keep"),
        ("limits: {output_bytes: 1MiB}\n", "limits.output_bytes"),
        ("bus: {max_queued: 5}\n", "bus.max_queued"),
    ] {
        assert_change(old, new, &[], &[name]);
        assert_eq!(change(old, new, Confirmation::Owner).waiting, [name], "it needs a restart");
    }
    assert_change(old, "drain: 3s\n", &["drain"], &[]);
    assert_change(old, "http: {model_aliases: {a: b}}\n", &["http.model_aliases"], &[]);
}

#[test]
fn a_change_that_is_valid_only_as_a_whole_waits_as_a_whole() {
    let new = "profiles: {default: {executor: claude, model: opus, delegate_to: [p]}, p: {executor: acp, command: [x]}}\n";
    let waiting = ["profiles.default.delegate_to", "profiles.default.model", "profiles.p"];
    // `model` could take effect alone, and does.
    assert_change(&profile(""), new, &["profiles.default.model"], &[waiting[0], waiting[2]]);
    let old = "profiles: {default: {fallback_profile: a}, a: {}, b: {}}\n";
    let gone = "profiles: {default: {fallback_profile: b}, b: {}}\n";
    assert_change(old, gone, &[], &["profiles.a", "profiles.default.fallback_profile"]);
    let confirmed = change(old, gone, Confirmation::Owner);
    assert!(confirmed.waiting.is_empty(), "{confirmed:?}");
}

#[test]
fn an_edit_that_is_undone_waits_for_nothing() {
    let old = config(&profile(""));
    let wider = config(&profile("permissions: unattended"));
    let now = old.with_changes(&wider, Confirmation::None, None).config;
    let undone = now.with_changes(&old, Confirmation::None, None);
    assert_eq!((undone.applied.len(), undone.waiting.len()), (0, 0));
}

#[test]
fn another_provider_waits_for_the_owner() {
    let provider = |port: u16| {
        format!("providers: {{home: {{api: chat, base_url: 'http://localhost:{port}/v1'}}}}\n")
    };
    assert_change(&provider(1), &provider(2), &[], &["providers"]);
    let change = change(&provider(1), &provider(2), Confirmation::Owner);
    assert_eq!((change.applied, change.waiting), (vec!["providers".to_owned()], vec![]));
    let now = change.config.providers(None);
    assert_eq!(&*now[0].base_url, "http://localhost:2/v1");
}

#[test]
fn a_wider_sandbox_waits_and_a_narrower_one_does_not() {
    let native = |settings: &str| {
        format!("profiles: {{default: {{executor: native, model: ollama/m, {settings}}}}}\n")
    };
    for (narrow, wide, key) in [
        ("sandbox: landlock", "", "sandbox"),
        ("", "sandbox: off", "sandbox"),
        ("", "network: on", "network"),
        ("sandbox_read: [/a]", "sandbox_read: [/a, /b]", "sandbox_read"),
        ("", "sandbox_write: [/a]", "sandbox_write"),
    ] {
        let name = format!("profiles.default.{key}");
        assert_change(&native(narrow), &native(wide), &[], &[&name]);
        assert_change(&native(wide), &native(narrow), &[&name], &[]);
    }
    assert_change(
        &native(""),
        &native("max_iterations: 5"),
        &["profiles.default.max_iterations"],
        &[],
    );
}
