//! Interrupts, deaths, and resumed conversations.

use angelia_core::{
    model::{EventKind, FailureKind, NativeSessionId, TurnStatus},
    ports::{AgentEvent, ConversationError},
};
use angelia_testkit::direct_session::{DirectSession, TurnHandle};
use serde_json::json;

use crate::harness::{AcpHarness, request_steps};

#[tokio::test]
async fn an_interrupt_answers_every_question_and_then_cancels() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let ask = request_steps(
        "session/request_permission",
        json!({"options": [{"optionId": "y", "kind": "allow_once", "name": "Y"}],
            "toolCall": {"toolCallId": "t", "kind": "execute", "title": "ls"}}),
    );
    // The answer to the permission request comes first, then the cancel.
    let script = format!("{ask}<\n. cancelled");
    let watch = |one: &AgentEvent, hands: &TurnHandle| {
        if let AgentEvent::ApprovalRequest(_) = one {
            hands.cancel.cancel();
        }
    };
    let heard = session.prompt_watched(&script, watch).await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
    let said = heard.deltas();
    let (answer, cancel) = (said.find("\"outcome\":\"cancelled\""), said.find("session/cancel"));
    assert!(answer.unwrap() < cancel.unwrap(), "{said}");
    let withdrawn =
        heard.agent_events.iter().any(|one| matches!(one, AgentEvent::ApprovalWithdrawn(_)));
    assert!(withdrawn);
    session.close().await;
}

#[tokio::test]
async fn an_agent_that_ignores_an_interrupt_is_given_up() {
    let lab = AcpHarness::new();
    let mut session = lab.open().await;
    let watch = |one: &AgentEvent, hands: &TurnHandle| {
        if let AgentEvent::Event(EventKind::Delta { .. }) = one {
            hands.cancel.cancel();
        }
    };
    let heard = session.prompt_watched("say something\nignore", watch).await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
    assert!(!session.agent.is_usable());
    session.close().await;
}

#[tokio::test]
async fn a_death_keeps_what_was_said_and_the_next_process_goes_on() {
    for arguments in [&[][..], &["--replay-late"]] {
        let lab = AcpHarness::new();
        let spec = lab.spec(arguments);
        let mut session = lab.open_as(&spec, None).await;
        let heard = session.prompt("say half an ans\nstderr out of memory\ndie").await;
        assert_eq!(heard.deltas(), "half an ans");
        let failure = heard.failure();
        assert_eq!(failure.kind, FailureKind::Agent);
        assert!(failure.message.contains("out of memory"), "{failure}");
        assert!(!session.agent.is_usable());
        let native = heard.native_session_id();
        session.close().await;

        // The replayed conversation is not shown.
        let mut session = lab.open_as(&spec, Some(&native)).await;
        let heard = session.prompt("say and on").await;
        assert_eq!(heard.deltas(), "and on", "{arguments:?}");
        assert!(heard.started().resumed && heard.notices().is_empty());
        assert_eq!(heard.native_session_id(), native);
        session.close().await;
    }
}

#[tokio::test]
async fn a_conversation_that_is_gone_is_reported_as_lost() {
    let lab = AcpHarness::new();
    let gone = NativeSessionId::new("gone");
    let error = DirectSession::open_error(&*lab.place.executor, &lab.spec(&[]), &gone).await;
    assert_eq!(error, ConversationError::Lost);
    // The same holds for an agent that cannot load conversations.
    let spec = lab.spec(&["--greeting", r#"{"agentCapabilities":{}}"#]);
    let known = NativeSessionId::new("fake-session");
    let error = DirectSession::open_error(&*lab.place.executor, &spec, &known).await;
    assert_eq!(error, ConversationError::Lost);
}
