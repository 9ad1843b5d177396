//! Answers that fail: as an HTTP error before any output, and in an orderly stream after it.

use std::time::Duration;

use angelia_core::{
    model::{EventKind, Failure, FailureKind, TurnStatus, Usage},
    ports::{AgentEvent, AgentOutcome},
};
use angelia_testkit::manual_executor::ManualTurn;

use serde_json::json;

use crate::harness::{DEADLINE, ModelApiHarness, ModelApiRequest, user};

fn failed(kind: FailureKind) -> AgentOutcome {
    let mut failure = Failure::new(kind, "it broke").with_hint("mend it");
    failure.retry_after = Some(Duration::from_secs(7));
    AgentOutcome::failed(failure)
}

#[tokio::test]
async fn what_fails_before_it_speaks_is_an_error_of_http() {
    for stream in [false, true] {
        for (kind, status) in [
            (FailureKind::RateLimited, 429),
            (FailureKind::Unavailable, 503),
            (FailureKind::Agent, 502),
        ] {
            let stage = ModelApiHarness::new();
            let answer = stage.send(&ModelApiRequest::new([user("one")]).with("stream", stream));
            stage.run().await.end(failed(kind));
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, status, "{answer:?}");
            assert_eq!(answer.header("retry-after"), "7");
            assert_eq!(answer.header("x-angelia-status"), "failed");
            assert!(answer.error().contains("mend it"), "{answer:?}");
        }
    }
}

/// Clients repeat a 503 for minutes, but an agent that is not installed stays so.
#[tokio::test]
async fn an_agent_that_cannot_be_started_is_no_reason_to_try_again() {
    for stream in [false, true] {
        for request in [ModelApiRequest::new([user("x")]), ModelApiRequest::messages([user("x")])] {
            let stage = ModelApiHarness::new();
            let answer = stage.send(&request.with("stream", stream));
            let failure = Failure::new(FailureKind::Unavailable, "the agent is not installed");
            stage.run_unstarted().await.end(AgentOutcome::failed(failure));
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 424, "{answer:?}");
            assert_eq!(answer.header("x-should-retry"), "false");
            assert!(answer.error().contains("not installed"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_model_that_the_vendor_does_not_have_is_not_found() {
    for stream in [false, true] {
        let stage = ModelApiHarness::new();
        let answer = stage.send(&ModelApiRequest::new([user("one")]).with("stream", stream));
        let failure = Failure::new(FailureKind::Invalid, "there is no model `nope`");
        stage.run().await.end(AgentOutcome::unknown_model(failure));
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(answer.error().contains("nope"), "{answer:?}");
    }
}

/// A caller that waits when the daemon is told to stop hears that, and when to come back.
#[tokio::test]
async fn a_shutdown_is_unavailable_and_says_so() {
    for stream in [false, true] {
        let stage = ModelApiHarness::new();
        let answer = stage.send(&ModelApiRequest::new([user("one")]).with("stream", stream));
        let run = stage.run().await;
        let engine = stage.engine();
        engine.drain(Duration::ZERO).await;
        let refused = stage.send(&ModelApiRequest::new([user("two")])).await.unwrap();
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.header("retry-after"), "5");
        let (ended, ()) = tokio::join!(engine.end_turns(), end_on_interrupt(run));
        let () = ended;
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.error().contains("shutting down"), "{answer:?}");
        assert_eq!(answer.header("retry-after"), "5");
    }
}

#[tokio::test]
async fn what_fails_after_it_spoke_ends_in_order_and_says_so() {
    let stage = ModelApiHarness::new();
    let answer = stage.send(&ModelApiRequest::new([user("one")]).streamed());
    let run = stage.run().await;
    run.emit_answer(0, "so far").await;
    run.end(failed(FailureKind::Agent));
    let answer = answer.await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.streamed(), "so far\n\n[the turn failed: it broke; mend it]");
    assert!(answer.text.ends_with("data: [DONE]\n\n"), "{answer:?}");
    assert_eq!(answer.trailers["x-angelia-status"], "failed");
}

#[tokio::test]
async fn a_failure_that_passes_may_be_tried_again() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]);
    let answer = stage.send(&ask);
    stage.run().await.end(failed(FailureKind::Unavailable));
    let first = answer.await.unwrap();
    let retry = ask.header("x-stainless-retry-count", "1");
    let second = stage.run_turn(&retry, "now it works").await;
    assert_ne!(first.turn(), second.turn());
}

