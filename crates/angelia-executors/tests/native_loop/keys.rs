//! E27: a key that is not accepted is made again, once, where a command makes it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_core::model::{FailureKind, TurnStatus};
use angelia_executors::{
    native::{provider::Api, providers::KeySource},
    scripted_model::{Reply, ReplyBlock, SharedRequest, StreamBreak},
};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::loop_lab::{LoopLab, calls};

/// A command that prints another key each time: `made-key-1`, `made-key-2`, …
fn key_command(folder: &TempDir) -> (KeySource, PathBuf) {
    let (path, runs) = (folder.path().join("print-key"), folder.path().join("runs"));
    let runs_text = runs.display();
    let script = format!(
        "#!/bin/sh\necho run >> '{runs_text}'\necho made-key-$(wc -l < '{runs_text}' | tr -d ' ')\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    (KeySource::Command(vec![Arc::from(path.to_str().unwrap())]), runs)
}

fn key_of(request: &SharedRequest) -> String {
    let headers = ["authorization", "x-api-key"];
    let value = headers.iter().find_map(|name| request.header(name)).unwrap();
    value.strip_prefix("Bearer ").unwrap_or(value).to_owned()
}

async fn with_command_key(test: impl AsyncFn(LoopLab, PathBuf)) {
    let test = &test;
    let in_api = |api| async move {
        let folder = tempfile::tempdir().unwrap();
        let (source, runs) = key_command(&folder);
        let lab = LoopLab::new(api, |provider| provider.keys = vec![source.clone()]);
        test(lab, runs).await;
    };
    join_all(Api::ALL.map(in_api)).await;
}

fn refused() -> Reply {
    Reply::status_with(401, "that key is not known")
}

#[tokio::test]
async fn e27_a_key_that_has_expired_is_made_again_and_the_request_sent_once_more() {
    with_command_key(async |lab, _| {
        let output = lab.turn([refused(), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let keys: Vec<String> = lab.server.model_requests().iter().map(key_of).collect();
        assert_eq!(keys, ["made-key-1", "made-key-2"]);
    })
    .await;
}

#[tokio::test]
async fn e27_a_key_that_is_refused_again_ends_the_turn_in_the_providers_words() {
    with_command_key(async |lab, runs| {
        let output = lab.turn([refused(), refused()]).await;
        let failure = output.failure();
        assert_eq!(failure.kind, FailureKind::Auth, "{failure:?}");
        assert!(failure.message.contains("not known"), "{failure:?}");
        assert_eq!(fs::read_to_string(runs).unwrap().lines().count(), 2, "no third key is made");
    })
    .await;
}

#[tokio::test]
async fn e27_an_answer_in_which_the_key_expires_is_continued_with_the_next() {
    with_command_key(async |lab, _| {
        let text = ReplyBlock::Text("The first half is shown, the second is not.".to_owned());
        let first = calls([text]).with_cut(StreamBreak::RefusedKey);
        let output = lab.turn([first, Reply::text("And the rest.")]).await;
        assert_eq!(output.deltas().matches("The first").count(), 1, "{output:#?}");
        assert!(output.answer().ends_with("And the rest."), "{output:#?}");
        let keys: Vec<String> = lab.server.model_requests().iter().map(key_of).collect();
        assert_eq!(keys, ["made-key-1", "made-key-2"]);
        assert!(lab.last_request().ends_with_the_user(), "never a trailing assistant message");
    })
    .await;
}

#[tokio::test]
async fn an_interrupt_does_not_wait_for_the_program_that_makes_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let (path, begun) = (folder.path().join("slow-key"), folder.path().join("begun"));
    let script = format!("#!/bin/sh\ntouch '{}'\nexec sleep 20\n", begun.display());
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let source = KeySource::Command(vec![Arc::from(path.to_str().unwrap())]);
    let lab = LoopLab::new(Api::Chat, |provider| provider.keys = vec![source.clone()]);
    let mut session = lab.open().await;
    let start = Instant::now();
    let output = session.prompt_interrupted_when("go on", || begun.exists()).await;
    assert!(matches!(output.outcome.status, TurnStatus::Interrupted), "{output:#?}");
    assert!(start.elapsed() < Duration::from_secs(15), "it has waited for the key");
    session.close().await;
}
