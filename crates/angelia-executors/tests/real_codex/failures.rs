//! Failures before and during a turn, and the hints that say what to do about them.

use std::{fs, os::unix::fs::PermissionsExt as _};

use angelia_core::{
    model::{Billing, FailureKind, SessionSpec},
    ports,
};
use angelia_testkit::codex_home::CodexLogin;

use crate::harness::CodexHarness;

#[tokio::test]
async fn real_nobody_is_logged_in() {
    let lab = CodexHarness::with_config(CodexLogin::Account, "");
    let spec = lab.spec();
    let health = lab.executor.probe(&spec).await;
    assert_eq!(health.login, ports::LoginState::LoggedOut, "{health:#?}");
    let problem = health.problem.unwrap();
    assert!(problem.hint.unwrap().contains("codex login"));

    let mut session = lab.open(&spec).await;
    let heard = session.prompt("ECHO:hello").await;
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.hint.as_deref().unwrap().contains("codex login"));
    assert!(lab.server.model_requests().is_empty(), "nothing was tried");
    session.close().await;

    // With a login, the session continues.
    fs::write(lab.home.join("auth.json"), r#"{"OPENAI_API_KEY":"sk-dummy"}"#).unwrap();
    let mut session = lab.open(&spec).await;
    assert_eq!(session.prompt("ECHO:hello").await.answer(), "hello");
    let health = lab.executor.probe(&spec).await;
    assert!(health.is_ready(), "{health:#?}");
    session.close().await;

    let mut subscription = spec.clone();
    subscription.billing = Billing::Subscription;
    let failure = lab.try_open(&subscription, None).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.message.contains("api_key"), "{failure:?}");
    lab.close().await;
}

#[tokio::test]
async fn real_a_key_that_is_missing_is_named() {
    let lab = CodexHarness::new();
    let mut spec = lab.spec();
    spec.env.clear();
    let mut session = lab.open(&spec).await;
    let heard = session.prompt("ECHO:hello").await;
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Auth, "{failure:?}");
    let words = format!("{} {:?}", failure.message, failure.hint);
    assert!(words.contains("SCRIPTED_MODEL_KEY"), "{words}");
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_broken_configuration_is_fatal_and_named() {
    for (more, said) in [("model = [", "config.toml"), ("[features]\nplugins = 7\n", "config.toml")]
    {
        let lab = CodexHarness::with_config(CodexLogin::Key, more);
        let failure = lab.try_open(&lab.spec(), None).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Invalid, "{failure:?}");
        assert!(failure.message.contains(said), "{failure:?}");
        assert!(failure.hint.as_deref().unwrap().contains("correct"), "{failure:?}");
        let health = lab.executor.probe(&lab.spec()).await;
        assert!(!health.is_ready(), "{health:#?}");
        lab.close().await;
    }
}

#[tokio::test]
async fn real_a_folder_that_is_not_there_is_named() {
    let lab = CodexHarness::new();
    fs::remove_dir_all(&lab.home).unwrap();
    let failure = lab.try_open(&lab.spec(), None).await.unwrap_err();
    assert!(failure.message.contains("CODEX_HOME"), "{failure:?}");
    lab.close().await;
}

/// Returns a specification whose program is a shell script.
fn scripted(lab: &CodexHarness, script: &str) -> SessionSpec {
    let program = lab.place.root().join("scripted-codex");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let mut spec = lab.spec();
    spec.binary = Some(program);
    spec
}

#[tokio::test]
async fn real_a_refused_start_and_an_early_end_are_told_apart() {
    let answer_version = "[ \"$1\" = --version ] && { echo codex-cli 0.166.0; exit; }";
    let refuse = r#"read -r line
        id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        echo '{"id":'$id',"error":{"code":-32600,"message":"not on this machine"}}'
        cat > /dev/null"#;
    for (ending, message) in [
        (refuse, "Codex did not start: not on this machine"),
        ("exit 7", "Codex ended while it was starting: "),
    ] {
        let lab = CodexHarness::new();
        let spec = scripted(&lab, &format!("{answer_version}\n{ending}"));
        let failure = lab.try_open(&spec, None).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Agent, "{failure:?}");
        assert!(failure.message.starts_with(message), "{failure:?}");
        assert!(failure.hint.as_deref().unwrap().contains("angelia doctor"), "{failure:?}");
        lab.close().await;
    }
}

#[tokio::test]
async fn real_a_program_of_the_wrong_version_is_refused() {
    let lab = CodexHarness::new();
    let mut spec = scripted(&lab, "echo codex-cli 0.124.0");
    let failure = lab.try_open(&spec, None).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.message.contains("0.124.0 at"), "{failure:?}");
    assert!(failure.hint.as_deref().unwrap().contains("update"), "{failure:?}");
    let health = lab.executor.probe(&spec).await;
    assert!(health.installation.is_none() && !health.is_ready());

    spec.binary = Some("codex-that-is-not-there".into());
    let failure = lab.try_open(&spec, None).await.unwrap_err();
    assert!(failure.message.contains("not installed"), "{failure:?}");
    lab.close().await;
}

#[tokio::test]
async fn real_a_model_that_fails_fails_the_turn_and_not_the_session() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.spec()).await;
    let heard = session.prompt("STATUS:400 ECHO:the model says no").await;
    assert!(heard.failure().message.contains("the model says no"), "{heard:#?}");
    assert!(session.agent.is_usable());
    assert_eq!(session.prompt("ECHO:on").await.answer(), "on");
    session.close().await;
    lab.close().await;
}
