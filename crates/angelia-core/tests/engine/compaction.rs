//! An agent that is asked to shorten its conversation: a turn without input, and only in a session that
//! is free.

use angelia_core::{
    engine::{CompactionReport, EngineError},
    model::{Failure, FailureKind, TurnState, TurnStatus, TurnTask},
    ports::{AgentOutcome, COMPACTED_REASON, Page},
};

use crate::harness::{EngineHarness, options, outcome};

fn compacted() -> AgentOutcome {
    AgentOutcome {
        status: TurnStatus::Completed,
        text: Some("from 9 to 2 tokens".into()),
        reason: COMPACTED_REASON.into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_free_is_compacted_in_a_turn_of_its_own() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let failure = Failure::new(FailureKind::Refused, "not today");
    for (end, wanted, reason) in [
        (compacted(), true, "from 9 to 2 tokens"),
        (AgentOutcome::failed(failure), false, "not today"),
        (AgentOutcome::interrupted("somebody stopped it"), false, "somebody stopped it"),
    ] {
        let agent = async {
            let run = stage.control.next_turn().await;
            assert_eq!((run.turn.options.task, run.turn.input.len()), (TurnTask::Compact, 0));
            run.emit_started().await;
            run.end(end);
        };
        let (report, ()) = tokio::join!(stage.engine.compact(session, options()), agent);
        let report = report.unwrap();
        assert_eq!(report, CompactionReport { compacted: wanted, reason: reason.into() });
    }
    assert_eq!(stage.control.opened_agents(), 1, "the live agent is asked");
    let turns = stage.engine.turns(Some(session), Page { limit: 9, before: None }).await.unwrap();
    assert_eq!(turns.len(), 3);
    assert!(turns.iter().all(|turn| matches!(turn.state, TurnState::Finished { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_turn_is_not_compacted() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "a long task").await;
    let run = stage.control.next_turn().await;
    let refused = stage.engine.compact(session, options()).await;
    assert!(matches!(refused, Err(EngineError::TurnRunning)), "{refused:?}");
    run.complete("done");
    outcome(submitted.watch).await;
    let missing = angelia_core::model::SessionId::from_uuid(uuid::Uuid::nil());
    let missing = stage.engine.compact(missing, options()).await;
    assert!(matches!(missing, Err(EngineError::NotFound(_))), "{missing:?}");
}
