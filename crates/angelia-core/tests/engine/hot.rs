//! A session with a hot agent: the order of record and run, and what is known of the session without
//! asking the store.

use std::time::Duration;

use angelia_core::{
    engine::{EngineError, NewSession, Submission, TurnStage},
    model::{Content, EventKind, ExternalName, SessionId, SessionSpec, TurnState},
    ports::{Activity, AgentEvent, Page, StoreError},
};
use tokio::time::sleep;

use crate::harness::{EngineHarness, options, outcome};

const MOMENT: Duration = Duration::from_millis(5);

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
}

#[tokio::test(start_paused = true)]
async fn a_hot_turn_is_on_record_before_its_agent_hears_of_it() {
    let stage = EngineHarness::new();
    let session = stage.hot_session().await;
    let input = vec![Content::text("two")];
    let hash = [2; 32];
    let new = Submission { history_hash: Some(hash), ..Submission::new(session, input, options()) };
    let answer = async {
        let run = stage.control.next_turn().await;
        let record = stage.store.turn(run.turn.id).await.unwrap().unwrap();
        assert_eq!(record.state, TurnState::Running);
        let found = stage.engine.find_by_history(hash, 9).await.unwrap();
        assert_eq!(found.iter().map(|entry| entry.turn).collect::<Vec<_>>(), [run.turn.id]);
        run.emit_answer(0, "words").await;
        run.complete("words");
    };
    let (submitted, ()) = tokio::join!(stage.engine.submit_with(new), answer);
    assert_eq!(&*outcome(submitted.unwrap().watch).await.text, "words");
}

/// Events that are shown are handed to the store at once: nothing but a delta waits for later
/// events.
#[tokio::test(start_paused = true)]
async fn what_a_turn_shows_is_stored_without_waiting_for_more() {
    let stage = EngineHarness::new();
    let session = stage.hot_session().await;
    let mut submitted = stage.submit(session, "two").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let shown = submitted.watch.next().await.unwrap().unwrap();
    assert!(matches!(shown[0].kind, EventKind::Started(_)));
    tokio::task::yield_now().await;
    let stored = stage.store.replay(submitted.turn, 0, 9).await.unwrap();
    assert_eq!(stored.len(), 1, "{stored:?}");
    run.complete("2");
    outcome(stage.engine.watch(submitted.turn, 0).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_hot_turn_that_cannot_be_recorded_never_reaches_its_agent() {
    let stage = EngineHarness::new();
    let session = stage.hot_session().await;
    // Another process acquires the session, so our session actor loses its lease.
    stage.store.acquire_lease(session).await.unwrap();
    let input = vec![Content::text("two")];
    let refused = stage.engine.submit(session, input, options()).await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::LeaseLost))), "{refused:?}");
    while stage.control.closed_agents() == 0 {
        sleep(MOMENT).await;
    }
    assert!(stage.control.try_next_turn().is_none());
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
        sleep(MOMENT).await;
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
        source: None,
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
