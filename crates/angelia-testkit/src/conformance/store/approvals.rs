//! Approvals: the store lists them from the events that request and decide them.

use std::sync::Arc;

use angelia_core::{
    model::{
        Approval, ApprovalId, ApprovalKind, ApprovalRecord, EventKind, Resolution, Seq, TurnEvent,
        TurnRecord, Verdict,
    },
    ports::{ApprovalFilter, Lease, Page, Store},
};

use super::{
    StoreFixture,
    samples::{
        approval, assert_same_debug, event, finished, fresh_uuid, notice, questions, stored_turn,
    },
};

fn fresh_approval(kind: ApprovalKind) -> Approval {
    Approval { id: ApprovalId::from_uuid(fresh_uuid()), ..approval(kind) }
}

fn resolution(id: ApprovalId, verdict: Verdict, by: &str) -> Resolution {
    Resolution { id, verdict, by: by.into() }
}

fn record(asked: &TurnEvent, turn: &TurnRecord) -> ApprovalRecord {
    let EventKind::Approval(approval) = &asked.kind else {
        unreachable!("a question was asked: {asked:?}");
    };
    ApprovalRecord {
        approval: approval.clone(),
        session: turn.session,
        turn: turn.id,
        requested_at: asked.at,
        resolution: None,
    }
}

async fn append(store: &dyn Store, lease: &Lease, events: Vec<TurnEvent>) {
    let append = store.append(lease, events).await.unwrap();
    append.await.unwrap();
}

/// Appends a new approval request as the event with this number.
async fn ask(store: &dyn Store, lease: &Lease, turn: &TurnRecord, seq: Seq) -> ApprovalRecord {
    let kind = EventKind::Approval(fresh_approval(ApprovalKind::Tool));
    let asked = event(turn, seq, kind);
    let record = record(&asked, turn);
    append(store, lease, vec![asked]).await;
    record
}

async fn list(store: &dyn Store, which: ApprovalFilter) -> Vec<ApprovalRecord> {
    store.approvals(which, Page::first(100)).await.unwrap()
}

pub async fn approvals_are_listed_until_they_are_decided(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    assert_same_debug(&list(&*store, ApprovalFilter::All).await, &[(); 0]);
    let tool = fresh_approval(ApprovalKind::Tool);
    let question = fresh_approval(ApprovalKind::Question(questions()));
    let asked = [
        event(&turn, 1, EventKind::Approval(tool)),
        event(&turn, 5, EventKind::Approval(question)),
    ];
    let mut tool = record(&asked[0], &turn);
    let mut question = record(&asked[1], &turn);
    let between = event(&turn, 2, notice("n"));
    let [first, second] = asked;
    append(&*store, &lease, vec![first, between, second]).await;
    for which in [ApprovalFilter::Pending, ApprovalFilter::All] {
        assert_same_debug(&list(&*store, which).await, &[question.clone(), tool.clone()]);
    }

    let decided = resolution(tool.approval.id, Verdict::Session, "owner → 世界");
    let mut end = event(&turn, 6, EventKind::Resolved(decided.clone()));
    end.at = super::timestamp(77);
    tool.resolution = Some((decided, end.at));
    append(&*store, &lease, vec![end]).await;
    assert_same_debug(&list(&*store, ApprovalFilter::Pending).await, &[question.clone()]);
    assert_same_debug(&list(&*store, ApprovalFilter::All).await, &[question.clone(), tool.clone()]);

    // The end of the turn decides the remaining approvals in the same append.
    let declined = resolution(question.approval.id, Verdict::Deny, "turn ended");
    let end = event(&turn, 7, EventKind::Resolved(declined.clone()));
    question.resolution = Some((declined, end.at));
    append(&*store, &lease, vec![end, event(&turn, 8, finished())]).await;
    assert_same_debug(&list(&*store, ApprovalFilter::Pending).await, &[(); 0]);
    assert_same_debug(&list(&*store, ApprovalFilter::All).await, &[question, tool]);
}

