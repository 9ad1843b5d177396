//! Tests of the messages about an invalid configuration: the place, the problem, and the fix.

use super::{Config, TestHome, load_error};

#[test]
fn unknown_keys_name_the_line_and_the_nearest_key_all_at_once() {
    let text = "\
lisen: 127.0.0.1:1
profiles:
  default:
    permisions: ask
    zzz: 1
sessions:
  idle_tll: 5m
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:1: `lisen` is not a known key; did you mean `listen`?
      config.yaml:4: `profiles.default.permisions` is not a known key; did you mean `permissions`?
      config.yaml:5: `profiles.default.zzz` is not a known key; known here: executor, model, mode, binary, command, cwd, trust, system_prompt_path, permissions, allowed_tools, disallowed_tools, tools, mcp_servers, env, env_pass, billing, timeout, first_event_timeout, inter_event_silence_timeout, post_tool_quiet_timeout, tool_timeout, retry_timeout, compaction_timeout, background_grace, approval_timeout, caller_tool_timeout, budget_seconds, budget_tool_count, max_cost_usd, auto_resume_budget_guard, auto_resume_max_resumes, fallback_profile, delegate_to, review, exclude_dynamic_system_prompt_sections, warm, fallback, max_iterations, max_output_tokens, reasoning, sandbox, sandbox_read, sandbox_write, network, memory, compaction
      config.yaml:7: `sessions.idle_tll` is not a known key; did you mean `idle_ttl`?
    correct it, then try `angelia config check`
    ");
}

#[test]
fn values_of_the_wrong_kind_say_what_was_expected() {
    let text = "\
listen: here
profiles:
  default:
    executor: gpt
    mode: [agent]
    model: {a: b}
    binary: bin/claude
    cwd: project
    trust: maybe
    permissions: null
    allowed_tools: Read
    disallowed_tools: [Read, 'Bash(']
    tools: some
    mcp_servers: {docs: {}, 'a b': {command: x}}
    env: {'A=B': c, D: [e]}
    env_pass: ['*']
    background_grace: 5 minutes
    exclude_dynamic_system_prompt_sections: 1
    warm: 65
  ../etc: {}
executors:
  claude: {executor: claude, warm: -1}
sessions:
  max_live: 0
  keep: 999999d
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:1: `listen` expects an address with a port, such as 127.0.0.1:4376, not `here`
      config.yaml:4: `profiles.default.executor` expects auto | claude | codex | acp | native | parrot, not `gpt`
      config.yaml:5: `profiles.default.mode` expects agent | model, not a list
      config.yaml:6: `profiles.default.model` expects text, not a mapping
      config.yaml:7: `profiles.default.binary` expects a program's name, or its path (absolute, or starting with ~/), not `bin/claude`
      config.yaml:8: `profiles.default.cwd` expects an absolute path, or one that starts with ~/, not `project`
      config.yaml:9: `profiles.default.trust` expects auto | on | off, not `maybe`
      config.yaml:10: `profiles.default.permissions` expects ask | edit | unattended, not null
      config.yaml:11: `profiles.default.allowed_tools` expects a list, each item a tool's name or a pattern such as `Bash(git *)`, not `Read`
      config.yaml:12: `profiles.default.disallowed_tools[1]` expects a tool's name or a pattern such as `Bash(git *)`, not `Bash(`
      config.yaml:13: `profiles.default.tools` expects default | all | none | a list of tools' names, not `some`
      config.yaml:14: `profiles.default.mcp_servers.docs` has neither a `command` nor a `url`; name one of them
      config.yaml:14: `profiles.default.mcp_servers.a b` is not a name that can be used here; use a name of letters, digits, `_` and `-`
      config.yaml:15: `profiles.default.env.A=B` is not a name that can be used here; use a variable's name
      config.yaml:15: `profiles.default.env.D` expects text, not a list
      config.yaml:16: `profiles.default.env_pass[0]` expects a variable's name, with `*` at its end for a family, not `*`
      config.yaml:17: `profiles.default.background_grace` expects seconds, or a duration such as 90s, 10m, 2h or 7d, not `5 minutes`
      config.yaml:18: `profiles.default.exclude_dynamic_system_prompt_sections` expects true or false, not `1`
      config.yaml:19: `profiles.default.warm` expects a whole number from 0 to 64, not `65`
      config.yaml:20: `profiles.../etc` is not a name that can be used here; use a name of letters, digits, `_`, `-` and `.`
      config.yaml:22: `executors.claude.executor` is not a known key; known here: model, mode, binary, command, cwd, trust, system_prompt_path, permissions, allowed_tools, disallowed_tools, tools, mcp_servers, env, env_pass, billing, timeout, first_event_timeout, inter_event_silence_timeout, post_tool_quiet_timeout, tool_timeout, retry_timeout, compaction_timeout, background_grace, approval_timeout, caller_tool_timeout, budget_seconds, budget_tool_count, max_cost_usd, auto_resume_budget_guard, auto_resume_max_resumes, fallback_profile, delegate_to, review, exclude_dynamic_system_prompt_sections, warm, fallback, max_iterations, max_output_tokens, reasoning, sandbox, sandbox_read, sandbox_write, network, memory, compaction
      config.yaml:22: `executors.claude.warm` expects a whole number from 0 to 64, not `-1`
      config.yaml:24: `sessions.max_live` expects auto, or a whole number from 1 to 4096, not `0`
      config.yaml:25: `sessions.keep` expects a duration of at most a hundred years, not `999999d`
    correct it, then try `angelia config check`
    ");
}

