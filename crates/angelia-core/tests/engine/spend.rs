//! Spending limits of callers: money is reserved when a turn is submitted and settled at its end.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{EngineError, SpendLimit, Submission, SubmittedTurn},
    model::{Content, EventKind, FailureKind, SessionId, TurnOptions, TurnStatus, Usage},
    ports::{AgentEvent, AgentOutcome},
};
use angelia_testkit::manual_executor::ManualTurn;

use crate::harness::{EngineHarness, options, outcome};

const LIMIT: SpendLimit = SpendLimit { usd: 1.0, period: Duration::from_hours(24) };

async fn submit(
    stage: &EngineHarness,
    session: SessionId,
    max_cost_usd: Option<f64>,
) -> Result<SubmittedTurn, EngineError> {
    let options = TurnOptions { caller: Some(Arc::from("key:guest")), max_cost_usd, ..options() };
    let submission = Submission {
        spend_limit: Some(LIMIT),
        ..Submission::new(session, vec![Content::text("work")], options)
    };
    stage.engine.submit_with(submission).await
}

async fn report_cost(run: &ManualTurn, cost_usd: f64) {
    let usage = Usage { cost_usd: Some(cost_usd), ..Usage::default() };
    run.emit(vec![AgentEvent::Event(EventKind::Usage(usage))]).await;
}

fn is_spend_failure(refused: &EngineError) -> bool {
    matches!(refused, EngineError::Failed(failure) if failure.kind == FailureKind::RateLimited)
}

/// Answers like an agent that stops at once when it is asked to.
async fn end_when_interrupted(run: ManualTurn) {
    run.io.cancel.cancelled().await;
    run.end(AgentOutcome::interrupted("interrupted"));
}

#[tokio::test(start_paused = true)]
async fn turns_at_once_cannot_all_spend_the_same_money() {
    let stage = EngineHarness::new();
    let mut accepted = Vec::new();
    let mut refused = 0;
    for _ in 0..24 {
        let session = stage.session().await;
        match submit(&stage, session.id, None).await {
            Ok(turn) => accepted.push((turn, stage.control.next_turn().await)),
            Err(error) => {
                assert!(is_spend_failure(&error), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!((accepted.len(), refused), (10, 14), "each reserves a tenth");
    let mut spent = 0.0;
    for (turn, run) in accepted {
        run.emit_started().await;
        // One response of this agent costs more than the whole reservation.
        report_cost(&run, 0.12).await;
        end_when_interrupted(run).await;
        let ended = outcome(turn.watch).await;
        assert_eq!((ended.status, &*ended.reason), (TurnStatus::Partial, "max_cost_usd_per_day"));
        spent += ended.usage.cost_usd.unwrap();
    }
    assert!(spent < 1.0 + 10.0 * 0.12, "{spent}");
    let session = stage.session().await;
    let refused = submit(&stage, session.id, None).await.unwrap_err();
    assert!(refused.to_string().contains("$1.20 of $1.00"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_reservation_grows_while_there_is_room_and_the_rest_is_given_back() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let turn = submit(&stage, session.id, None).await.unwrap();
    let run = stage.control.next_turn().await;
    assert_eq!(run.turn.options.max_cost_usd, Some(1.0), "the record bounds delegated work");
    run.emit_started().await;
    report_cost(&run, 0.3).await;
    report_cost(&run, 0.7).await;
    // The amount that is spent beyond the share cannot be reserved by others.
    let (other, third) = (stage.session().await, stage.session().await);
    let other = submit(&stage, other.id, Some(0.25)).await.unwrap();
    let other_run = stage.control.next_turn().await;
    let third_turn = submit(&stage, third.id, Some(0.25)).await.unwrap();
    let third_run = stage.control.next_turn().await;
    let recorded = third_run.turn.options.max_cost_usd.unwrap();
    assert!((recorded - 0.05).abs() < 1e-9, "at most what is left: {recorded}");
    third_run.complete("free");
    outcome(third_turn.watch).await;
    other_run.complete("free");
    outcome(other.watch).await;
    run.complete("done");
    assert_eq!(outcome(turn.watch).await.status, TurnStatus::Completed);
    // Only what was really spent counts now.
    let again = submit(&stage, session.id, None).await.unwrap();
    let run = stage.control.next_turn().await;
    let recorded = run.turn.options.max_cost_usd.unwrap();
    assert!((recorded - 0.3).abs() < 1e-9, "{recorded}");
    run.complete("done");
    outcome(again.watch).await;
}

#[tokio::test(start_paused = true)]
async fn a_turns_own_limit_still_counts() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let turn = submit(&stage, session.id, Some(0.2)).await.unwrap();
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    report_cost(&run, 0.2).await;
    end_when_interrupted(run).await;
    let ended = outcome(turn.watch).await;
    assert_eq!((ended.status, &*ended.reason), (TurnStatus::Partial, "max_cost_usd"));
}

#[tokio::test(start_paused = true)]
async fn work_that_is_handed_on_is_paid_by_the_same_account() {
    let stage = EngineHarness::new();
    let (from, to) = (stage.session().await, stage.session().await);
    let turn = submit(&stage, from.id, None).await.unwrap();
    let run = stage.control.next_turn().await;
    // No caller states the limit of the account again, and all that is left may be spent.
    let hand_on = async || {
        let options = TurnOptions {
            caller: Some(Arc::from("session:from")),
            charged_to: Some(Arc::from("key:guest")),
            max_cost_usd: Some(0.9),
            ..options()
        };
        stage.engine.submit(to.id, vec![Content::text("part")], options).await
    };
    let part = hand_on().await.unwrap();
    let part_run = stage.control.next_turn().await;
    // It has reserved its share, not all of it: the account has something for others.
    let third = stage.session().await;
    let third = submit(&stage, third.id, Some(0.2)).await.unwrap();
    stage.control.next_turn().await.complete("free");
    outcome(third.watch).await;
    part_run.emit_started().await;
    report_cost(&part_run, 0.85).await;
    assert!(!part_run.io.cancel.is_cancelled());
    report_cost(&part_run, 0.95).await;
    end_when_interrupted(part_run).await;
    let ended = outcome(part.watch).await;
    assert_eq!(ended.status, TurnStatus::Partial, "{}", ended.reason);
    let refused = hand_on().await.unwrap_err();
    assert!(is_spend_failure(&refused), "{refused}");
    run.complete("done");
    outcome(turn.watch).await;
    let last = submit(&stage, from.id, Some(0.2)).await.unwrap();
    let run = stage.control.next_turn().await;
    assert!((run.turn.options.max_cost_usd.unwrap() - 0.05).abs() < 1e-9);
    run.complete("done");
    outcome(last.watch).await;
}
