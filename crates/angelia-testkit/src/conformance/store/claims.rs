//! Idempotency: exactly one of any number of equal requests creates the turn.

use std::time::Duration;

use angelia_core::{
    model::TurnRecord,
    ports::{ClaimOutcome, HistoryEntry, Lease, NewTurn, Page, RequestClaim, Store, StoreError},
};
use tokio::task::JoinSet;

use super::{
    StoreFixture,
    samples::{assert_same_debug, fresh_uuid, owned_session, plain_turn, stored_turn, timestamp},
};

/// Returns a claim made at second `now` by a caller whose window is 100 seconds.
fn claim(caller: &str, key: &str, input: u8, now: i64) -> RequestClaim {
    RequestClaim {
        caller: caller.into(),
        key: key.into(),
        input: [input; 32],
        since: timestamp(now - 100),
    }
}

fn turn_at(lease: &Lease, now: i64) -> TurnRecord {
    TurnRecord { created_at: timestamp(now), ..plain_turn(lease.session) }
}

async fn create_turn_once(
    store: &dyn Store,
    lease: &Lease,
    turn: &TurnRecord,
    claim: &RequestClaim,
) -> Result<ClaimOutcome, StoreError> {
    let new = NewTurn { claim: Some(claim.clone()), ..turn.clone().into() };
    store.create_turn(lease, &new).await
}

/// Claims at second `now`. Asserts that the turn is stored if and only if the claim is new.
async fn claim_at(
    store: &dyn Store,
    lease: &Lease,
    claim: &RequestClaim,
    now: i64,
) -> (TurnRecord, ClaimOutcome) {
    let turn = turn_at(lease, now);
    let claimed = create_turn_once(store, lease, &turn, claim).await.unwrap();
    let stored = store.turn(turn.id).await.unwrap();
    assert_eq!(stored.is_some(), claimed == ClaimOutcome::New, "{claimed:?}");
    (turn, claimed)
}

pub async fn a_repeated_request_is_its_first_turn(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let asked = claim("owner", "key → \0 ", 1, 0);
    assert_eq!(store.check_claim(&asked).await.unwrap(), ClaimOutcome::New);
    let (first, claimed) = claim_at(&*store, &lease, &asked, 0).await;
    assert_eq!(claimed, ClaimOutcome::New);
    assert_same_debug(&store.turn(first.id).await.unwrap(), &Some(first.clone()));
    for now in [0, 1, 50] {
        let (_, claimed) = claim_at(&*store, &lease, &asked, now).await;
        assert_eq!(claimed, ClaimOutcome::Repeats(first.id));
    }
    let other_input = RequestClaim { input: [2; 32], ..asked.clone() };
    let (_, claimed) = claim_at(&*store, &lease, &other_input, 2).await;
    assert_eq!(claimed, ClaimOutcome::Conflicts(first.id));
    let repeats = ClaimOutcome::Repeats(first.id);
    assert_eq!(store.check_claim(&asked).await.unwrap(), repeats);
    assert_eq!(store.check_claim(&other_input).await.unwrap(), claimed);
    let later = RequestClaim { since: timestamp(1), ..asked.clone() };
    assert_eq!(store.check_claim(&later).await.unwrap(), ClaimOutcome::New, "forgotten");

    // The key also applies in another session of the same caller.
    let elsewhere = owned_session(&*store).await;
    let (_, claimed) = claim_at(&*store, &elsewhere, &asked, 3).await;
    assert_eq!(claimed, ClaimOutcome::Repeats(first.id));
    assert_eq!(store.turns(None, Page::first(9)).await.unwrap().len(), 1);
}

pub async fn callers_never_share_a_key(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    for (caller, key) in [("a", "k"), ("b", "k"), ("a", "K"), ("ak", ""), ("", "ak")] {
        let (_, claimed) = claim_at(&*store, &lease, &claim(caller, key, 1, 0), 0).await;
        assert_eq!(claimed, ClaimOutcome::New, "{caller} {key}");
    }
}