#[test]
fn keys_of_later_versions_are_refused_by_name() {
    let text = "\
profiles:
  default:
    machine: desk
    labels: [gpu]
fleet: {store: \"postgres://angelia@localhost/angelia\", address: \"10.0.0.7:4377\", bus: store, lease: 30s}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:3: `profiles.default.machine` is not available in this version yet (several machines); remove it
      config.yaml:4: `profiles.default.labels` is not available in this version yet (several machines); remove it
      config.yaml:5: `fleet.address` is not available in this version yet (several machines); remove it
      config.yaml:5: `fleet.bus` is not available in this version yet (several machines); remove it
      config.yaml:5: `fleet.lease` is not available in this version yet (several machines); remove it
    correct it, then try `angelia config check`
    ");
}

#[test]
fn a_fleet_needs_an_address_without_a_password() {
    let cases = [
        "fleet: {}",
        "fleet: {machine: desk}",
        "fleet: {store: 'mysql://angelia@localhost/angelia'}",
        "fleet: {store: 'postgres://angelia:hunter2@localhost/angelia'}",
        "fleet: {store: 'postgres://angelia@db.example/angelia?sslmode=require'}",
        "fleet: {store: 'postgres://angelia@localhost/angelia', machine: a desk}",
    ];
    let said: Vec<String> =
        cases.iter().map(|text| first_problem(&load_error(text)).to_owned()).collect();
    let said = said.join("\n");
    assert!(!said.contains("hunter2"), "{said}");
    insta::assert_snapshot!(said, @"
    config.yaml:1: `fleet` names no database; set `store`
    config.yaml:1: `fleet` names no database; set `store`
    config.yaml:1: `fleet.store` must begin with postgres://
    config.yaml:1: `fleet.store` has a password in it; take it out, and set ANGELIA_STORE_PASSWORD or PGPASSFILE
    config.yaml:1: `fleet.store` has sslmode=require, which anybody in between can read or change; use verify-full, or disable on a network that you trust
    config.yaml:1: `fleet.machine` expects a name of letters, digits, `_`, `-` and `.`, not `a desk`
    ");
}

#[test]
fn what_is_not_yaml_is_named_by_line() {
    let cases = [
        ("a tab", "profiles:\n\tdefault: {}\n"),
        ("twice", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n"),
        ("open", "profiles: {default: {model: x}\n"),
        ("colon", "profiles: default: x\n"),
        ("documents", "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n"),
        ("a list", "- listen\n"),
        ("text", "hello\n"),
        ("alias", "profiles: *nothing\n"),
        ("key", "[1, 2]: x\n"),
        ("null key", "null: x\n"),
        ("nan", "sessions: {max_live: .nan}\n"),
    ];
    let said: Vec<String> = cases
        .iter()
        .map(|(name, text)| format!("{name}: {}", first_problem(&load_error(text))))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @"
    a tab: config.yaml:2 is indented with a tab; YAML requires spaces
    twice: config.yaml:2 says `listen` a second time; keep one of them
    open: config.yaml:1 is not valid YAML: unclosed bracket '{'
    colon: config.yaml:1 is not valid YAML: mapping values are not allowed in this context
    documents: config.yaml:3 begins a second document (`---`); keep everything in one
    a list: config.yaml:1 is not a configuration: expected `key: value` lines
    text: config.yaml:1 is not a configuration: expected `key: value` lines
    alias: config.yaml:1 is not valid YAML: reference to unknown value
    key: config.yaml:1 is not valid YAML: expected string scalar
    null key: config.yaml:1 is not valid YAML: null is not allowed here
    nan: config.yaml:1 is not valid YAML: value `.nan` is not a finite number
    ");
}

fn first_problem(complaint: &str) -> &str {
    complaint.lines().nth(1).unwrap().trim()
}

#[test]
fn bombs_are_refused_quickly() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (below, name) in ('a'..'k').zip('b'..) {
        let nine = vec![format!("*{below}"); 9].join(", ");
        let line = format!("{name}: &{name} [{nine}]\n");
        bomb.push_str(&line);
    }
    let deep = format!("profiles: {}", "[".repeat(100_000));
    let nested = (0..1_000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
    for text in [bomb, deep, nested] {
        let said = load_error(&text);
        assert!(first_problem(&said).starts_with("config.yaml:"), "{said}");
    }
}

#[test]
fn what_is_not_text_is_refused() {
    let cases: [(&[u8], &str); 4] = [
        (
            b"listen: 127.0.0.1:1\n# \xff\n",
            "config.yaml:2 is not UTF-8 text; save the file as UTF-8",
        ),
        (b"\x7fELF\x02\x01\x00\x00", "config.yaml:1 has a NUL byte: this is not a text file"),
        (&vec![b'#'; 2 * 1024 * 1024], "`config.yaml` is larger than 1 MiB; is it the right file?"),
        (&[0xfe, 0xff, 0xd8], "config.yaml:1 is not UTF-8 text; save the file as UTF-8"),
    ];
    for (bytes, expected) in cases {
        let place = TestHome::new();
        place.write(bytes);
        assert_eq!(first_problem(&place.load_error()), expected);
    }
}

#[test]
fn any_bytes_give_an_answer() {
    use proptest::prelude::*;
    let yaml = "[-a-z0-9:{}\\[\\]&*!|>'\"#%@,?~\\t\\n ]{0,80}";
    let place = TestHome::new();
    proptest!(|(text in yaml)| {
        place.write(&text);
        let _either = place.load();
    });
    proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..64))| {
        place.write(&bytes);
        let _either = place.load();
    });
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let place = TestHome::new();
    std::fs::create_dir(place.home().config_file()).unwrap();
    assert!(place.load_error().contains("config.yaml` cannot be read: "));
    let missing = place.path("missing.yaml");
    let (environment, home) = (place.environment(), place.home());
    let said = Config::load(&environment, &home, Some(&missing), &[]).unwrap_err();
    assert!(said.to_string().contains("missing.yaml` cannot be read: No such file"), "{said}");
}

#[test]
fn a_bad_flag_is_named() {
    let place = TestHome::new();
    let flags = [("listen", "nowhere")];
    let said = Config::load(&place.environment(), &place.home(), None, &flags).unwrap_err();
    insta::assert_snapshot!(said, @"
    the configuration is not valid:
      flag --listen: `listen` expects an address with a port, such as 127.0.0.1:4376, not `nowhere`
    correct it, then try `angelia config check`
    ");
}