pub async fn the_first_decision_stays(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let mut asked = ask(&*store, &lease, &turn, 1).await;
    let id = asked.approval.id;
    let first = resolution(id, Verdict::Once, "owner");
    let one = event(&turn, 2, EventKind::Resolved(first.clone()));
    asked.resolution = Some((first, one.at));
    let late = EventKind::Resolved(resolution(id, Verdict::Stop, "late"));
    let unknown = ApprovalId::from_uuid(fresh_uuid());
    let unknown = EventKind::Resolved(resolution(unknown, Verdict::Deny, "nobody"));
    let events = vec![one, event(&turn, 3, late), event(&turn, 4, unknown)];
    append(&*store, &lease, events).await;
    // Another turn cannot decide an approval, and the same approval is not counted twice.
    let (other_lease, other) = stored_turn(&*store).await;
    let foreign = ask(&*store, &other_lease, &other, 1).await;
    let wrong = EventKind::Resolved(resolution(foreign.approval.id, Verdict::Once, "thief"));
    let again = EventKind::Approval(asked.approval.clone());
    let events = vec![event(&turn, 5, wrong), event(&turn, 6, again)];
    append(&*store, &lease, events).await;
    assert_same_debug(&list(&*store, ApprovalFilter::All).await, &[foreign.clone(), asked]);
    assert_same_debug(&list(&*store, ApprovalFilter::Pending).await, &[foreign]);
}

pub async fn a_refused_append_asks_nothing(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let asked = ask(&*store, &lease, &turn, 1).await;
    let bad = vec![
        event(&turn, 2, EventKind::Approval(fresh_approval(ApprovalKind::Tool))),
        event(&turn, 3, EventKind::Resolved(resolution(asked.approval.id, Verdict::Once, "owner"))),
        event(&turn, 1, notice("again")),
    ];
    let refused = store.append(&lease, bad).await.unwrap().await;
    assert!(refused.is_err(), "{refused:?}");
    assert_same_debug(&list(&*store, ApprovalFilter::All).await, &[asked]);
}

pub async fn approvals_are_paged_newest_first(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let mut asked = Vec::new();
    for seq in 1..=6 {
        asked.insert(0, ask(&*store, &lease, &turn, seq).await);
    }
    let decided = resolution(asked[2].approval.id, Verdict::Deny, "owner");
    let end = event(&turn, 7, EventKind::Resolved(decided.clone()));
    asked[2].resolution = Some((decided, end.at));
    append(&*store, &lease, vec![end]).await;

    for (which, expected) in [
        (ApprovalFilter::All, asked.clone()),
        (
            ApprovalFilter::Pending,
            asked.iter().filter(|one| one.resolution.is_none()).cloned().collect(),
        ),
    ] {
        for limit in [1, 2, 5, 6, 7] {
            let mut seen: Vec<ApprovalRecord> = Vec::new();
            loop {
                let before = seen.last().map(|last| last.approval.id.as_uuid());
                let page = store.approvals(which, Page { limit, before }).await.unwrap();
                assert!(page.len() <= limit);
                if page.is_empty() {
                    break;
                }
                seen.extend(page);
            }
            assert_same_debug(&seen, &expected);
        }
    }
}

pub async fn approvals_of_a_deleted_session_vanish(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    ask(&*store, &lease, &turn, 1).await;
    let (other, kept) = stored_turn(&*store).await;
    let kept = ask(&*store, &other, &kept, 1).await;
    store.delete_session(lease.session).await.unwrap();
    for which in [ApprovalFilter::Pending, ApprovalFilter::All] {
        assert_same_debug(&list(&*store, which).await, &[&kept]);
    }
}

pub async fn approvals_survive_the_process(fixture: &impl StoreFixture) {
    if !fixture.is_shared() {
        return;
    }
    let dead = fixture.open();
    let (lease, turn) = stored_turn(&*dead).await;
    let mut asked = ask(&*dead, &lease, &turn, 1).await;
    // Other processes see the approvals while their owner lives.
    let store: Arc<dyn Store> = fixture.open();
    assert_same_debug(&list(&*store, ApprovalFilter::Pending).await, &[asked.clone()]);
    drop(dead);
    assert_same_debug(&list(&*store, ApprovalFilter::Pending).await, &[asked.clone()]);
    let lease = store.acquire_lease(lease.session).await.unwrap();
    let declined = resolution(asked.approval.id, Verdict::Deny, "restart");
    let end = event(&turn, 2, EventKind::Resolved(declined.clone()));
    asked.resolution = Some((declined, end.at));
    append(&*store, &lease, vec![end]).await;
    drop(store);
    let store = fixture.open();
    assert_same_debug(&list(&*store, ApprovalFilter::Pending).await, &[(); 0]);
    assert_same_debug(&list(&*store, ApprovalFilter::All).await, &[asked]);
}
