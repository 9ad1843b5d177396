//! A session with a hot agent: what does not wait for the store, and what is known without asking
//! it.

use std::time::Duration;

use angelia_core::{
    engine::{EngineError, NewSession, Submission, SubmittedTurn, TurnStage},
    model::{
        Content, EventKind, ExternalName, FailureKind, SessionId, SessionSpec, TextChannel,
        TurnStatus,
    },
    ports::{Activity, AgentEvent, Page},
};
use tokio::time::sleep;

use crate::harness::{EngineHarness, all_events, options, outcome};

/// Longer than the engine delays any write to the store.
const AFTER_WRITE_DELAY: Duration = Duration::from_millis(5);

impl EngineHarness {
    async fn hot_session(&self) -> SessionId {
        let session = self.session().await.id;
        let first = self.submit(session, "one").await;
        let run = self.control.next_turn().await;
        run.emit_started().await;
        run.complete("1");
        outcome(first.watch).await;
        session
    }

    async fn submit_uncommitted(&self, session: SessionId, text: &str) -> SubmittedTurn {
        let input = vec![Content::text(text)];
        let new =
            Submission { show_uncommitted: true, ..Submission::new(session, input, options()) };
        self.engine.submit_with(new).await.unwrap()
    }

    async fn is_recorded(&self, submitted: &SubmittedTurn) -> bool {
        self.store.turn(submitted.turn).await.unwrap().is_some()
    }
}

fn delta(text: &str) -> Vec<AgentEvent> {
    vec![AgentEvent::Event(EventKind::Delta {
        block: 0,
        channel: TextChannel::Answer,
        text: text.into(),
    })]
}

#[tokio::test(start_paused = true)]
async fn whoever_follows_a_hot_turn_sees_it_before_it_is_on_record() {
    let stage = EngineHarness::new();
    let session = stage.hot_session().await;
    let mut submitted = stage.submit_uncommitted(session, "two").await;
    assert!(submitted.running);
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(delta("wo")).await;
    let shown = submitted.watch.next().await.unwrap().unwrap();
    assert!(matches!(shown[0].kind, EventKind::Started(_)));
    assert!(!stage.is_recorded(&submitted).await);

    // A second read of the session finds the turn, and its record follows a moment later.
    let newest = stage.engine.newest_turn(session).await.unwrap().unwrap().1;
    assert_eq!((newest.id, newest.stage), (submitted.turn, TurnStage::Busy));
    stage.engine.turn(submitted.turn).await.unwrap();
    assert!(stage.is_recorded(&submitted).await);
    let stored = stage.store.replay(submitted.turn, 0, 9).await.unwrap();
    assert_eq!(stored.len(), 1, "{stored:?}");
    run.complete("words");
    let rest = all_events(submitted.watch).await;
    let last = &rest.last().unwrap().kind;
    assert!(matches!(last, EventKind::Finished(end) if &*end.text == "words"));
}

/// The turn is written together with its first block or its end.
#[tokio::test(start_paused = true)]
async fn what_a_quick_turn_says_takes_its_record_along() {
    let stage = EngineHarness::new();
    let session = stage.hot_session().await;
    let mut submitted = stage.submit_uncommitted(session, "two").await;
    let run = stage.control.next_turn().await;
    run.emit_answer(0, "words").await;
    submitted.watch.next().await.unwrap().unwrap();
    tokio::task::yield_now().await;
    assert!(stage.is_recorded(&submitted).await);
    run.complete("words");
    let turn = submitted.turn;
    let shown = all_events(submitted.watch).await;
    let stored = stage.store.replay(turn, 0, 9).await.unwrap();
    assert_eq!(shown.last().map(|e| e.seq), stored.last().map(|e| e.seq));
    assert_eq!(stored.len(), 2, "{stored:?}");

    let submitted = stage.submit_uncommitted(session, "three").await;
    stage.control.next_turn().await.complete("3");
    let turn = submitted.turn;
    assert_eq!(&*outcome(submitted.watch).await.text, "3");
    assert_eq!(stage.store.replay(turn, 0, 9).await.unwrap().len(), 1);
}

