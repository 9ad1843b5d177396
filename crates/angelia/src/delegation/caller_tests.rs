//! Tests of the delegating session, with a store in memory.

use std::time::Duration;

use angelia_core::{
    model::{
        Content, Outcome, SessionSpec, TurnEvent, TurnOptions, TurnOrigin, TurnState, TurnStatus,
    },
    ports::Lease,
};
use angelia_testkit::memory_store::MemoryStore;
use uuid::Uuid;

use super::*;

/// A store with running turns in it.
#[derive(Default)]
struct TestStore {
    store: MemoryStore,
}

struct StartedTurn {
    session: SessionId,
    turn: TurnId,
    lease: Lease,
}

impl TestStore {
    /// Creates a session with a turn that has been running for `since`.
    async fn start_turn(
        &self,
        spec: SessionSpec,
        options: TurnOptions,
        since: Duration,
    ) -> StartedTurn {
        let now = Timestamp::now();
        let session = SessionId::from_uuid(Uuid::now_v7());
        let record = SessionRecord {
            id: session,
            title: None,
            source: None,
            created_at: now,
            updated_at: now,
            spec,
            native: None,
            forked_from: None,
            forked_after: None,
            revision: 0,
        };
        self.store.create_session(&record).await.unwrap();
        let lease = self.store.acquire_lease(session).await.unwrap();
        let turn = TurnRecord {
            id: TurnId::from_uuid(Uuid::now_v7()),
            session,
            input: vec![Content::text("x")],
            options,
            created_at: now - since,
            state: TurnState::Running,
        };
        let id = turn.id;
        self.store.create_turn(&lease, &turn.into()).await.unwrap();
        StartedTurn { session, turn: id, lease }
    }

    async fn append_event(&self, begun: &StartedTurn, seq: u64, kind: EventKind) {
        let event =
            TurnEvent { turn: begun.turn, session: begun.session, seq, at: Timestamp::now(), kind };
        let written = self.store.append(&begun.lease, vec![event]).await.unwrap();
        written.await.unwrap();
    }
}

fn spec() -> SessionSpec {
    SessionSpec::new("fake", "/project")
}

fn options() -> TurnOptions {
    TurnOptions::new(TurnOrigin::Owner)
}

fn delegated_by(session: SessionId) -> TurnOptions {
    TurnOptions { caller: Some(lineage::caller_name(session)), ..options() }
}

fn cost(dollars: f64) -> Usage {
    Usage { cost_usd: Some(dollars), ..Usage::default() }
}

const JUST_NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn depth_is_counted_from_whoever_is_no_agent() {
    let book = TestStore::default();
    let from_bus = TurnOptions { caller: Some("bus:somebody".into()), ..options() };
    let mut chain = vec![book.start_turn(spec(), from_bus, JUST_NOW).await.session];
    for expected in 1..=lineage::MAX_DELEGATION_DEPTH {
        let above = *chain.last().unwrap();
        let begun = book.start_turn(spec(), delegated_by(above), JUST_NOW).await;
        let caller = DelegatingSession::load(&book.store, begun.session).await.unwrap();
        assert_eq!(caller.depth, expected);
        chain.push(begun.session);
    }
    let (top, bottom) = (chain[0], chain[chain.len() - 1]);
    let below = |one, other| lineage::is_same_or_descendant(&book.store, one, other);
    assert!(below(bottom, top).await.unwrap());
    assert!(below(top, top).await.unwrap());
    assert!(!below(top, bottom).await.unwrap());
    let stranger = book.start_turn(spec(), options(), JUST_NOW).await.session;
    assert!(!below(stranger, top).await.unwrap());
}

#[tokio::test]
async fn what_is_left_of_the_money_is_what_may_be_handed_on() {
    let book = TestStore::default();
    let mut limited = spec();
    limited.budgets.cost_usd = Some(1.0);
    let of_key =
        TurnOptions { caller: Some("key:guest".into()), max_cost_usd: Some(0.8), ..options() };
    let begun = book.start_turn(limited, of_key, JUST_NOW).await;
    let left = async || {
        let caller = DelegatingSession::load(&book.store, begun.session).await;
        caller.map(|caller| caller.remaining_cost_usd.unwrap())
    };
    assert!((left().await.unwrap() - 0.8).abs() < 1e-9);
    book.append_event(&begun, 1, EventKind::Usage(cost(0.2))).await;
    book.append_event(&begun, 2, EventKind::Usage(cost(0.3))).await;
    assert!((left().await.unwrap() - 0.5).abs() < 1e-9);
    for expected in [Some(0.1), None] {
        let options = delegated_by(begun.session);
        let below = book.start_turn(spec(), options, JUST_NOW).await;
        let outcome = Outcome {
            status: TurnStatus::Completed,
            text: "".into(),
            reason: "end_turn".into(),
            usage: cost(0.4),
        };
        book.append_event(&below, 1, EventKind::Finished(outcome)).await;
        match (left().await, expected) {
            (Ok(left), Some(expected)) => assert!((left - expected).abs() < 1e-9, "{left}"),
            (Err(refused), None) => assert!(refused.message.contains("max_cost_usd")),
            (left, _) => panic!("{left:?}"),
        }
    }
}

#[tokio::test]
async fn whoever_pays_for_a_turn_pays_for_what_it_hands_on() {
    let book = TestStore::default();
    let account = async |options| {
        let begun = book.start_turn(spec(), options, JUST_NOW).await;
        let caller = DelegatingSession::load(&book.store, begun.session).await.unwrap();
        (begun.session, caller.account)
    };
    let (session, paying) = account(options()).await;
    assert_eq!(&*paying, "owner");
    let below = TurnOptions { charged_to: Some(paying), ..delegated_by(session) };
    assert_eq!(&*account(below).await.1, "owner");
    let (mut session, mut paying) =
        account(TurnOptions { caller: Some("key:guest".into()), ..options() }).await;
    for _ in 0..3 {
        assert_eq!(&*paying, "key:guest");
        let below = TurnOptions { charged_to: Some(paying), ..delegated_by(session) };
        (session, paying) = account(below).await;
    }
}

#[tokio::test]
async fn what_is_left_of_the_time_is_what_may_be_used() {
    let book = TestStore::default();
    let mut limited = spec();
    limited.budgets.time = Some(Duration::from_secs(100));
    limited.budgets.resumes = 1;
    let since = Duration::from_secs(150);
    let begun = book.start_turn(limited.clone(), options(), since).await;
    let caller = DelegatingSession::load(&book.store, begun.session).await.unwrap();
    let left = caller.deadline.unwrap() - Instant::now();
    assert!(left < Duration::from_secs(51) && left > Duration::from_secs(1));
    let late = Duration::from_secs(201);
    let begun = book.start_turn(limited, options(), late).await;
    let refused = DelegatingSession::load(&book.store, begun.session).await;
    assert!(refused.unwrap_err().message.contains("time"));
    let begun = book.start_turn(spec(), options(), late).await;
    let caller = DelegatingSession::load(&book.store, begun.session).await.unwrap();
    assert_eq!((caller.deadline, caller.remaining_cost_usd), (None, None));
}
