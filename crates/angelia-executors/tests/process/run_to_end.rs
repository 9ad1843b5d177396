//! Short commands: their output, their limits.

use std::{os::unix::process::ExitStatusExt, time::Duration};

use angelia_executors::process::{ProcessLaunch, run_to_end};

use super::{DEADLINE, shell};

#[tokio::test]
async fn what_it_says_and_how_it_ends() {
    let finished = run_to_end(&shell("echo 1.2.3; echo hint >&2; exit 1"), DEADLINE).await.unwrap();
    assert_eq!(finished.stdout, b"1.2.3\n");
    assert_eq!(finished.stderr.tail(|text| text.into()), "hint\n");
    assert_eq!(finished.status.unwrap().code(), Some(1));
    assert!(!finished.timed_out && !finished.truncated && !finished.succeeded());
}

#[tokio::test]
async fn a_question_on_stdin_gets_no_answer() {
    let finished = run_to_end(&shell("read answer || echo none"), DEADLINE).await.unwrap();
    assert_eq!(finished.stdout, b"none\n");
}

#[tokio::test]
async fn who_does_not_finish_is_ended() {
    let launch = shell("echo started; exec sleep 60");
    let finished = run_to_end(&launch, Duration::from_millis(300)).await.unwrap();
    assert!(finished.timed_out && !finished.succeeded());
    assert_eq!(finished.status.unwrap().signal(), Some(15));
}

#[tokio::test]
async fn too_much_output_is_cut() {
    let launch = ProcessLaunch {
        program: "/usr/bin/head".into(),
        args: vec!["-c".into(), "3000000".into(), "/dev/zero".into()],
        ..shell("")
    };
    let finished = run_to_end(&launch, DEADLINE).await.unwrap();
    assert!(finished.truncated && finished.succeeded());
    assert_eq!(finished.stdout.len(), 1024 * 1024);
}