/// A client that did not wait for the commit learns of the failure from the turn's end, and the
/// agent is stopped.
#[tokio::test(start_paused = true)]
async fn a_followed_turn_that_cannot_be_recorded_fails() {
    let stage = EngineHarness::new();
    let session = stage.hot_session().await;
    // Another process acquires the session, so our session actor loses its lease.
    stage.store.acquire_lease(session).await.unwrap();
    let submitted = stage.submit_uncommitted(session, "two").await;
    let run = stage.control.next_turn().await;
    run.emit(delta("wo")).await;
    let turn = submitted.turn;
    let outcome = outcome(submitted.watch).await;
    let TurnStatus::Failed(failure) = outcome.status else {
        panic!("{outcome:?}");
    };
    assert_eq!(failure.kind, FailureKind::Internal);
    assert!(failure.message.contains("recorded"), "{failure:?}");
    assert_eq!(&*outcome.text, "wo");
    let gone = stage.engine.turn(turn).await;
    assert!(matches!(gone, Err(EngineError::NotFound(_))), "{gone:?}");
    while stage.control.closed_agents() == 0 {
        sleep(AFTER_WRITE_DELAY).await;
    }
    let turns = stage.engine.turns(None, Page::first(9)).await.unwrap();
    assert_eq!(turns.len(), 1, "{turns:?}");
}

#[tokio::test(start_paused = true)]
async fn the_newest_turn_is_over_as_soon_as_its_end_is_seen() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    assert!(stage.engine.newest_turn(session).await.unwrap().is_none());
    for text in ["one", "two"] {
        let submitted = stage.submit(session, text).await;
        let turn = submitted.turn;
        let newest = async || {
            let newest = stage.engine.newest_turn(session).await.unwrap().unwrap().1;
            assert_eq!(newest.id, turn);
            newest.stage
        };
        let run = stage.control.next_turn().await;
        assert_eq!(newest().await, TurnStage::Busy);
        run.emit(vec![AgentEvent::Activity(Activity::AwaitingToolResult)]).await;
        sleep(AFTER_WRITE_DELAY).await;
        assert_eq!(newest().await, TurnStage::AwaitingToolResult);
        run.complete(text);
        outcome(submitted.watch).await;
        assert_eq!(newest().await, TurnStage::Finished);
    }
}

/// The session cache and the store agree, whatever happens to the session and whichever process
/// owns it.
#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_session_goes_with_its_actor() {
    let stage = EngineHarness::new();
    let name = ExternalName { scope: "test".into(), name: "n".into() };
    let new = || NewSession {
        spec: SessionSpec::new("puppet", "/project"),
        title: None,
        name: Some(name.clone()),
    };
    let engine = &stage.engine;
    assert_eq!(engine.find_by_name(&name).await.unwrap(), None);
    let session = engine.create_session(new()).await.unwrap().id;
    for text in ["one", "two"] {
        let submitted = stage.submit(session, text).await;
        let run = stage.control.next_turn().await;
        run.emit_started().await;
        run.complete(text);
        outcome(submitted.watch).await;
        assert_eq!(engine.find_by_name(&name).await.unwrap(), Some(session));
        let known = engine.cached_session(session).await.unwrap();
        let stored = stage.store.session(session).await.unwrap().unwrap();
        assert_eq!((known.revision, &known.native), (stored.revision, &stored.native));
        assert_eq!(known.spec.model.as_deref(), Some("wood"));
    }
    let change = |spec: &mut SessionSpec| spec.model = Some("stone".into());
    engine.change_session(session, change).await.unwrap();
    let known = engine.cached_session(session).await.unwrap();
    assert_eq!(known.spec.model.as_deref(), Some("stone"));

    engine.delete_session(session).await.unwrap();
    assert_eq!(engine.find_by_name(&name).await.unwrap(), None);
    let gone = engine.cached_session(session).await;
    assert!(matches!(gone, Err(EngineError::NotFound(_))), "{gone:?}");
    let second = engine.create_session(new()).await.unwrap().id;
    assert_eq!(engine.find_by_name(&name).await.unwrap(), Some(second));

    // Another process has run a turn of this session since our agent was released.
    let submitted = stage.submit(second, "ours").await;
    stage.control.next_turn().await.complete("ours");
    outcome(submitted.watch).await;
    engine.release_session(second).await.unwrap();
    let stage = stage.restart().await;
    let submitted = stage.submit(second, "theirs").await;
    let newest = stage.engine.newest_turn(second).await.unwrap().unwrap().1;
    assert_eq!((newest.id, newest.stage), (submitted.turn, TurnStage::Busy));
}
