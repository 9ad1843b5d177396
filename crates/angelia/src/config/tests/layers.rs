//! Tests of which layer wins, and of the origin of every value.

use super::{Config, TestHome};

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let text = "listen: 127.0.0.1:1\nclaude_code_bridge:\n  model: file\n  cwd: /file\n";
    let place = TestHome::with_file(text)
        .var("HERMES_CLAUDE_CODE_MODEL", "variable")
        .var("HERMES_CLAUDE_CODE_CWD", "/variable");
    let flags = [("listen", "127.0.0.1:0"), ("claude_code_bridge.model", "flag")];
    let config = Config::load(&place.environment(), &place.home(), None, &flags).unwrap();
    let said = config.show_origin();
    for line in [
        "listen: 127.0.0.1:0  # flag --listen",
        "claude_code_bridge.model: flag  # flag --model",
        "claude_code_bridge.cwd: /variable  # env HERMES_CLAUDE_CODE_CWD",
        "claude_code_bridge.warm: 1  # default",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\nnot in\n{said}");
    }
    assert_eq!(config.listen().port(), 0);
}

#[test]
fn origins_name_lines() {
    let text = "\
# a comment
profiles:
  default:
    model: sonnet

    tools: [Read,
      Grep]
  other: {warm: 3}
sessions: {keep: 7d}
";
    let said = TestHome::with_file(text).config().show_origin();
    for line in [
        "listen: 127.0.0.1:4376  # default",
        "profiles.default.model: sonnet  # config.yaml:4",
        "profiles.default.tools: [Read, Grep]  # config.yaml:6",
        "profiles.default.warm: 1  # default",
        "profiles.other.warm: 3  # config.yaml:8",
        "sessions.keep: 7d  # config.yaml:9",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\nnot in\n{said}");
    }
}

#[test]
fn a_profile_inherits_from_its_executor_and_wins_over_it() {
    let text = "\
executors:
  claude:
    model: sonnet
    warm: 0
    env: {A: inherited, B: inherited}
    mcp_servers:
      docs: {command: inherited, args: [x]}
profiles:
  own:
    executor: claude
    warm: 2
    env: {B: own}
    mcp_servers:
      docs: {url: 'http://own'}
  demo:
    executor: parrot
";
    let place = TestHome::with_file(text);
    let config = place.config();
    let said = config.show_origin();
    for line in [
        "profiles.own.model: sonnet  # config.yaml:3",
        "profiles.own.warm: 2  # config.yaml:11",
        "profiles.own.mcp_servers.docs.url: http://own  # config.yaml:14",
        "profiles.demo.model: null  # default",
        "profiles.default.model: null  # default",
        "executors.claude.warm: 0  # config.yaml:4",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\nnot in\n{said}");
    }
    assert!(!said.contains("profiles.own.mcp_servers.docs.command"));
    place.with_context(|call| {
        let specs = config.resolve(Some("own"), call).unwrap();
        assert_eq!(specs[0].env["A"].as_ref(), "inherited");
        assert_eq!(specs[0].env["B"].as_ref(), "own");
        // The default profile is `auto`: which defaults it inherits depends on the executor it
        // gets.
        let specs = config.resolve(None, call).unwrap();
        assert_eq!(specs[0].model.as_deref(), Some("sonnet"));
        assert_eq!(specs[1].model, None);
    });
}

#[test]
fn a_named_file_replaces_the_homes() {
    let place = TestHome::with_file("listen: 127.0.0.1:1\n");
    let other = place.path("other.yaml");
    std::fs::write(&other, "listen: 127.0.0.1:2\n").unwrap();
    let (environment, home) = (place.environment(), place.home());
    let config = Config::load(&environment, &home, Some(&other), &[]).unwrap();
    assert_eq!(config.listen().port(), 2);
    let origin = format!("# {}:1", other.display());
    assert!(config.show_origin().contains(&origin));
}

#[test]
fn a_value_is_taken_as_it_was_written() {
    let text = "profiles: {default: {model: 1.10, env: {A: 007, B: true, C: '', D: 0x1F}}}\n";
    let place = TestHome::with_file(text);
    place.with_context(|call| {
        let specs = place.config().resolve(None, call).unwrap();
        assert_eq!(specs[0].model.as_deref(), Some("1.10"));
        let env: Vec<&str> = specs[0].env.values().map(|value| &**value).collect();
        assert_eq!(env, ["007", "true", "", "0x1F"]);
    });
}

#[test]
fn anchors_and_merge_keys_work() {
    let text = "\
profiles:
  a: &base {executor: claude, warm: 3}
  b:
    <<: *base
    model: opus
";
    let said = TestHome::with_file(text).config().show_origin();
    assert!(said.contains("profiles.b.warm: 3  # config.yaml:4"), "{said}");
    assert!(said.contains("profiles.b.model: opus  # config.yaml:5"));
}

#[test]
fn the_source_is_the_path_and_the_variables_and_not_the_content() {
    let one = std::path::Path::new("/one.yaml");
    let hash = |home: &TestHome| home.config().source_sha256(one);
    let plain = TestHome::with_file("");
    assert!(!plain.config().has_variables());
    assert_eq!(hash(&plain), hash(&TestHome::with_file("profiles: {p: {model: opus}}\n")));
    assert_ne!(hash(&plain), plain.config().source_sha256("/other.yaml".as_ref()));
    let block = "claude_code_bridge: {}\n";
    let set = |value| TestHome::with_file(block).var("HERMES_CLAUDE_CODE_MODEL", value);
    assert!(set("opus").config().has_variables());
    assert_eq!(hash(&set("opus")), hash(&set("opus")));
    assert_ne!(hash(&set("opus")), hash(&set("sonnet")));
    assert_ne!(hash(&set("opus")), hash(&plain));
    let address = TestHome::new().var("CLAUDE_CLI_LISTEN_ADDR", "127.0.0.1:1");
    assert_eq!(hash(&address), hash(&plain), "only the daemon listens");
}

#[test]
fn every_profile_is_listed() {
    let text = "\
claude_code_bridge: {model: opus}
executors: {claude: {model: sonnet}}
profiles: {review: {executor: claude, mode: model}}
";
    let listed = TestHome::with_file(text).config().summaries();
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (&*one.name, &*one.executor, one.mode.as_str(), one.model.as_deref()))
        .collect();
    let expected = [
        ("default", "auto", "agent", None),
        ("review", "claude", "model", Some("sonnet")),
        ("claude_code_bridge", "claude", "agent", Some("opus")),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn files_from_other_editors_are_read() {
    let text = "\u{feff}sessions:\r\n  keep: 7d\r\nprofiles:\r\n  p: {model: opus}\r\n";
    let said = TestHome::with_file(text).config().show_origin();
    assert!(said.contains("sessions.keep: 7d  # config.yaml:2"), "{said}");
    assert!(said.contains("profiles.p.model: opus  # config.yaml:4"), "{said}");
}
