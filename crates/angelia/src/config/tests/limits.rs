//! Tests of clocks and budgets, from the file and the variables to the specification. Checklist
//! A11–A15 as far as the configuration goes.

use std::time::Duration;

use angelia_core::model::{Budgets, SessionSpec, TurnTimeouts};

use super::{Config, TestHome, load_error};
use crate::config::types::{BridgeProfile, Limit, Period, Profile};

fn spec(place: &TestHome, profile: &str) -> SessionSpec {
    let specs = place.with_context(|call| place.config().resolve(Some(profile), call));
    specs.unwrap().remove(0)
}

fn bridge(place: &TestHome) -> SessionSpec {
    spec(place, "claude_code_bridge")
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Every key with a value that no other has.
const ALL: &str = "    timeout: 101
    first_event_timeout: 102
    inter_event_silence_timeout: 103
    post_tool_quiet_timeout: 104
    tool_timeout: 105
    retry_timeout: 106
    compaction_timeout: 107
    background_grace: 108
    approval_timeout: 109
    caller_tool_timeout: 114
    budget_seconds: 110
    budget_tool_count: 111
    max_cost_usd: 1.12
    auto_resume_max_resumes: 113
";

#[test]
fn every_key_arrives_at_its_place() {
    let own = format!("profiles:\n  p:\n{ALL}");
    let inherited = format!("profiles: {{p: {{executor: claude}}}}\nexecutors:\n  claude:\n{ALL}");
    for text in [own, inherited] {
        let spec = spec(&TestHome::with_file(&text), "p");
        let clocks = TurnTimeouts {
            timeout: seconds(101),
            first_event: seconds(102),
            silence: seconds(103),
            post_tool_quiet: seconds(104),
            tool: seconds(105),
            retry: seconds(106),
            compaction: seconds(107),
            background: seconds(108),
            approval: seconds(109),
            caller_tool: seconds(114),
        };
        let budgets = Budgets {
            time: Some(seconds(110)),
            tools: Some(111),
            cost_usd: Some(1.12),
            resumes: 113,
        };
        assert_eq!((spec.timeouts, spec.budgets), (clocks, budgets), "{text}");
    }
}

#[test]
fn without_the_guard_nothing_goes_on_by_itself() {
    let text = "profiles: {p: {auto_resume_budget_guard: off, auto_resume_max_resumes: 7}}\n";
    assert_eq!(spec(&TestHome::with_file(text), "p").budgets.resumes, 0);
}

#[test]
fn a_budget_of_null_is_none() {
    let text = "\
executors: {claude: {budget_seconds: 60, budget_tool_count: 6, max_cost_usd: 6}}
profiles:
  p: {executor: claude, budget_seconds: null, budget_tool_count: ~, max_cost_usd: null}
claude_code_bridge: {budget_seconds: null, budget_tool_count: null}
";
    let place = TestHome::with_file(text);
    assert_eq!(spec(&place, "p").budgets, Budgets::default());
    let budgets = bridge(&place).budgets;
    assert_eq!((budgets.time, budgets.tools), (None, None));
    assert_eq!(budgets.cost_usd, Some(6.0));
}

#[test]
fn what_can_be_no_limit_is_refused() {
    let text = "\
profiles:
  p:
    timeout: 0
    first_event_timeout: 0s
    inter_event_silence_timeout: null
    post_tool_quiet_timeout: -1
    tool_timeout: soon
    retry_timeout: 99999999d
    compaction_timeout: [1m]
    background_grace: 0d
    approval_timeout: 1.5h
    budget_seconds: 0
    budget_tool_count: 0
    max_cost_usd: 0
    auto_resume_budget_guard: maybe
    auto_resume_max_resumes: -1
  q: {budget_tool_count: 2.5, max_cost_usd: -1, auto_resume_max_resumes: 1001}
  r: {max_cost_usd: cheap}
  s: {max_cost_usd: 'inf'}
";
    insta::assert_snapshot!(load_error(text), @"
    the configuration is not valid:
      config.yaml:3: `profiles.p.timeout` expects at least one second, not `0`
      config.yaml:4: `profiles.p.first_event_timeout` expects at least one second, not `0s`
      config.yaml:5: `profiles.p.inter_event_silence_timeout` expects seconds, or a duration such as 90s, 10m, 2h or 7d, not null
      config.yaml:6: `profiles.p.post_tool_quiet_timeout` expects seconds, or a duration such as 90s, 10m, 2h or 7d, not `-1`
      config.yaml:7: `profiles.p.tool_timeout` expects seconds, or a duration such as 90s, 10m, 2h or 7d, not `soon`
      config.yaml:8: `profiles.p.retry_timeout` expects a duration of at most a hundred years, not `99999999d`
      config.yaml:9: `profiles.p.compaction_timeout` expects seconds, or a duration such as 90s, 10m, 2h or 7d, not a list
      config.yaml:10: `profiles.p.background_grace` expects at least one second, not `0d`
      config.yaml:11: `profiles.p.approval_timeout` expects seconds, or a duration such as 90s, 10m, 2h or 7d, not `1.5h`
      config.yaml:12: `profiles.p.budget_seconds` expects at least one second, not `0`
      config.yaml:13: `profiles.p.budget_tool_count` expects a whole number from 1 to 100000, not `0`
      config.yaml:14: `profiles.p.max_cost_usd` expects US dollars, more than 0, such as 2.50, not `0`
      config.yaml:15: `profiles.p.auto_resume_budget_guard` expects true or false, not `maybe`
      config.yaml:16: `profiles.p.auto_resume_max_resumes` expects a whole number from 0 to 1000, not `-1`
      config.yaml:17: `profiles.q.budget_tool_count` expects a whole number from 1 to 100000, not `2.5`
      config.yaml:17: `profiles.q.max_cost_usd` expects US dollars, more than 0, such as 2.50, not `-1`
      config.yaml:17: `profiles.q.auto_resume_max_resumes` expects a whole number from 0 to 1000, not `1001`
      config.yaml:18: `profiles.r.max_cost_usd` expects US dollars, more than 0, such as 2.50, not `cheap`
      config.yaml:19: `profiles.s.max_cost_usd` expects US dollars, more than 0, such as 2.50, not `inf`
    correct it, then try `angelia config check`
    ");
}

/// A11, A12, A13, A14, A15
#[test]
fn hermess_block_has_hermess_limits() {
    let ours = TurnTimeouts::default();
    let spec = bridge(&TestHome::with_file("claude_code_bridge: {}\n"));
    let clocks = TurnTimeouts { timeout: seconds(600), ..TurnTimeouts::default() };
    assert_eq!(spec.timeouts, clocks);
    assert_eq!((ours.first_event, ours.silence), (seconds(60), seconds(120)));
    let budgets = Budgets { time: Some(seconds(480)), tools: Some(20), cost_usd: None, resumes: 5 };
    assert_eq!(spec.budgets, budgets);
}

/// A11, A12, A13, A14, A15
#[test]
fn the_blocks_limits_reach_the_specification() {
    let text = format!("claude_code_bridge:\n{ALL}");
    let place = TestHome::with_file(&text);
    let theirs = bridge(&place);
    let ours = spec(&TestHome::with_file(&format!("profiles:\n  p:\n{ALL}")), "p");
    assert_eq!(theirs.timeouts, ours.timeouts);
    assert_eq!(theirs.budgets, ours.budgets);
    assert!(place.config().warnings().is_empty());
}

fn home_with_variables() -> TestHome {
    [
        ("BRIDGE", "1"),
        ("TIMEOUT", "201"),
        ("FIRST_EVENT_TIMEOUT", "202"),
        ("INTER_EVENT_SILENCE_TIMEOUT", "203"),
        ("BUDGET_SECONDS", "204"),
        ("BUDGET_TOOL_COUNT", "205"),
        ("AUTO_RESUME_BUDGET_GUARD", "1"),
        ("AUTO_RESUME_MAX_RESUMES", "206"),
    ]
    .iter()
    .fold(TestHome::new(), |place, (suffix, value)| {
        place.var(&format!("HERMES_CLAUDE_CODE_{suffix}"), value)
    })
}

/// A11, A12, A13, A14, A15
#[test]
fn the_variables_limits_reach_the_specification() {
    let place = home_with_variables();
    let spec = bridge(&place);
    let clocks = TurnTimeouts {
        timeout: seconds(201),
        first_event: seconds(202),
        silence: seconds(203),
        ..TurnTimeouts::default()
    };
    let budgets =
        Budgets { time: Some(seconds(204)), tools: Some(205), cost_usd: None, resumes: 206 };
    assert_eq!((spec.timeouts, spec.budgets), (clocks, budgets));
    assert!(place.config().warnings().is_empty());
    let off = home_with_variables().var("HERMES_CLAUDE_CODE_AUTO_RESUME_BUDGET_GUARD", "0");
    assert_eq!(bridge(&off).budgets.resumes, 0);
}

#[test]
fn a_flag_a_variable_the_block_the_executor_hermes() {
    let place = home_with_variables();
    place.write(
        "\
executors:
  claude: {timeout: 301, tool_timeout: 302, budget_tool_count: 303, retry_timeout: 304}
claude_code_bridge:
  timeout: 401
  tool_timeout: 402
",
    );
    let flags = [("claude_code_bridge.timeout", "501")];
    let config = Config::load(&place.environment(), &place.home(), None, &flags).unwrap();
    let said = config.show_origin();
    for line in [
        "timeout: 501s  # flag --timeout",
        "first_event_timeout: 202s  # env HERMES_CLAUDE_CODE_FIRST_EVENT_TIMEOUT",
        "tool_timeout: 402s  # config.yaml:5",
        "retry_timeout: 304s  # config.yaml:2",
        "budget_tool_count: 205  # env HERMES_CLAUDE_CODE_BUDGET_TOOL_COUNT",
        "compaction_timeout: 10m  # default",
    ] {
        let line = format!("claude_code_bridge.{line}");
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }
    let spec = spec_of(&config, &place);
    assert_eq!(spec.timeouts.timeout, seconds(501));
    assert_eq!(spec.timeouts.retry, seconds(304));
}

fn spec_of(config: &Config, place: &TestHome) -> SessionSpec {
    let specs = place.with_context(|call| config.resolve(Some("claude_code_bridge"), call));
    specs.unwrap().remove(0)
}

/// Inherited defaults were set by the owner; Hermes's defaults were not.
#[test]
fn what_is_said_for_the_executor_wins_over_hermess_defaults() {
    let text = "\
executors: {claude: {timeout: 3h, budget_seconds: null}}
claude_code_bridge: {enabled: true}
";
    let spec = bridge(&TestHome::with_file(text));
    assert_eq!(spec.timeouts.timeout, Duration::from_hours(3));
    assert_eq!((spec.budgets.time, spec.budgets.tools), (None, Some(20)));
}

#[test]
fn hermess_limits_are_shown_with_their_origin() {
    let text = "claude_code_bridge:\n  timeout: 5m\n";
    let said = TestHome::with_file(text).config().show_origin();
    for line in [
        "claude_code_bridge.timeout: 5m  # config.yaml:2",
        "claude_code_bridge.budget_seconds: 8m  # default",
        "claude_code_bridge.budget_tool_count: 20  # default",
        "claude_code_bridge.auto_resume_max_resumes: 5  # default",
        "profiles.default.timeout: 2h  # default",
        "profiles.default.budget_seconds: null  # default",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }
}

#[test]
fn hermess_limits_stay_its_own() {
    let (theirs, ours) = (BridgeProfile::default().profile, Profile::default());
    assert_eq!(ours.timeout, Limit(Period::hours(2)));
    assert_eq!(theirs.timeout, Limit(Period::minutes(10)));
    let text = "claude_code_bridge: {enabled: true}\nprofiles: {p: {executor: claude}}\n";
    let place = TestHome::with_file(text);
    assert_eq!(spec(&place, "p").timeouts, TurnTimeouts::default());
    assert_eq!(spec(&place, "p").budgets, Budgets::default());
}
