//! The audit log: rows are kept in order and never change.

use angelia_core::{
    model::{AuditAction, AuditActor, AuditEntry},
    ports::{AuditQuery, Store},
};

use super::{StoreFixture, samples::timestamp};

fn entry(second: i64, actor: AuditActor, action: AuditAction, subject: &str) -> AuditEntry {
    AuditEntry { at: timestamp(second), actor, action, subject: subject.into() }
}

async fn subjects(store: &dyn Store, query: AuditQuery) -> Vec<String> {
    let rows = store.audit(query).await.unwrap();
    rows.iter().map(|row| row.entry.subject.to_string()).collect()
}

pub async fn the_audit_is_kept_in_order(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let entries = [
        entry(30, AuditActor::Terminal, AuditAction::Key, "added `bot`"),
        // The clock was set back: the rows are ordered by their numbers.
        entry(10, AuditActor::Key("bot".into()), AuditAction::Decision, "approval 1: once → ü"),
        entry(20, AuditActor::Agent("x".into()), AuditAction::Deletion, "session 2"),
    ];
    for entry in &entries {
        store.record_audit(entry.clone()).await.unwrap();
    }
    let all = store.audit(AuditQuery::newest(10)).await.unwrap();
    let numbers: Vec<u64> = all.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [3, 2, 1]);
    for (row, entry) in all.iter().rev().zip(&entries) {
        assert_eq!(&row.entry, entry);
    }
    let page = AuditQuery { before: Some(3), ..AuditQuery::newest(1) };
    assert_eq!(subjects(&*store, page).await, ["approval 1: once → ü"]);
    let since = AuditQuery { since: Some(timestamp(20)), ..AuditQuery::newest(10) };
    assert_eq!(subjects(&*store, since).await, ["session 2", "added `bot`"]);
}
