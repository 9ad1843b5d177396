//! Tests of the model APIs' settings, of executors as targets, and of checklist C24: Plano's
//! variables.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{Mode, PermissionLevel},
    ports::ExecutorTarget,
};

use super::{TestHome, load_error};
use crate::config::{KeyProfiles, LiveAgentLimit};

const HASH: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[test]
fn keys_have_a_name_a_hash_and_what_they_allow() {
    let config = TestHome::with_file(&format!(
        "http:\n  keys:\n    - {{name: bot, sha256: {HASH}, profiles: [claude, work]}}\n    - {{name: all, sha256: {HASH}, agent_mode: true}}\n"
    ))
    .config();
    let keys = &config.http().keys;
    assert_eq!(keys[0].0.sha256.to_hex(), HASH);
    let names: Vec<Arc<str>> = vec!["claude".into(), "work".into()];
    assert_eq!(keys[0].0.profiles, KeyProfiles::Only(names));
    assert_eq!(keys[1].0.profiles, KeyProfiles::All);
    assert!(keys[1].0.agent_mode);
    for (key, word) in [
        ("{name: bot}", "sha256"),
        (&*format!("{{sha256: {HASH}}}"), "name"),
        ("{name: bot, sha256: abc}", "64 hexadecimal digits"),
        (&*format!("{{name: a, sha256: {HASH}, profiles: some}}"), "all"),
    ] {
        let said = load_error(&format!("http: {{keys: [{key}]}}\n"));
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn an_executor_can_be_had_by_its_name_and_mode() {
    let place = TestHome::with_file("executors: {claude: {permissions: edit, warm: 3}}\n");
    let config = place.config();
    let spec = |executor: &str, mode| {
        let target = ExecutorTarget { executor: executor.into(), mode };
        place.with_context(|call| config.resolve_target(&target, call))
    };
    let model = spec("claude", Mode::Model).unwrap().pop().unwrap();
    assert_eq!((&*model.profile, &*model.executor), ("claude", "claude"));
    assert_eq!((model.mode, model.warm), (Mode::Model, 3));
    let agent = spec("claude", Mode::Agent).unwrap().pop().unwrap();
    assert_eq!(&*agent.profile, "claude-agent");
    assert_eq!(agent.permissions.level, PermissionLevel::Edit);
    let unknown = spec("nobody", Mode::Model).unwrap_err().to_string();
    assert!(unknown.contains("`nobody`"), "{unknown}");
}

#[test]
fn planos_variables_are_taken_and_bad_ones_passed_over() {
    let good = TestHome::new()
        .var("CLAUDE_CLI_LISTEN_ADDR", "127.0.0.1:14001")
        .var("CLAUDE_CLI_BIN", "/opt/claude")
        .var("CLAUDE_CLI_PERMISSION_MODE", "bypassPermissions")
        .var("CLAUDE_CLI_SESSION_TTL_SECS", "30")
        .var("CLAUDE_CLI_WATCHDOG_SECS", "45")
        .var("CLAUDE_CLI_MAX_SESSIONS", "7");
    let config = good.config();
    assert_eq!(config.listen().port(), 14001);
    assert_eq!(config.sessions().idle_ttl.duration(), Duration::from_secs(30));
    assert_eq!(config.sessions().max_live, LiveAgentLimit::Count(7));
    let target = ExecutorTarget { executor: "claude".into(), mode: Mode::Agent };
    let spec = good.with_context(|call| config.resolve_target(&target, call));
    let spec = spec.unwrap().pop().unwrap();
    assert_eq!(spec.binary.as_deref(), Some("/opt/claude".as_ref()));
    assert_eq!(spec.permissions.level, PermissionLevel::Unattended);
    assert_eq!(spec.timeouts.silence, Duration::from_secs(45));

    let bad = TestHome::new()
        .var("CLAUDE_CLI_LISTEN_ADDR", "nowhere")
        .var("CLAUDE_CLI_PERMISSION_MODE", "yolo")
        .var("CLAUDE_CLI_SESSION_TTL_SECS", "soon")
        .var("CLAUDE_CLI_WATCHDOG_SECS", "-1")
        .var("CLAUDE_CLI_MAX_SESSIONS", "0");
    let (bad, plain) = (bad.config(), TestHome::new().config());
    assert!(!bad.has_variables());
    assert_eq!(bad.listen(), plain.listen());
}
