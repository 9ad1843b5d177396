//! The agent's turn loop and the probe on programs that misbehave in ways the real program rarely
//! does: the testkit's fake CLI, and small shell scripts.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests on the real program")]
#[path = "real_claude/harness.rs"]
mod harness;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "isolated_executor/mod.rs"]
mod isolated_executor;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use angelia_core::{
    model::{EventKind, FailureKind, SessionSpec, TurnStatus},
    ports::AgentEvent,
};
use angelia_testkit::{programs, real::RealClaude};
use harness::ClaudeHarness;

fn fake() -> ClaudeHarness {
    ClaudeHarness::new(&RealClaude { version: "2.1.325", path: programs::fake_cli().unwrap() })
}

/// A test setup whose agent program is a shell script.
fn script(body: &str) -> ClaudeHarness {
    let mut lab = fake();
    let path = lab.place.root().join("claude");
    fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    lab.claude.path = path;
    lab
}

const GREETING: &str = r#"
    [ "$1" = --version ] && { echo '2.1.197 (Claude Code)'; exit; }
    read -r first
    echo '{"type":"control_response","response":{"subtype":"success","request_id":"angelia-first","response":{}}}'
"#;

fn with_version(lab: &ClaudeHarness, version: &str) -> SessionSpec {
    let mut spec = lab.spec();
    spec.env.insert("FAKE_CLI_VERSION".into(), version.into());
    spec
}

#[tokio::test]
async fn many_turns_on_one_process() {
    let lab = fake();
    let mut session = lab.open(&lab.spec()).await;
    for number in 0..200 {
        let heard = session.prompt(&format!("ECHO:{number}")).await;
        assert_eq!(heard.answer(), number.to_string());
    }
    let heard = session.prompt("WORDS:20000").await;
    assert!(heard.deltas().starts_with("w0 w1 "));
    session.close().await;
    assert_eq!(lab.processes(), BTreeSet::new());
}

#[tokio::test]
async fn a_long_prompt_and_a_flood_do_not_wait_for_each_other() {
    // The program writes a megabyte before it reads the message, which exceeds any pipe buffer.
    let lab = script(&format!(
        r#"{GREETING}
        yes '{{"type":"keep_alive","filler":"0123456789"}}' | head -c 1000000; echo
        bytes=$(head -n 1 | wc -c)
        echo '{{"type":"result","subtype":"success","is_error":false,"result":"'$bytes'"}}'
        cat > /dev/null"#
    ));
    let mut session = lab.open(&lab.spec()).await;
    let heard = session.prompt(&"x".repeat(30_000_000)).await;
    assert!(heard.answer().parse::<usize>().unwrap() > 30_000_000);
    session.close().await;
}

#[tokio::test]
async fn a_death_in_the_middle_of_a_line_fails_the_turn() {
    let lab = fake();
    for (prompt, words) in [("EXIT:3", "exit status: 3"), ("DIE", "signal: 9")] {
        let mut session = lab.open(&lab.spec()).await;
        let heard = session.prompt(prompt).await;
        let failure = heard.failure();
        assert_eq!(failure.kind, FailureKind::Agent);
        assert!(failure.message.contains(words), "{failure}");
        assert!(!session.agent.is_usable());
        assert!(!heard.deltas().is_empty(), "what was said stays");
        session.close().await;
    }
}

#[tokio::test]
async fn last_words_are_quoted() {
    let lab =
        script(&format!("{GREETING}\nread -r message; echo 'the reason it died' >&2; exit 7"));
    let mut session = lab.open(&lab.spec()).await;
    let heard = session.prompt("hello").await;
    let message = &heard.failure().message;
    assert!(
        message.contains("exit status: 7") && message.contains("the reason it died"),
        "{message}"
    );
    session.close().await;
}

#[tokio::test]
async fn a_pipe_held_by_a_survivor_does_not_hold_the_turn() {
    let lab = script(&format!("{GREETING}\nread -r message; tail -f /dev/null & exit 7"));
    let mut session = lab.open(&lab.spec()).await;
    let began = Instant::now();
    let heard = session.prompt("hello").await;
    assert!(heard.failure().message.contains("exit status: 7"));
    assert!(began.elapsed() < Duration::from_secs(20));
    session.close().await;
    assert_eq!(lab.processes(), BTreeSet::new());
}

#[tokio::test]
async fn a_line_beyond_the_limit_is_skipped_and_said() {
    let lab = script(&format!(
        r#"{GREETING}
        read -r message
        head -c 70000000 /dev/zero | tr '\0' x; echo
        echo '{{"type":"result","subtype":"success","is_error":false,"result":"still here"}}'
        cat > /dev/null"#
    ));
    let mut session = lab.open(&lab.spec()).await;
    let heard = session.prompt("hello").await;
    assert_eq!(heard.answer(), "still here");
    assert_eq!(&*heard.notices()[0].code, "line_too_long");
    session.close().await;
}

#[tokio::test]
async fn what_hangs_can_be_interrupted() {
    let lab = fake();
    let mut session = lab.open(&lab.spec()).await;
    let heard = session
        .prompt_watched("HANG", |emitted, hands| {
            if let AgentEvent::Event(EventKind::Delta { .. }) = emitted {
                hands.cancel.cancel();
            }
        })
        .await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
    assert!(session.agent.is_usable());
    assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
    session.close().await;
}

