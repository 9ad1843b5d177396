//! Tests of the delegating session, with a store in memory.

use std::time::Duration;

use angelia_backends::store::MemoryStore;
use angelia_core::{
    model::{Content, Origin, Outcome, SessionSpec, Status, TurnEvent, TurnOptions, TurnState},
    ports::Lease,
};
use uuid::Uuid;

use super::*;

/// A store with running turns in it.
#[derive(Default)]
struct Book {
    store: MemoryStore,
}

struct Begun {
    session: SessionId,
    turn: TurnId,
    lease: Lease,
}

impl Book {
    /// Creates a session with a turn that has been running for `since`.
    async fn running(&self, spec: SessionSpec, options: TurnOptions, since: Duration) -> Begun {
        let now = Timestamp::now();
        let session = SessionId::from_uuid(Uuid::now_v7());
        let record = SessionRecord {
            id: session,
            title: None,
            created_at: now,
            updated_at: now,
            spec,
            native: None,
            forked_from: None,
            revision: 0,
        };
        self.store.create_session(&record).await.unwrap();
        let lease = self.store.acquire(session).await.unwrap();
        let turn = TurnRecord {
            id: TurnId::from_uuid(Uuid::now_v7()),
            session,
            input: vec![Content::text("x")],
            options,
            created_at: now - since,
            state: TurnState::Running,
        };
        self.store.create_turn(&lease, &turn).await.unwrap().await.unwrap();
        Begun { session, turn: turn.id, lease }
    }

    async fn say(&self, begun: &Begun, seq: u64, kind: EventKind) {
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
    TurnOptions::new(Origin::Owner)
}

fn handed_on_by(session: SessionId) -> TurnOptions {
    TurnOptions { caller: Some(lineage::caller_name(session)), ..options() }
}

fn cost(dollars: f64) -> Usage {
    Usage { cost_usd: Some(dollars), ..Usage::default() }
}

const JUST_NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn depth_is_counted_from_whoever_is_no_agent() {
    let book = Book::default();
    let from_bus = TurnOptions { caller: Some("bus:somebody".into()), ..options() };
    let mut chain = vec![book.running(spec(), from_bus, JUST_NOW).await.session];
    for expected in 1..=lineage::DEEPEST {
        let above = *chain.last().unwrap();
        let begun = book.running(spec(), handed_on_by(above), JUST_NOW).await;
        let caller = Caller::look_up(&book.store, begun.session).await.unwrap();
        assert_eq!(caller.depth, expected);
        chain.push(begun.session);
    }
    let (top, bottom) = (chain[0], chain[chain.len() - 1]);
    let below = |one, other| lineage::is_below(&book.store, one, other);
    assert!(below(bottom, top).await.unwrap());
    assert!(below(top, top).await.unwrap());
    assert!(!below(top, bottom).await.unwrap());
    let stranger = book.running(spec(), options(), JUST_NOW).await.session;
    assert!(!below(stranger, top).await.unwrap());
}

#[tokio::test]
async fn what_is_left_of_the_money_is_what_may_be_handed_on() {
    let book = Book::default();
    let mut limited = spec();
    limited.budgets.cost_usd = Some(1.0);
    let paid_by_key = TurnOptions { max_cost_usd: Some(0.8), ..options() };
    let begun = book.running(limited, paid_by_key, JUST_NOW).await;
    let left = async || {
        let caller = Caller::look_up(&book.store, begun.session).await;
        caller.map(|caller| caller.cost_usd.unwrap())
    };
    assert!((left().await.unwrap() - 0.8).abs() < 1e-9);
    book.say(&begun, 1, EventKind::Usage(cost(0.2))).await;
    book.say(&begun, 2, EventKind::Usage(cost(0.3))).await;
    assert!((left().await.unwrap() - 0.5).abs() < 1e-9);
    for expected in [Some(0.1), None] {
        let options = handed_on_by(begun.session);
        let below = book.running(spec(), options, JUST_NOW).await;
        let outcome = Outcome {
            status: Status::Completed,
            text: "".into(),
            reason: "end_turn".into(),
            usage: cost(0.4),
        };
        book.say(&below, 1, EventKind::Finished(outcome)).await;
        match (left().await, expected) {
            (Ok(left), Some(expected)) => assert!((left - expected).abs() < 1e-9, "{left}"),
            (Err(refused), None) => assert!(refused.message.contains("max_cost_usd")),
            (left, _) => panic!("{left:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_left_of_the_time_is_what_may_be_used() {
    let book = Book::default();
    let mut limited = spec();
    limited.budgets.time = Some(Duration::from_secs(100));
    limited.budgets.resumes = 1;
    let since = Duration::from_secs(150);
    let begun = book.running(limited.clone(), options(), since).await;
    let caller = Caller::look_up(&book.store, begun.session).await.unwrap();
    let left = caller.until.unwrap() - Instant::now();
    assert!(left < Duration::from_secs(51) && left > Duration::from_secs(1));
    let late = Duration::from_secs(201);
    let begun = book.running(limited, options(), late).await;
    let refused = Caller::look_up(&book.store, begun.session).await;
    assert!(refused.unwrap_err().message.contains("time"));
    let begun = book.running(spec(), options(), late).await;
    let caller = Caller::look_up(&book.store, begun.session).await.unwrap();
    assert_eq!((caller.until, caller.cost_usd), (None, None));
}