pub async fn a_claim_is_forgotten_after_its_time(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let at = async |now: i64, input: u8| {
        let claim = claim("owner", "k", input, now);
        claim_at(&*store, &lease, &claim, now).await
    };
    let (first, _) = at(0, 1).await;
    assert_eq!(at(100, 1).await.1, ClaimOutcome::Repeats(first.id));
    // After the window, the key is free again, even for a different input.
    let (second, claimed) = at(101, 2).await;
    assert_eq!(claimed, ClaimOutcome::New);
    assert_eq!(at(150, 1).await.1, ClaimOutcome::Conflicts(second.id));
    assert_eq!(at(201, 2).await.1, ClaimOutcome::Repeats(second.id));
    assert!(store.turn(first.id).await.unwrap().is_some());
}

/// Checks that a claim with a shorter window does not expire another caller's claim.
pub async fn windows_do_not_shorten_each_other(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let long = claim("owner", "long", 1, 0);
    let (kept, _) = claim_at(&*store, &lease, &long, 0).await;
    let for_ever =
        RequestClaim { key: "for ever".into(), since: jiff::Timestamp::MIN, ..long.clone() };
    let (eternal, _) = claim_at(&*store, &lease, &for_ever, 0).await;
    for now in 1..=90 {
        let short = RequestClaim {
            key: now.to_string().into(),
            since: timestamp(now) - Duration::from_secs(1),
            ..long.clone()
        };
        let (_, claimed) = claim_at(&*store, &lease, &short, now).await;
        assert_eq!(claimed, ClaimOutcome::New);
    }
    let later = claim("owner", "long", 1, 95);
    let (_, claimed) = claim_at(&*store, &lease, &later, 95).await;
    assert_eq!(claimed, ClaimOutcome::Repeats(kept.id));
    let (_, claimed) = claim_at(&*store, &lease, &for_ever, 1_000_000).await;
    assert_eq!(claimed, ClaimOutcome::Repeats(eternal.id));
}

pub async fn a_refused_turn_leaves_no_claim(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, existing) = stored_turn(&*store).await;
    let asked = claim("owner", "k", 1, 0);
    let twice = create_turn_once(&*store, &lease, &existing, &asked).await;
    assert!(matches!(twice, Err(StoreError::Conflict)), "{twice:?}");
    let stale = Lease { epoch: lease.epoch + 1, ..lease.clone() };
    let turn = turn_at(&lease, 0);
    let lost = create_turn_once(&*store, &stale, &turn, &asked).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost)), "{lost:?}");
    let foreign = plain_turn(owned_session(&*store).await.session);
    let lost = create_turn_once(&*store, &lease, &foreign, &asked).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost)), "{lost:?}");

    let (_, claimed) = claim_at(&*store, &lease, &asked, 0).await;
    assert_eq!(claimed, ClaimOutcome::New);
    // A process that has lost the session's lease does not learn about its turns either.
    let lost = create_turn_once(&*store, &stale, &turn, &asked).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost)), "{lost:?}");
}

/// Checks that only the turn of the first request is indexed by its history, in the same
/// transaction.
pub async fn a_new_turn_is_found_by_its_history(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let asked = claim("owner", "k", 1, 0);
    let request = || NewTurn {
        claim: Some(asked.clone()),
        history_hash: Some([7; 32]),
        ..turn_at(&lease, 0).into()
    };
    let first = request();
    assert_eq!(store.create_turn(&lease, &first).await.unwrap(), ClaimOutcome::New);
    let repeats = ClaimOutcome::Repeats(first.record.id);
    assert_eq!(store.create_turn(&lease, &request()).await.unwrap(), repeats);
    let entry = HistoryEntry {
        hash: [7; 32],
        session: lease.session,
        turn: first.record.id,
        seq: 0,
        at: timestamp(0),
    };
    assert_eq!(store.find_by_history([7; 32], 9).await.unwrap(), [entry]);
}

