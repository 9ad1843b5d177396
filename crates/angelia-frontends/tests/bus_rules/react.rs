//! The reaction to one message: the lines shown, the commands run, and their environment.

use std::{fs, sync::Arc, time::Duration};

use angelia_core::{ports::CommandStartError, task::TaskGroup};
use angelia_frontends::bus_rules::{
    EndpointHints, HookList, Hooks, Launcher, LauncherLimits, LiveRules, RuleRunner,
};
use bytes::Bytes;
use jiff::tz::TimeZone;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::fakes::{
    CountingClock, RecordingCommands, RecordingScreen, SENT_AT, command_output, message, shell_line,
};

struct RuleHarness {
    rule_runner: RuleRunner,
    lines: Arc<RecordingScreen>,
    commands: Arc<RecordingCommands>,
    started_commands: mpsc::Receiver<angelia_core::ports::CommandSpec>,
    folder: TempDir,
}

fn rule_harness(rules: &str, limits: LauncherLimits) -> RuleHarness {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus-rules.yaml");
    fs::write(&path, rules).unwrap();
    let (commands, asked) = RecordingCommands::new();
    let lines = Arc::<RecordingScreen>::default();
    let shared: Arc<dyn angelia_core::ports::CommandRunner> = Arc::clone(&commands) as _;
    let reactor = RuleRunner {
        rules: Arc::new(LiveRules::new(vec![path])),
        commands: Arc::clone(&shared),
        launcher: Launcher::new(shared, limits, TaskGroup::new()),
        screen: Arc::clone(&lines) as _,
        clock: Arc::new(CountingClock::default()),
        zone: TimeZone::UTC,
    };
    RuleHarness { rule_runner: reactor, lines, commands, started_commands: asked, folder }
}

#[tokio::test]
async fn print_by_template_by_default_and_not_at_all() {
    let stage = rule_harness(
        "callbacks:\n- match_type: a\n  print_format: '{bold}{from}{reset}: {text}'\n\
         - match_type: b\n  print: false\n",
        LauncherLimits::default(),
    );
    for body in [
        r#"{"type":"a","text":"hi \u001b[2J{text}"}"#,
        r#"{"type":"b","text":"silence"}"#,
        r#"{"type":"c","text":"not known"}"#,
        r#"{"strange":[1]}"#,
        "7",
    ] {
        let left = stage.rule_runner.apply(&message("alice", true, body)).await;
        assert!(left.context.is_none() && left.channel.is_none());
    }
    assert_eq!(
        stage.lines.lines(),
        ["\x1b[1malice\x1b[0m: hi {text}", "not known", r#"{"strange":[1]}"#, "7"]
    );
}

#[tokio::test]
async fn a_channel_gets_words_without_colours_and_an_agent_gets_them_as_they_are() {
    let stage = rule_harness(
        "callbacks:\n- match_type: a\n  print_format: '{color:red}{text}'\n\
         - match_type: b\n  context: true\n  context_format: '{from} asks: {text}'\n  profile: p\n",
        LauncherLimits::default(),
    );
    let body = r#"{"type":"a","text":"hi","channel":"x:1"}"#;
    let left = stage.rule_runner.apply(&message("alice", true, body)).await;
    assert_eq!(left.channel, Some(("x:1".into(), "hi".to_owned())));
    let body = r#"{"type":"b","text":"why {from}?"}"#;
    let left = stage.rule_runner.apply(&message("alice", true, body)).await;
    assert_eq!(left.context, Some(("alice asks: why {from}?".to_owned(), Some("p".into()))));
    assert!(stage.lines.lines().is_empty());
}

#[tokio::test]
async fn a_program_finds_the_words_and_its_failure_costs_only_them() {
    let rules = "callbacks:\n- match_type: a\n  print_format: ~/f.sh\n\
                 - match_type: b\n  print_format: /nowhere/f.py\n";
    let mut stage = rule_harness(rules, LauncherLimits::default());
    let a = r#"{"type":"a","text":"plain words"}"#;
    let answers = [
        Ok(command_output("  from the program \n", true)),
        Ok(command_output("half", false)),
        Ok(command_output("  ", true)),
        Err(CommandStartError::NotStarted("no".to_owned())),
    ];
    for answer in answers {
        *stage.commands.answer.lock().unwrap() = answer;
        stage.rule_runner.apply(&message("alice", true, a)).await;
    }
    let b = r#"{"type":"b","text":"no program"}"#;
    stage.rule_runner.apply(&message("alice", true, b)).await;
    assert_eq!(
        stage.lines.lines(),
        ["from the program", "plain words", "plain words", "plain words", "no program"]
    );
    let asked = stage.started_commands.recv().await.unwrap();
    assert_eq!((shell_line(&asked), asked.timeout), ("~/f.sh", Duration::from_secs(5)));
    let names: Vec<&str> = asked.env.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["FROM", "TYPE", "TEXT", "FORMAT_MODE", "TS"]);
    assert_eq!(&*asked.env[3].1, "print");
}

