//! Failures, and the hints that say what to do about them.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{Billing, FailureKind, TurnStatus},
    ports::{AgentEvent, LoginState},
};
use angelia_testkit::real::CLAUDE_TOKEN;

use crate::{
    harness::{ClaudeHarness, bash, on_both},
    turns::is_delta,
};

#[tokio::test]
async fn real_not_logged_in_says_how_to_log_in() {
    on_both(async |lab| {
        let spec = lab.spec_without_login();
        let health = lab.executor.probe(&spec).await;
        assert_eq!(health.login, LoginState::LoggedOut);
        assert_eq!(&*health.installation.unwrap().version, lab.claude.version);
        let problem = health.problem.unwrap();
        assert_eq!(problem.kind, FailureKind::Auth);
        assert!(problem.hint.unwrap().contains("`claude`"));

        let mut session = lab.open(&spec).await;
        let heard = session.prompt("hello").await;
        let failure = heard.failure();
        assert_eq!(failure.kind, FailureKind::Auth, "{heard:#?}");
        assert!(failure.hint.as_deref().unwrap().contains("claude"));
        assert!(!failure.message.contains("/login"));
        assert!(lab.server.model_requests().is_empty());
        session.close().await;

        let health = lab.executor.probe(&lab.spec()).await;
        assert!(health.is_ready(), "{health:#?}");
        assert_eq!(health.login, LoginState::LoggedIn { lane: Some("api_key".into()) });
    })
    .await;
}

#[tokio::test]
async fn real_the_wrong_payer_is_refused_before_the_first_prompt() {
    on_both(async |lab| {
        let mut spec = lab.spec();
        spec.billing = Billing::Subscription;
        let refused = lab.try_open(&spec, None).await.err().unwrap();
        assert_eq!(refused.kind, FailureKind::Auth);
        assert!(refused.message.contains("api_key"), "{refused}");
        assert!(refused.hint.is_some());
        spec.billing = Billing::ApiKey;
        let mut session = lab.open(&spec).await;
        let heard = session.prompt("hello").await;
        assert_eq!(heard.usage().lane.as_deref(), Some("api_key"));
        session.close().await;

        let mut spec = lab.spec_without_login();
        spec.billing = Billing::Subscription;
        assert!(lab.try_open(&spec, None).await.is_err(), "unknown is another");
        spec.env.insert("CLAUDE_CODE_OAUTH_TOKEN".into(), CLAUDE_TOKEN.into());
        let mut session = lab.open(&spec).await;
        let heard = session.prompt("hello").await;
        heard.answer();
        assert_eq!(heard.usage().lane.as_deref(), Some("subscription"));
        session.close().await;
        assert_eq!(lab.server.model_requests().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn real_failures_have_kinds_and_leave_the_process_usable() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        for (prompt, kind) in [
            ("STATUS:529", FailureKind::Unavailable),
            ("STATUS:404", FailureKind::Invalid),
            ("STATUS:403", FailureKind::Auth),
            ("HTML", FailureKind::Unavailable),
        ] {
            let heard = session.prompt(prompt).await;
            assert_eq!(heard.failure().kind, kind, "{prompt}: {heard:#?}");
            assert!(session.agent.is_usable(), "{prompt}");
        }
        let heard = session.prompt("CUT:1 ECHO:whole").await;
        assert_eq!(heard.answer(), "whole", "what was cut off does not count");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_process_that_dies_in_a_turn_is_reported() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let heard = session
            .prompt_watched(
                &bash("kill -9 $PPID; timeout 20 tail -f /dev/null"),
                |emitted, hands| {
                    if let AgentEvent::ApprovalRequest(request) = emitted {
                        hands.decide(request, angelia_core::model::Verdict::Once);
                    }
                },
            )
            .await;
        let failure = heard.failure();
        assert_eq!(failure.kind, FailureKind::Agent, "{heard:#?}");
        assert!(failure.message.contains("signal: 9"), "{failure}");
        assert!(!session.agent.is_usable());
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_what_cannot_be_started_says_why() {
    on_both(async |lab| {
        let mut spec = lab.spec();
        spec.binary = Some("/nowhere/claude".into());
        let failure = lab.try_open(&spec, None).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.to_string().contains("/nowhere/claude"), "{failure}");

        let mut spec = lab.spec();
        spec.cwd = "/nowhere".into();
        let failure = lab.try_open(&spec, None).await.err().unwrap();
        assert!(failure.to_string().contains("working directory"), "{failure}");

        let mut spec = lab.spec();
        spec.binary = None;
        let failure = lab.try_open(&spec, None).await.err();
        if let Some(failure) = failure {
            assert!(failure.hint.is_some(), "{failure}");
        }
    })
    .await;
}

#[tokio::test]
async fn real_an_unanswered_interrupt_retires_the_process() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        // A process under SIGSTOP cannot answer until it is continued.
        let lab = Arc::new(lab);
        let stopped = Arc::clone(&lab);
        let heard = session
            .prompt_watched("WORDS:1000:10", move |emitted, hands| {
                if is_delta(emitted) && !hands.cancel.is_cancelled() {
                    stop_processes(&stopped);
                    hands.cancel.cancel();
                }
            })
            .await;
        assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
        assert!(!session.agent.is_usable());
        let began = std::time::Instant::now();
        session.close().await;
        assert!(began.elapsed() < Duration::from_secs(20));
    })
    .await;
}

/// Stops every process of this setup with SIGSTOP.
fn stop_processes(lab: &ClaudeHarness) {
    use rustix::process::{Pid, Signal, kill_process};
    for pid in lab.processes() {
        let pid = Pid::from_raw(pid).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
    }
}
