//! Tests of checklist A: the block and the variables of Hermes.

use angelia_core::model::{SystemPrompt, ToolSet};

use super::TestHome;

/// A01
#[test]
fn enabled_makes_it_the_profile_for_those_who_name_none() {
    let cases = [
        ("", "default"),
        ("claude_code_bridge: {model: opus}", "default"),
        ("claude_code_bridge: {enabled: false}", "default"),
        ("claude_code_bridge: {enabled: true}", "claude_code_bridge"),
    ];
    for (text, expected) in cases {
        let config = TestHome::with_file(text).config();
        assert_eq!(config.default_profile(), expected, "{text}");
    }
}

/// A01
#[test]
fn the_switch_is_also_a_variable_and_wins_over_the_file() {
    let cases = [
        ("", "1", "claude_code_bridge"),
        ("", "true", "claude_code_bridge"),
        ("", "0", "default"),
        ("", "", "default"),
        ("claude_code_bridge: {enabled: true}", "0", "default"),
        ("claude_code_bridge: {enabled: false}", "1", "claude_code_bridge"),
    ];
    for (text, switch, expected) in cases {
        let place = TestHome::with_file(text).var("HERMES_CLAUDE_CODE_BRIDGE", switch);
        assert_eq!(place.config().default_profile(), expected, "{text} {switch}");
    }
}

/// A02
#[test]
fn it_is_one_profile_beside_the_others() {
    let text = "\
claude_code_bridge: {enabled: true, model: opus}
profiles: {default: {executor: parrot}}
";
    let place = TestHome::with_file(text);
    let config = place.config();
    place.with_context(|call| {
        let bridge = &config.resolve(None, call).unwrap()[0];
        assert_eq!((&*bridge.executor, &*bridge.profile), ("claude", "claude_code_bridge"));
        let other = &config.resolve(Some("default"), call).unwrap()[0];
        assert_eq!((&*other.executor, other.model.as_deref()), ("parrot", None));
    });
}

/// A08, A09, A10, A16, A17, A18
#[test]
fn the_blocks_keys_reach_the_specification() {
    let place = TestHome::new();
    std::fs::write(place.path("prompt.md"), "Be brief.").unwrap();
    place.write(
        "\
claude_code_bridge:
  model: opus
  cwd: ~/
  system_prompt_path: ~/prompt.md
  resume_claude_sessions: true
  allowed_tools: [Read, 'Bash(git *)']
  disallowed_tools: [WebFetch]
  tools: [Read, Bash]
  exclude_dynamic_system_prompt_sections: false
  permissions: edit
",
    );
    let spec = place.with_context(|call| {
        let config = place.config();
        config.resolve(Some("claude_code_bridge"), call).unwrap().remove(0)
    });
    assert_eq!(spec.model.as_deref(), Some("opus"));
    assert_eq!(spec.cwd, place.folder.path().canonicalize().unwrap());
    assert_eq!(spec.system, SystemPrompt::Append("Be brief.".into()));
    assert_eq!(spec.permissions.allowed.len(), 2);
    assert_eq!(spec.permissions.disallowed[0].to_string(), "WebFetch");
    assert_eq!(spec.tools, ToolSet::List(vec!["Read".into(), "Bash".into()]));
    assert!(spec.resume && !spec.stable_prompt);
}

/// A09, A10, A16, A17
#[test]
fn the_variables_reach_the_specification() {
    let place = TestHome::new();
    let prompt = place.path("prompt.md");
    std::fs::write(&prompt, "Be kind.").unwrap();
    let cwd = place.folder.path().to_str().unwrap().to_owned();
    let place = place
        .var("HERMES_CLAUDE_CODE_BRIDGE", "1")
        .var("HERMES_CLAUDE_CODE_CWD", &cwd)
        .var("HERMES_CLAUDE_CODE_SYSTEM_PROMPT", prompt.to_str().unwrap())
        .var("HERMES_CLAUDE_CODE_MODEL", "haiku")
        .var("HERMES_CLAUDE_CODE_TOOLS", "Read, Grep")
        .var("HERMES_CLAUDE_CODE_ALLOWED_TOOLS", "Bash(echo a,b), Read")
        .var("HERMES_CLAUDE_CODE_RESUME_CLAUDE_SESSIONS", "1");
    let config = place.config();
    let spec = place.with_context(|call| config.resolve(None, call).unwrap().remove(0));
    assert_eq!(spec.model.as_deref(), Some("haiku"));
    assert_eq!(spec.system, SystemPrompt::Append("Be kind.".into()));
    assert_eq!(spec.tools, ToolSet::List(vec!["Read".into(), "Grep".into()]));
    let allowed: Vec<_> = spec.permissions.allowed.iter().map(ToString::to_string).collect();
    assert_eq!(allowed, ["Bash(echo a,b)", "Read"]);
    assert!(spec.resume);
}

/// A16
#[test]
fn sessions_are_not_resumed_unless_asked() {
    let place = TestHome::with_file("claude_code_bridge: {enabled: true}");
    let config = place.config();
    place.with_context(|call| {
        assert!(!config.resolve(None, call).unwrap()[0].resume);
        assert!(config.resolve(Some("default"), call).unwrap()[0].resume);
    });
}

#[test]
fn without_block_and_switch_the_variables_mean_nothing() {
    let place = TestHome::new().var("HERMES_CLAUDE_CODE_TIMEOUT", "not even a number");
    let config = place.config();
    assert_eq!(config.profile_names().collect::<Vec<_>>(), ["default"]);
}

#[test]
fn a_stranger_among_the_variables_is_mentioned() {
    let text = "claude_code_bridge:\n  enabled: true\n  timeout: 600\n";
    let place = TestHome::with_file(text)
        .var("HERMES_CLAUDE_CODE_BUDGET_SECONDS", "480")
        .var("HERMES_CLAUDE_CODE_ELSEWHERE", "secret");
    insta::assert_snapshot!(place.config().check(), @"
    the configuration is valid; profiles: claude_code_bridge, default (`claude_code_bridge` where none is named)
    warning: env HERMES_CLAUDE_CODE_ELSEWHERE is not one of the bridge's variables; ignored
    ");
}

#[test]
fn the_blocks_mistakes_are_found_too() {
    let text = "\
claude_code_bridge:
  enabld: true
  timeout: soon
  executor: nativ
  permision: ask
profiles:
  claude_code_bridge: {}
";
    let place = TestHome::with_file(text).var("HERMES_CLAUDE_CODE_BUDGET_TOOL_COUNT", "many");
    insta::assert_snapshot!(place.load_error(), @"
    the configuration is not valid:
      config.yaml:2: `claude_code_bridge.enabld` is not a known key; did you mean `enabled`?
      config.yaml:3: `claude_code_bridge.timeout` expects seconds, or a duration such as 90s, 10m, 2h or 7d, not `soon`
      config.yaml:4: `claude_code_bridge.executor` expects auto | claude | codex | acp | native | parrot, not `nativ`
      config.yaml:5: `claude_code_bridge.permision` is not a known key; did you mean `permissions`?
      config.yaml:7: `profiles.claude_code_bridge` is defined a second time, by config.yaml:1; keep one of them
      env HERMES_CLAUDE_CODE_BUDGET_TOOL_COUNT: `claude_code_bridge.budget_tool_count` expects a whole number from 1 to 100000, not `many`
    correct it, then try `angelia config check`
    ");
}