#[tokio::test]
async fn a_command_has_all_six_variables_and_nobody_waits_for_it() {
    let rules = "callbacks:\n- match_type: a\n  print: false\n  command: 'do it'\n";
    let mut stage = rule_harness(rules, LauncherLimits::default());
    // The command never ends, but the next message is still handled.
    stage.commands.gate.forget_permits(10_000);
    let body = r#"{"type":"a","text":"x y","channel":"c:1"}"#;
    for _ in 0..2 {
        stage.rule_runner.apply(&message("alice", true, body)).await;
    }
    let asked = stage.started_commands.recv().await.unwrap();
    stage.started_commands.recv().await.unwrap();
    assert_eq!(shell_line(&asked), "do it");
    let names: Vec<&str> = asked.env.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["MESSAGE", "TYPE", "FROM", "CHANNEL", "TEXT", "TS"]);
    let values: Vec<&str> = asked.env[1..].iter().map(|(_, value)| &**value).collect();
    assert_eq!(values, ["a", "alice", "c:1", "x y", &SENT_AT.to_string()]);
    assert!(asked.env[0].1.contains("\"x y\""));
}

#[tokio::test]
async fn commands_are_bounded_in_number() {
    let limits =
        LauncherLimits { max_running: 2, max_waiting: 3, time_limit: Duration::from_secs(1) };
    let rules = "callbacks:\n- match_type: a\n  command: 'do it'\n";
    let mut stage = rule_harness(rules, limits);
    stage.commands.gate.forget_permits(10_000);
    let body = r#"{"type":"a"}"#;
    for _ in 0..2 {
        stage.rule_runner.apply(&message("alice", true, body)).await;
        stage.started_commands.recv().await.unwrap();
    }
    for _ in 0..10 {
        stage.rule_runner.apply(&message("alice", true, body)).await;
    }
    tokio::task::yield_now().await;
    assert!(stage.started_commands.try_recv().is_err(), "two run");
    stage.commands.gate.add_permits(100);
    for _ in 0..3 {
        let next = tokio::time::timeout(Duration::from_secs(20), stage.started_commands.recv());
        next.await.unwrap().unwrap();
    }
    drop(stage.folder);
    tokio::task::yield_now().await;
    assert!(stage.started_commands.try_recv().is_err(), "three waited, the rest were not taken");
}

#[tokio::test]
async fn hooks_see_every_message() {
    let (commands, mut asked) = RecordingCommands::new();
    let list = HookList::from_variable(r#"["/h/a.sh", "/h/b.py"]"#);
    assert_eq!(list, HookList::from_variable("/h/a.sh, /h/b.py"));
    assert_eq!(list, HookList::from_file("hooks:\n  - /h/a.sh\n  - \"/h/b.py\"\n# - no\n"));
    assert_eq!(HookList::from_variable("none"), HookList::default());
    let launcher =
        Launcher::new(Arc::clone(&commands) as _, LauncherLimits::default(), TaskGroup::new());
    let hooks = Hooks::new(list, launcher);
    hooks.run(commands.as_ref(), &Bytes::from_static(b"{\"body\":1}"));
    let mut programs = Vec::new();
    for _ in 0..2 {
        let asked = asked.recv().await.unwrap();
        assert_eq!(asked.input.as_deref(), Some(&b"{\"body\":1}"[..]));
        programs.push(shell_line(&asked).to_owned());
    }
    programs.sort();
    assert_eq!(programs, ["/h/a.sh", "exec python3 \"$HOOK\""]);
}

#[tokio::test]
async fn a_hook_that_hangs_holds_up_no_other() {
    let (commands, mut asked) = RecordingCommands::new();
    // No command ends.
    commands.gate.forget_permits(10_000);
    let limits = LauncherLimits::default();
    let launcher = Launcher::new(Arc::clone(&commands) as _, limits, TaskGroup::new());
    let hanging = Hooks::new(HookList::from_variable("/h/hangs.sh"), launcher.clone());
    for _ in 0..limits.max_running + 20 {
        hanging.run(commands.as_ref(), &Bytes::from_static(b"{}"));
    }
    for _ in 0..limits.max_running {
        assert_eq!(shell_line(&asked.recv().await.unwrap()), "/h/hangs.sh");
    }
    let other = Hooks::new(HookList::from_variable("/h/other.sh"), launcher);
    other.run(commands.as_ref(), &Bytes::from_static(b"{}"));
    let next = tokio::time::timeout(Duration::from_secs(20), asked.recv()).await;
    assert_eq!(shell_line(&next.unwrap().unwrap()), "/h/other.sh");
}

#[test]
fn an_endpoint_is_called_by_the_first_hint() {
    let name = |hints: EndpointHints<'_>| hints.name().unwrap().to_string();
    let mut hints = EndpointHints {
        variable: Some("var"),
        configured: Some("config"),
        rules: Some("file"),
        has_hermes_rules: false,
        profile: Some("work"),
        default: "angelia",
        gateway: true,
    };
    assert_eq!(name(EndpointHints { gateway: false, ..hints.clone() }), "var");
    // Only names that come from Hermes get its ending.
    assert_eq!(name(hints.clone()), "var-gateway");
    hints.variable = Some("");
    assert_eq!(name(hints.clone()), "config");
    hints.configured = None;
    assert_eq!(name(hints.clone()), "file");
    hints.has_hermes_rules = true;
    assert_eq!(name(hints.clone()), "file-gateway");
    hints.rules = None;
    assert_eq!(name(hints.clone()), "work-gateway");
    hints.profile = None;
    assert_eq!(name(hints), "angelia");
}
