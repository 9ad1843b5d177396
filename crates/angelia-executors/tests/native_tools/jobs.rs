//! `bash` in the background, and `job`.

use std::{fs, time::Duration};

use angelia_core::model::{CommandLine, ToolClass};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{
    harness::{call, done, prepare, refused},
    session::{CommandPlace, DEADLINE, is_alive, pid_in},
};

/// Looks at a job until its output has `words`.
async fn look_for(place: &CommandPlace, words: &str) -> String {
    let deadline = Instant::now() + DEADLINE;
    let mut all = String::new();
    while !all.contains(words) {
        assert!(Instant::now() < deadline, "{words} is not in {all}");
        all += &done(&place.job(), json!({"id": 1, "action": "output"})).await;
        sleep(Duration::from_millis(20)).await;
    }
    all
}

#[tokio::test]
async fn a_job_runs_on_and_tells_what_is_new() {
    let place = CommandPlace::new();
    let command = "echo ready; read line; echo got $line; read line; exit 4";
    let started = done(&place.bash(), json!({"command": command, "background": true})).await;
    assert!(started.starts_with("job 1 started; its output is in "), "{started}");
    if !started.contains("\nready\n") {
        look_for(&place, "ready").await;
    }
    let quiet = done(&place.job(), json!({"id": 1, "action": "output"})).await;
    assert_eq!(quiet, "[it runs; nothing new]\n");
    let typed = json!({"id": 1, "action": "input", "input": "hello\n"});
    let answer = done(&place.job(), typed).await;
    if !answer.contains("got hello") {
        look_for(&place, "got hello").await;
    }
    done(&place.job(), json!({"id": 1, "action": "input", "input": "\n"})).await;
    let wait = json!({"id": 1, "action": "output", "wait": 60});
    let ended = timeout(DEADLINE, done(&place.job(), wait)).await.unwrap();
    assert!(ended.contains("[exit code 4]"), "{ended}");
    let late = json!({"id": 1, "action": "input", "input": "x"});
    assert!(refused(&place.job(), late).await.contains("has ended"));
    let path = started.split("its output is in ").nth(1).unwrap().lines().next().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "ready\ngot hello\n");
}

#[tokio::test]
async fn a_job_is_killed_with_all_it_started() {
    let place = CommandPlace::new();
    let command = "setsid sh -c 'echo $$ >far; exec sleep 600' & sleep 600";
    done(&place.bash(), json!({"command": command, "background": true})).await;
    let far = pid_in(&place.shell.cwd.join("far")).await;
    let job = place.job();
    let killed = timeout(DEADLINE, done(&job, json!({"id": 1, "action": "kill"}))).await.unwrap();
    assert!(killed.contains("cancelled; all its processes were ended"), "{killed}");
    assert!(!is_alive(far));
}

#[tokio::test]
async fn jobs_end_with_their_session_and_at_their_limit() {
    let place = CommandPlace::new();
    let job = json!({"command": "echo $$ >pid; exec sleep 600", "background": true});
    done(&place.bash(), job).await;
    let pid = pid_in(&place.shell.cwd.join("pid")).await;
    place.jobs.close(DEADLINE).await;
    assert!(!is_alive(pid));
    let place = CommandPlace::new();
    let job = json!({"command": "exec sleep 600", "background": true, "timeout": 1});
    done(&place.bash(), job).await;
    let wait = json!({"id": 1, "action": "output", "wait": 60});
    let ended = timeout(DEADLINE, done(&place.job(), wait)).await.unwrap();
    assert!(ended.contains("ended after its limit of 1 s"), "{ended}");
}

#[tokio::test]
async fn what_is_typed_into_a_job_is_judged_as_a_command() {
    let place = CommandPlace::new();
    assert!(refused(&place.job(), json!({"id": 1, "action": "output"})).await.contains("no job 1"));
    done(&place.bash(), json!({"command": "cat", "background": true})).await;
    let input = json!({"id": 1, "action": "input", "input": "rm -rf /\n"});
    let input = prepare(&place.job(), &input).unwrap();
    assert_eq!(input.plan().class, ToolClass::Execute);
    let command = input.plan().access.command.as_ref().unwrap();
    assert_eq!(command.line, CommandLine::Shell("rm -rf /\n".into()));
    let look = prepare(&place.job(), &json!({"id": 1, "action": "output"})).unwrap();
    assert_eq!(look.plan().class, ToolClass::Read);
    let output = call(&place.job(), json!({"id": 1, "action": "input"})).await;
    assert!(output.all_text().contains("`input` is missing"), "{output:?}");
    place.jobs.close(DEADLINE).await;
}
