//! Programs that the agent runs through the ACP client.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use angelia_core::model::{ToolClass, Verdict};
use angelia_testkit::direct_session::{DEADLINE, DirectSession};
use serde_json::{Value, json};

use crate::harness::{AcpHarness, repeated_answers, request_steps, run_with_verdict, update_step};

fn create(params: Value) -> String {
    request_steps("terminal/create", params)
}

fn of(method: &str, number: usize) -> String {
    request_steps(&format!("terminal/{method}"), json!({"terminalId": format!("term-{number}")}))
}

#[tokio::test]
async fn a_program_runs_when_it_is_allowed_and_says_how_it_ended() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let program = json!({"command": "sh", "args": ["-c", "echo out; echo err >&2; pwd; echo $A; exit 3"],
        "env": [{"name": "A", "value": "given"}]});
    let declined = create(program.clone());
    let heard = run_with_verdict(&mut session, &declined, Verdict::Deny).await;
    assert!(repeated_answers(&heard)[0]["error"].is_object());

    let script = [
        create(program),
        of("wait_for_exit", 1),
        of("output", 1),
        of("release", 1),
        of("output", 1),
    ];
    let heard = run_with_verdict(&mut session, &script.concat(), Verdict::Once).await;
    let asked = heard.approval_requests();
    assert_eq!((asked.len(), asked[0].class), (1, ToolClass::Execute));
    assert!(asked[0].detail.contains("A=given"), "{asked:?}");
    let answers = repeated_answers(&heard);
    assert_eq!(answers[0]["result"]["terminalId"], "term-1");
    assert_eq!(answers[1]["result"]["exitCode"], 3);
    let work = lab.work().canonicalize().unwrap();
    let expected = format!("out\nerr\n{}\ngiven\n", work.display());
    assert_eq!(answers[2]["result"]["output"], expected);
    assert_eq!(answers[2]["result"]["exitStatus"]["exitCode"], 3);
    assert_eq!(answers[3]["result"], json!({}));
    assert!(answers[4]["error"].is_object(), "it was released");
    session.close().await;
}

/// A program can become another one, but the process above it says whose it is.
#[tokio::test]
async fn a_program_that_drops_its_mark_has_a_parent_that_keeps_it() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let shows_parent = r#"tr "\0" "\n" < /proc/$PPID/environ"#;
    let program =
        json!({"command": "env", "args": ["-u", "ANGELIA_AGENT", "sh", "-c", shows_parent]});
    let script = [create(program), of("wait_for_exit", 1), of("output", 1)];
    let heard = run_with_verdict(&mut session, &script.concat(), Verdict::Once).await;
    let answers = repeated_answers(&heard);
    let output = answers[2]["result"]["output"].as_str().unwrap();
    assert!(output.lines().any(|line| line.starts_with("ANGELIA_AGENT=")), "{output}");
    session.close().await;
}

#[tokio::test]
async fn output_is_bounded_and_a_program_can_be_stopped() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let flood = json!({"command": "yes", "args": ["0123456789"], "outputByteLimit": 100});
    let script = [create(flood), of("kill", 1), of("wait_for_exit", 1), of("output", 1)];
    let heard = run_with_verdict(&mut session, &script.concat(), Verdict::Once).await;
    let answers = repeated_answers(&heard);
    assert!(answers[2]["result"]["signal"].is_string(), "{answers:#?}");
    let output = answers[3]["result"]["output"].as_str().unwrap();
    assert!(output.len() <= 100, "{output:?}");
    session.close().await;
}

#[tokio::test]
async fn what_a_tool_shows_in_a_terminal_is_its_output() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let tool = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "echo", "kind": "execute",
        "status": "in_progress", "content": [{"type": "terminal", "terminalId": "term-1"}]});
    let done =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"});
    let script = [
        create(json!({"command": "echo shown"})),
        update_step(&tool),
        of("wait_for_exit", 1),
        of("release", 1),
        update_step(&done),
    ];
    let heard = run_with_verdict(&mut session, &script.concat(), Verdict::Once).await;
    assert_eq!(&*heard.tool_results()[0].output, "shown\n");
    session.close().await;
}

#[tokio::test]
async fn no_program_runs_outside_or_too_many_at_once() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    for cwd in ["/", "..", "/tmp"] {
        let heard = session.prompt(&create(json!({"command": "ls", "cwd": cwd}))).await;
        assert!(heard.approval_requests().is_empty());
        assert!(repeated_answers(&heard)[0]["error"].is_object(), "{cwd}");
    }
    let many: String = (0..33).map(|_| create(json!({"command": "sleep 60"}))).collect();
    let heard = run_with_verdict(&mut session, &many, Verdict::Once).await;
    let refused =
        repeated_answers(&heard).iter().filter(|answer| answer["error"].is_object()).count();
    assert_eq!(refused, 1);
    session.close().await;
}

/// Starts a program that writes its pid to a file and does not end.
async fn lasting(lab: &AcpHarness, session: &mut DirectSession, name: &str) -> PathBuf {
    let file = lab.work().join(name);
    let command = format!("setsid sh -c 'echo $$ > {name}; exec sleep 600' & exec sleep 600");
    run_with_verdict(session, &create(json!({"command": command})), Verdict::Once).await;
    let until = Instant::now() + DEADLINE;
    while fs::read_to_string(&file).map_or(0, |text| text.len()) == 0 {
        assert!(Instant::now() < until, "it does not run");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let pid = fs::read_to_string(&file).unwrap();
    Path::new("/proc").join(pid.trim())
}

/// Reports whether the process runs; a zombie does not count.
fn is_alive(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn programs_end_with_the_session() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let running = lasting(&lab, &mut session, "closed").await;
    assert!(is_alive(&running));
    session.close().await;
    assert!(!is_alive(&running), "it outlives its session");

    let mut session = lab.open().await;
    let running = lasting(&lab, &mut session, "dropped").await;
    drop(session);
    let until = Instant::now() + DEADLINE;
    while is_alive(&running) {
        assert!(Instant::now() < until, "it outlives its session");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
