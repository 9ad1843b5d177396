//! Tests that the right rule decides, with the right actions.

use regex::Regex;

use super::{
    super::{MessageFormat, NamePattern, Roles, Rule, RuleConditions, Rules},
    seen,
};

fn rule(line: u64, matches: RuleConditions) -> Rule {
    Rule {
        line,
        conditions: matches,
        print: true,
        print_format: MessageFormat::default(),
        context: false,
        context_format: MessageFormat::default(),
        command: None,
        profile: None,
    }
}

fn of_type(kind: &str) -> RuleConditions {
    RuleConditions { kind: Some(kind.into()), ..RuleConditions::default() }
}

fn rules(callbacks: Vec<Rule>) -> Rules {
    Rules { callbacks, ..Rules::default() }
}

#[test]
fn the_type_is_compared_exactly_and_the_first_rule_decides() {
    let rules = rules(vec![
        rule(1, of_type("Deploy")),
        rule(2, of_type("deploy")),
        rule(3, of_type("deploy")),
    ]);
    let line = |body| rules.decide(&seen(body)).line;
    assert_eq!(line(r#"{"type":"deploy"}"#), Some(2));
    assert_eq!(line(r#"{"type":"Deploy"}"#), Some(1));
    assert_eq!(line(r#"{"type":"deploy "}"#), None);
    assert_eq!(line(r#"{"text":"deploy"}"#), None);
}

#[test]
fn what_no_rule_knows_is_shown() {
    let decision = Rules::default().decide(&seen("{}"));
    assert_eq!(decision.print, Some(MessageFormat::default()));
    assert!(decision.context.is_none() && decision.command.is_none());
}

#[test]
fn context_takes_the_place_of_print_and_a_command_runs_beside_either() {
    let mut both = rule(1, of_type("t"));
    both.context = true;
    both.profile = Some("helper".into());
    both.command = Some("true".into());
    let decision = rules(vec![both]).decide(&seen(r#"{"type":"t"}"#));
    assert!(decision.print.is_none());
    assert_eq!(decision.context.unwrap().profile.as_deref(), Some("helper"));
    assert_eq!(decision.command.as_deref(), Some("true"));

    let mut silent = rule(1, of_type("t"));
    silent.print = false;
    let decision = rules(vec![silent]).decide(&seen(r#"{"type":"t"}"#));
    assert!(decision.print.is_none() && decision.line == Some(1));
}

#[test]
fn senders_channels_texts_and_proof_can_be_asked_for() {
    let names = |names: &[&str]| names.iter().map(|name| NamePattern::new(*name)).collect();
    let table = [
        (RuleConditions { from: names(&["bob", "ali*"]), ..RuleConditions::default() }, true),
        (RuleConditions { from: names(&["ali"]), ..RuleConditions::default() }, false),
        (RuleConditions { channel: names(&["telegram:*"]), ..RuleConditions::default() }, true),
        (RuleConditions { channel: names(&["telegram"]), ..RuleConditions::default() }, false),
        (
            RuleConditions { text: Regex::new("^build \\d+").ok(), ..RuleConditions::default() },
            true,
        ),
        (RuleConditions { text: Regex::new("^failed").ok(), ..RuleConditions::default() }, false),
        (RuleConditions { verified: Some(true), ..RuleConditions::default() }, true),
        (RuleConditions { verified: Some(false), ..RuleConditions::default() }, false),
        (
            RuleConditions {
                kind: Some("ci".into()),
                verified: Some(false),
                ..RuleConditions::default()
            },
            false,
        ),
        (RuleConditions::default(), false),
    ];
    let message = seen(r#"{"type":"ci","text":"build 7 failed","channel":"telegram:1"}"#);
    for (wanted, expected) in table {
        assert_eq!(wanted.matches(&message), expected, "{wanted:?}");
    }
    let nowhere = seen(r#"{"type":"ci"}"#);
    let anywhere = RuleConditions { channel: names(&["*"]), ..RuleConditions::default() };
    assert!(!anywhere.matches(&nowhere));
}

#[test]
fn roles_map_keys_and_leave_names() {
    let roles: Roles = [("be".into(), "Backend".into())].into_iter().collect();
    assert_eq!(roles.name("be"), "Backend");
    assert_eq!(roles.name("Backend"), "Backend");
    assert_eq!(roles.name("else"), "else");
}

#[test]
fn a_path_is_a_program_and_never_what_is_said() {
    let script = MessageFormat::parse("~/bin/format.sh");
    assert_eq!(script.script.as_deref(), Some("~/bin/format.sh"));
    assert_eq!(script.without_script(), super::super::Template::message_text());
    let words = MessageFormat::parse("/me {text}");
    assert_eq!(words.without_script(), words.template);
    assert_eq!(MessageFormat::parse("{text}").script, None);
}
