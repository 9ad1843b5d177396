//! Tests that the defaults are those of the contract.

use angelia_core::model::{Budgets, NativeSettings, TurnTimeouts};

use super::TestHome;

/// Every key of the contract that does something now, with the contract's value.
const CONTRACT: &str = "\
listen: 127.0.0.1:4376
profiles:
  default:
    executor: auto
    model: null
    mode: agent
    binary: null
    command: null
    cwd: null
    trust: auto
    system_prompt_path: null
    permissions: ask
    allowed_tools: []
    disallowed_tools: []
    tools: default
    mcp_servers: {}
    env: {}
    env_pass: []
    billing: any
    timeout: 2h
    first_event_timeout: 1m
    inter_event_silence_timeout: 2m
    post_tool_quiet_timeout: 90s
    tool_timeout: 30m
    retry_timeout: 3m
    compaction_timeout: 10m
    background_grace: 15m
    approval_timeout: 1d
    caller_tool_timeout: 10m
    budget_seconds: null
    budget_tool_count: null
    max_cost_usd: null
    auto_resume_budget_guard: true
    auto_resume_max_resumes: 5
    fallback_profile: null
    delegate_to: []
    review: off
    exclude_dynamic_system_prompt_sections: true
    warm: 1
    fallback: []
    max_iterations: 90
    max_output_tokens: null
    reasoning: null
    sandbox: auto
    sandbox_read: []
    sandbox_write: []
    network: false
    memory: off
    compaction:
      at: 0.85
      protect_first_n: 3
      on_summary_failure: abort
providers: {}
executors:
  claude: {}
  codex: {}
  acp: {}
  native: {}
sessions:
  idle_ttl: 10m
  one_off_idle_ttl: 1m
  max_live: auto
  max_queued_turns: 16
  keep: 90d
  snapshots: false
drain: 10s
desktop_notifications: auto
log:
  max_size: 20MiB
  keep: 5
http:
  agent_mode: false
  keys: []
  allowed_hosts: []
  allowed_origins: []
  model_aliases: {}
  utility_profile: null
  disconnect_grace: 10s
  idempotency_window: 1d
limits:
  output_bytes: 64MiB
  bodies_bytes: 512MiB
  connections_per_caller: 64
bus:
  endpoint: angelia
  hermes_socket: auto
  message_ttl: 7d
  max_queued: 10000
  dedupe_window: 2m
channels: {}
hooks_in: {}
fleet: null
prices: {}
mcp_servers: {}
";

#[test]
fn without_a_file_the_contract_holds() {
    assert_eq!(TestHome::new().config().show(), CONTRACT);
}

/// The contract writes some durations with another unit than we do.
#[test]
fn the_contracts_own_spelling_says_the_same() {
    let text = CONTRACT
        .replace("first_event_timeout: 1m", "first_event_timeout: 60")
        .replace("silence_timeout: 2m", "silence_timeout: 120")
        .replace("post_tool_quiet_timeout: 90s", "post_tool_quiet_timeout: 90")
        .replace("approval_timeout: 1d", "approval_timeout: 24h")
        .replace("network: false", "network: off");
    assert_eq!(TestHome::with_file(&text).config().show(), CONTRACT);
}

/// Keeps the table of states true, which the engine prints with its own defaults.
#[test]
fn the_engines_defaults_are_the_same() {
    let place = TestHome::new();
    let specs = place.with_context(|call| place.config().resolve(None, call).unwrap());
    for spec in specs {
        assert_eq!(spec.timeouts, TurnTimeouts::default());
        assert_eq!(spec.budgets, Budgets::default());
        assert_eq!(spec.native, NativeSettings::default());
    }
}

#[test]
fn an_empty_file_is_valid() {
    for text in ["", "\n", "# only a comment\n", "---\n", "null\n"] {
        let config = TestHome::with_file(text).config();
        assert_eq!(config.show(), CONTRACT, "{text:?}");
    }
}

#[test]
fn the_contract_itself_is_a_valid_file() {
    let config = TestHome::with_file(CONTRACT).config();
    assert_eq!(config.show(), CONTRACT);
    assert!(config.show_origin().contains("sessions.keep: 90d  # config.yaml:64"));
}

#[test]
fn a_block_with_nothing_in_it_is_empty() {
    let text = "profiles:\n  default:\nexecutors:\nsessions:\nmcp_servers:\n";
    assert_eq!(TestHome::with_file(text).config().show(), CONTRACT);
}

#[test]
fn the_initial_file_says_the_defaults() {
    let text = crate::config::initial_file();
    assert_eq!(TestHome::with_file(&text).config().show(), CONTRACT);
}

#[test]
fn the_initial_file_says_the_defaults_with_every_key_taken_in() {
    let text = crate::config::initial_file();
    let uncommented: Vec<String> = text
        .lines()
        .map(|line| match line.split_once('#') {
            Some((indent, key)) if !key.starts_with(' ') => format!("{indent}{key}"),
            _ => line.to_owned(),
        })
        .collect();
    let config = TestHome::with_file(&uncommented.join("\n")).config();
    assert_eq!(config.show(), CONTRACT);
    let said = config.show_origin();
    assert!(!said.contains("# default"), "{said}");
}