#[tokio::test]
async fn a_turn_that_is_given_up_leaves_nothing_running() {
    let lab = fake();
    let mut session = lab.open(&lab.spec()).await;
    let given_up = tokio::time::timeout(Duration::from_millis(300), session.prompt("HANG")).await;
    assert!(given_up.is_err());
    assert!(!session.agent.is_usable(), "its turn has not ended");
    session.close().await;
    assert_eq!(lab.processes(), BTreeSet::new());
}

#[tokio::test]
async fn a_program_that_ends_at_its_start_says_why() {
    let lab = script(
        "[ \"$1\" = --version ] && { echo '2.1.197 (Claude Code)'; exit; }\necho 'no such option' >&2; exit 1",
    );
    let failure = lab.try_open(&lab.spec(), None).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::Agent);
    assert!(failure.message.contains("no such option"), "{failure}");
    assert!(failure.hint.is_some());
}

#[tokio::test]
async fn versions_are_asked_before_flags_are_used() {
    let lab = fake();
    let failure = lab.try_open(&with_version(&lab, "1.0.128"), None).await.err().unwrap();
    assert!(failure.to_string().contains("too old"), "{failure}");
    assert!(failure.hint.unwrap().contains("update"));

    // A program that does not report its version shows its options; only those are used.
    let options = "--model --setting-sources --strict-mcp-config";
    let lab = script(&format!(
        r#"[ "$1" = --version ] && {{ echo 'a nightly build'; exit; }}
        [ "$1" = --help ] && {{ echo '{options}'; exit; }}
        for argument; do
            [ "$argument" = --exclude-dynamic-system-prompt-sections ] && exit 9
        done
        {GREETING}
        read -r message
        echo '{{"type":"result","subtype":"success","is_error":false,"result":"ran"}}'
        cat > /dev/null"#
    ));
    let mut session = lab.open(&lab.spec()).await;
    assert_eq!(session.prompt("hello").await.answer(), "ran");
    session.close().await;

    let silent = script("exit 0");
    let failure = silent.try_open(&silent.spec(), None).await.err().unwrap();
    assert!(failure.to_string().contains("version"), "{failure}");
}

/// Any program has a version; only one is Claude Code.
#[tokio::test]
async fn another_program_is_not_taken_for_it() {
    for (said, is_other) in [
        ("true (GNU coreutils) 9.1.2", true),
        ("2.1.197", true),
        ("Python 3.13.1", true),
        ("2.1.197 (Claude Code)", false),
    ] {
        let lab = script(&format!("[ \"$1\" = --help ] && exit\necho '{said}'"));
        let health = lab.executor.probe(&lab.spec()).await;
        assert_eq!(health.installation.is_none(), is_other, "{said}: {health:?}");
        if let Some(problem) = health.problem.filter(|_| is_other) {
            assert!(problem.message.contains("is not Claude Code"), "{problem}");
        }
    }
}

#[tokio::test]
async fn an_update_is_noticed() {
    let lab = script("echo '2.1.197 (Claude Code)'");
    let spec = lab.spec();
    let version = async |lab: &ClaudeHarness| {
        let installed = lab.executor.probe(&spec).await.installation;
        installed.unwrap().version.to_string()
    };
    assert_eq!(version(&lab).await, "2.1.197");
    fs::write(&lab.claude.path, "#!/bin/sh\necho '2.1.325 (Claude Code)'").unwrap();
    assert_eq!(version(&lab).await, "2.1.325");
}

#[tokio::test]
async fn the_program_is_found_on_the_childs_path() {
    let lab = fake();
    let folder = lab.place.root().join("bin");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&lab.claude.path, folder.join("claude")).unwrap();
    let mut spec = lab.spec();
    spec.binary = None;
    spec.env.insert("PATH".into(), folder.to_str().unwrap().into());
    let mut session = lab.open(&spec).await;
    assert_eq!(session.prompt("ECHO:found").await.answer(), "found");
    session.close().await;

    spec.env.insert("PATH".into(), "/nowhere".into());
    let failure = lab.try_open(&spec, None).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.hint.unwrap().contains("install"));
    let health = lab.executor.probe(&spec).await;
    assert!(health.installation.is_none() && !health.is_ready());
}

#[tokio::test]
async fn prompts_and_secrets_are_not_on_the_command_line() {
    let lab = fake();
    let log: PathBuf = lab.place.root().join("log");
    let mut spec = lab.spec();
    spec.env.insert("FAKE_CLI_LOG".into(), log.to_str().unwrap().into());
    spec.system = angelia_core::model::SystemPrompt::Append("WORDS-OF-THE-PROMPT".into());
    let mut session = lab.open(&spec).await;
    session.prompt("ECHO:WORDS-OF-THE-TURN").await.answer();
    session.close().await;
    let log = fs::read_to_string(&log).unwrap();
    let (arguments, lines) = log.split_once('\n').unwrap();
    assert!(!arguments.contains("WORDS-OF"), "{arguments}");
    assert!(lines.contains("WORDS-OF-THE-PROMPT") && lines.contains("WORDS-OF-THE-TURN"));
}

/// Measures our own share of a hot turn. The benchmarks measure the goals; this test only guards
/// against large regressions.
#[tokio::test]
async fn a_hot_turn_costs_little() {
    let lab = fake();
    let mut session = lab.open(&lab.spec()).await;
    let mut times = Vec::new();
    for _ in 0..300 {
        let began = Instant::now();
        session.prompt("ECHO:x").await;
        times.push(began.elapsed());
    }
    times.sort();
    eprintln!("hot turn: p50 {:?} p99 {:?}", times[150], times[297]);
    assert!(times[150] < Duration::from_millis(20), "{:?}", times[150]);
    session.close().await;
}