/// Waits for an interrupt, reports its usage, and ends.
async fn end_on_interrupt(run: ManualTurn) {
    tokio::time::timeout(DEADLINE, run.io.cancel.cancelled()).await.unwrap();
    let usage = Usage { input_tokens: 31, output_tokens: 17, ..Usage::default() };
    run.emit(vec![AgentEvent::Event(EventKind::Usage(usage))]).await;
    run.end(AgentOutcome {
        status: TurnStatus::Interrupted,
        text: None,
        reason: "interrupted".into(),
    });
}

/// The agent reports its usage when it has stopped, and the caller gets that number.
#[tokio::test]
async fn what_an_answer_used_that_was_cut_short_is_told() {
    let ask = ModelApiRequest::messages([user("one")]).with("stop_sequences", json!(["END"]));
    for stream in [false, true] {
        let stage = ModelApiHarness::new();
        let answer = stage.send(&ask.clone().with("stream", stream));
        let run = stage.run().await;
        run.emit_answer(0, "so much END and more").await;
        end_on_interrupt(run).await;
        let answer = answer.await.unwrap();
        assert!(answer.text.contains("\"output_tokens\":17"), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_is_cut_at_its_ceiling_and_the_turn_ended() {
    let stage = ModelApiHarness::new();
    let answer = stage.send(&ModelApiRequest::new([user("one")]).with("max_tokens", 2).streamed());
    let run = stage.run().await;
    run.emit_answer(0, "a long text that goes on and on").await;
    end_on_interrupt(run).await;
    let answer = answer.await.unwrap();
    assert_eq!(answer.streamed(), "a long tex");
    assert!(answer.text.contains("\"finish_reason\":\"length\""), "{answer:?}");
}

#[tokio::test]
async fn what_was_cut_is_carried_when_it_goes_on() {
    let stage = ModelApiHarness::new();
    let answer = stage.send(&ModelApiRequest::new([user("one")]).with("max_tokens", 1).streamed());
    let run = stage.run().await;
    run.emit_answer(0, "too long").await;
    end_on_interrupt(run).await;
    let first = answer.await.unwrap();
    let go_on = ModelApiRequest::new([
        user("one"),
        crate::harness::assistant(&first.streamed()),
        user("two"),
    ]);
    let second = stage.run_turn(&go_on, "fine").await;
    assert_ne!(first.session(), second.session());
}

#[tokio::test]
async fn an_answer_ends_before_the_callers_word_in_every_dialect() {
    let chat = ModelApiRequest::new([user("one")]).with("stop", "END");
    let messages =
        ModelApiRequest::messages([user("one")]).with("stop_sequences", json!(["x", "END"]));
    for (ask, stream) in [(&chat, false), (&chat, true), (&messages, false), (&messages, true)] {
        let stage = ModelApiHarness::new();
        let answer = stage.send(&ask.clone().with("stream", stream));
        let run = stage.run().await;
        run.emit_answer(0, "so much END and more").await;
        end_on_interrupt(run).await;
        let answer = answer.await.unwrap();
        let reason = if answer.text.contains("stop_sequence") {
            assert!(answer.text.contains("\"stop_sequence\":\"END\""), "{answer:?}");
            "\"stop_reason\":\"stop_sequence\""
        } else {
            "\"finish_reason\":\"stop\""
        };
        assert!(answer.text.contains(reason), "{answer:?}");
        assert!(answer.text.contains("so much"), "{answer:?}");
        assert!(!answer.text.contains("more"), "{answer:?}");
    }
}
