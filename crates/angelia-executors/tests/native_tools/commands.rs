//! `bash`: commands that run to their end.

use std::{fs, time::Duration};

use angelia_core::model::{CommandLine, ToolClass};
use angelia_executors::native::tools::CallIo;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{
    harness::{call, done, prepare, refused},
    session::{CommandPlace, DEADLINE, is_alive, pid_in},
};

#[tokio::test]
async fn a_command_says_what_it_says_and_how_it_ended() {
    let place = CommandPlace::new();
    let bash = place.bash();
    let text = done(&bash, json!({"command": "echo out; echo err >&2; pwd"})).await;
    let cwd = place.shell.cwd.display();
    assert!(text.starts_with(&format!("out\nerr\n{cwd}\n[exit code 0, ")), "{text}");
    let output = call(&bash, json!({"command": "printf '\\033[31mred\\033[0m'; exit 3"})).await;
    assert!(!output.ok && output.all_text().starts_with("red\n[exit code 3, "), "{output:?}");
    let output = call(&bash, json!({"command": "kill -9 $$"})).await;
    assert!(output.all_text().contains("ended by signal 9"), "{output:?}");
    let silent = done(&bash, json!({"command": "cat"})).await;
    assert!(silent.starts_with("[exit code 0"), "there is no input: {silent}");
    assert!(refused(&bash, json!({"command": " "})).await.contains("empty"));
}

#[tokio::test]
async fn the_environment_is_the_allow_list_with_a_mark() {
    let place = CommandPlace::new();
    let text = done(&place.bash(), json!({"command": "env"})).await;
    assert!(!text.contains("must-not-leak"), "{text}");
    assert!(text.contains(&format!("ANGELIA_AGENT={}", place.place.mark)), "{text}");
    assert!(text.contains("TERM=dumb") && text.contains("GIT_TERMINAL_PROMPT=0"), "{text}");
}

/// A command can become another program, but the process above it says whose it is.
#[tokio::test]
async fn a_command_that_drops_its_mark_has_a_parent_that_keeps_it() {
    let place = CommandPlace::new();
    for dropped in ["-u ANGELIA_AGENT", "ANGELIA_AGENT=released", "ANGELIA_AGENT=a:b:command-1"] {
        let parent = r#"sh -c 'tr "\0" "\n" < /proc/$PPID/environ'"#;
        let text =
            done(&place.bash(), json!({"command": format!("exec env {dropped} {parent}")})).await;
        assert!(text.contains(&format!("ANGELIA_AGENT={}", place.place.mark)), "{dropped}: {text}");
    }
}

#[test]
fn the_plan_has_the_command() {
    let place = CommandPlace::new();
    let arguments = json!({"command": "make\n", "description": "builds it"});
    let call = prepare(&place.bash(), &arguments).unwrap();
    let plan = call.plan();
    assert_eq!(
        (plan.class, &*plan.title, &plan.must_ask),
        (ToolClass::Execute, "builds it", &None)
    );
    let command = plan.access.command.as_ref().unwrap();
    assert_eq!(command.line, CommandLine::Shell("make\n".into()));
}

#[tokio::test]
async fn a_long_output_is_cut_and_kept_whole() {
    let place = CommandPlace::new();
    let text = done(&place.bash(), json!({"command": "seq 1 400000"})).await;
    assert!(text.len() < 52_000, "{}", text.len());
    assert!(text.starts_with("1\n2\n") && text.contains("\n400000\n[exit code 0"), "{text}");
    let path = text.split("all of it is in ").nth(1).unwrap().split(']').next().unwrap();
    let whole = fs::read_to_string(path).unwrap();
    assert_eq!(whole.lines().count(), 400_000);
    assert!(path.starts_with(place.output.path().to_str().unwrap()));
}

#[tokio::test]
async fn what_a_command_leaves_running_is_ended() {
    let place = CommandPlace::new();
    let file = place.root.join("pid");
    let command = format!("setsid sh -c 'echo $$ >{}; exec sleep 600' & sleep 0.2", file.display());
    let text = timeout(DEADLINE, done(&place.bash(), json!({"command": command}))).await.unwrap();
    assert!(text.contains("left running were ended, use `background`"), "{text}");
    assert!(!is_alive(pid_in(&file).await));
}

#[tokio::test]
async fn a_command_ends_at_its_time_limit() {
    let place = CommandPlace::new();
    let command = json!({"command": "echo begun; sleep 600", "timeout": 1});
    let output = timeout(DEADLINE, call(&place.bash(), command)).await.unwrap();
    let text = output.all_text();
    assert!(!output.ok && text.starts_with("begun\n[ended after its limit of 1 s"), "{text}");
}

/// A tree with a process in a session of its own, and one that ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >far; exec sleep 600' & \
                        sh -c 'trap \"\" TERM; echo $$ >near; sleep 600; sleep 600'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_ends_the_whole_tree_at_once() {
    let place = CommandPlace::new();
    let io = CallIo::default();
    let cancel = io.cancel.clone();
    let call = prepare(&place.bash(), &json!({"command": STUBBORN})).unwrap();
    let running = tokio::task::spawn_blocking({
        let runtime = tokio::runtime::Handle::current();
        move || runtime.block_on(call.run(io))
    });
    let far = pid_in(&place.shell.cwd.join("far")).await;
    let near = pid_in(&place.shell.cwd.join("near")).await;
    assert!(is_alive(far) && is_alive(near));
    let began = Instant::now();
    cancel.cancel();
    let output = timeout(DEADLINE, running).await.unwrap().unwrap();
    let took = began.elapsed();
    assert!(!is_alive(far) && !is_alive(near), "when the call returns, nothing runs");
    assert!(output.all_text().contains("cancelled"), "{}", output.all_text());
    println!("interrupt to end: {took:?}");
    // 100 ms on a quiet machine; this only tells it from the ladders of seconds.
    assert!(took < Duration::from_secs(2), "{took:?}");
}