pub async fn of_many_equal_requests_one_creates_the_turn(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let mut tries = JoinSet::new();
    for _ in 0..50 {
        let (store, lease) = (store.clone(), lease.clone());
        tries.spawn(async move {
            let turn = plain_turn(lease.session);
            let asked = claim("owner", "k", 1, 0);
            let claimed = create_turn_once(&*store, &lease, &turn, &asked).await;
            (turn.id, claimed.unwrap())
        });
    }
    let tries = tries.join_all().await;
    let new: Vec<_> = tries.iter().filter(|(_, claimed)| *claimed == ClaimOutcome::New).collect();
    assert_eq!(new.len(), 1, "{tries:?}");
    let winner = new[0].0;
    for (turn, claimed) in &tries {
        assert!(*turn == winner || *claimed == ClaimOutcome::Repeats(winner));
    }
    let turns = store.turns(None, Page::first(100)).await.unwrap();
    assert_eq!(turns.iter().map(|turn| turn.id).collect::<Vec<_>>(), [winner]);
}

/// Checks that processes that own different sessions still share the callers' keys.
pub async fn of_many_processes_one_creates_the_turn(fixture: &impl StoreFixture) {
    if !fixture.is_shared() {
        return;
    }
    let mut tries = JoinSet::new();
    for _ in 0..4 {
        let store = fixture.open();
        let lease = owned_session(&*store).await;
        for _ in 0..10 {
            let (store, lease) = (store.clone(), lease.clone());
            tries.spawn(async move {
                let turn = plain_turn(lease.session);
                let asked = claim("owner", "k", 1, 0);
                create_turn_once(&*store, &lease, &turn, &asked).await.unwrap()
            });
        }
    }
    let tries = tries.join_all().await;
    let new = tries.iter().filter(|claimed| **claimed == ClaimOutcome::New);
    assert_eq!(new.count(), 1, "{tries:?}");
    let turns = fixture.open().turns(None, Page::first(100)).await.unwrap();
    assert_eq!(turns.len(), 1);
    let repeats = ClaimOutcome::Repeats(turns[0].id);
    let known = tries.iter().filter(|claimed| **claimed == repeats);
    assert_eq!(known.count(), 39);
}

pub async fn claims_survive_the_process(fixture: &impl StoreFixture) {
    if !fixture.is_shared() {
        return;
    }
    let dead = fixture.open();
    let lease = owned_session(&*dead).await;
    let asked = claim("owner", "k", 1, 0);
    let (first, _) = claim_at(&*dead, &lease, &asked, 0).await;
    drop(dead);
    let store = fixture.open();
    let lease = store.acquire_lease(lease.session).await.unwrap();
    let (_, claimed) = claim_at(&*store, &lease, &asked, 1).await;
    assert_eq!(claimed, ClaimOutcome::Repeats(first.id));
    store.release_lease(lease).await.unwrap();
    store.close().await;
    let store = fixture.open();
    let other = owned_session(&*store).await;
    let (_, claimed) = claim_at(&*store, &other, &asked, 1).await;
    assert_eq!(claimed, ClaimOutcome::Repeats(first.id));
}

pub async fn claims_go_with_their_session(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (gone, kept) = (owned_session(&*store).await, owned_session(&*store).await);
    let unique = fresh_uuid().to_string();
    claim_at(&*store, &gone, &claim("owner", &unique, 1, 0), 0).await;
    let (stays, _) = claim_at(&*store, &kept, &claim("owner", "stays", 1, 0), 0).await;
    store.delete_session(gone.session).await.unwrap();
    let (_, claimed) = claim_at(&*store, &kept, &claim("owner", &unique, 2, 0), 0).await;
    assert_eq!(claimed, ClaimOutcome::New);
    let (_, claimed) = claim_at(&*store, &kept, &claim("owner", "stays", 1, 0), 0).await;
    assert_eq!(claimed, ClaimOutcome::Repeats(stays.id));
}
