//! Reading `bus-rules.yaml`: the rules, the warnings, and the line numbers of errors.

use std::fmt::Write as _;

use angelia_core::engine::rules::RuleInput;
use angelia_frontends::bus_rules::file::{ParsedRules, RuleDiagnostic, parse};

use super::fakes::message;

fn read(text: &str) -> ParsedRules {
    parse(text).unwrap()
}

fn wrong(text: &str) -> RuleDiagnostic {
    parse(text).unwrap_err()
}

#[test]
fn a_file_with_everything() {
    let reading = read(
        "bus:\n  endpoint: coder\n\
         callbacks:\n\
         - match_type: deploy\n  print: yes\n  print_format: '{color:green}{text}{reset}'\n\
         - match_type: ask\n  from: [alice, ci-*]\n  channel: telegram:*\n  text: '^(?i)please'\n  \
           verified: true\n  context: true\n  context_format: '{from}: {text}'\n  profile: helper\n  \
           command: 'logger \"$TEXT\"'\n\
         role_map:\n  be: {name: Backend, color: red}\n  odd: 7\n\
         default_sender: x\n",
    );
    assert_eq!(reading.warnings, []);
    let rules = reading.rules;
    assert_eq!(rules.endpoint.as_deref(), Some("coder"));
    assert_eq!((rules.roles.name("be"), rules.roles.name("odd")), ("Backend", "odd"));
    let lines: Vec<u64> = rules.callbacks.iter().map(|rule| rule.line).collect();
    assert_eq!(lines, [4, 7]);
    let ask = &rules.callbacks[1];
    assert!(ask.context && ask.print && ask.command.is_some());
    let body = r#"{"type":"ask","text":"Please look","channel":"telegram:1"}"#;
    let seen = RuleInput::from_message(&message("ci-2", true, body), jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(rules.decide(&seen).line, Some(7));
}

#[test]
fn nothing_is_rules_too() {
    for text in ["", "# only words\n", "callbacks:\n", "callbacks: []\nrole_map:\n", "bus:\n"] {
        assert!(read(text).rules.callbacks.is_empty(), "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_named_by_its_line() {
    let table = [
        ("callbacks:\n- match_type: a\n  print: maybe\n", 3),
        ("callbacks:\n- match_type: a\n- just text\n", 3),
        ("callbacks:\n- match_type: a\n  text: 'ok'\n- match_type: b\n  text: '(open'\n", 5),
        ("- a\n- list\n", 1),
        ("callbacks:\n- {match_type: a\n", 3),
        ("bus: {}\ncallbacks:\n- match_type: a\n  match_type: b\n", 4),
        ("callbacks: {}\n", 1),
        ("callbacks:\n- match_type: a\n  from: {}\n", 3),
    ];
    for (text, line) in table {
        let remark = wrong(text);
        assert!(remark.line.abs_diff(line) <= 1, "{text:?}: {remark}");
        assert!(!remark.what.is_empty());
    }
    let huge = format!("text: '{}'", "(a{900}){900}");
    let remark = wrong(&format!("callbacks:\n- match_type: a\n  {huge}\n"));
    assert_eq!(remark.line, 3, "{remark}");
}

#[test]
fn an_unknown_key_is_an_error() {
    let table = [
        ("callbacks:\n- match_type: a\ncallback:\n- x\n", 3, "`callback`"),
        ("callbacks:\n- match_type: a\n  verifed: true\n  command: x\n", 3, "`verifed`"),
        ("bus:\n  endpoint: a\n  endpiont: b\n", 3, "`endpiont`"),
    ];
    for (text, line, key) in table {
        let remark = wrong(text);
        assert!(remark.line == line && remark.what.contains(key), "{text:?}: {remark}");
    }
}

#[test]
fn a_rule_that_matches_nothing_is_remarked_on() {
    let reading = read("callbacks:\n- print: false\n");
    let lines: Vec<u64> = reading.warnings.iter().map(|remark| remark.line).collect();
    assert_eq!(lines, [2], "{:?}", reading.warnings);
    assert_eq!(reading.rules.callbacks.len(), 1);
}

#[test]
fn bombs_do_not_go_off() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let below = format!("*a{}, ", n - 1).repeat(10);
        writeln!(text, "a{n}: &a{n} [{below}]").unwrap();
    }
    parse(&text).unwrap_err();
    parse(&"[".repeat(10_000)).unwrap_err();
}
