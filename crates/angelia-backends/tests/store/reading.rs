//! A store that a process opens to read.

use std::fs;

use angelia_backends::store::SqliteStore;
use angelia_core::{
    model::{AuditAction, AuditActor, AuditEntry},
    ports::{AuditQuery, Page, ScheduleStore as _, Store as _},
};
use angelia_testkit::conformance::store::{assert_same_debug, plain_session};
use jiff::Timestamp;

use crate::{baseline::copy_of_baseline, home::TempHome};

fn open_for_reading(home: &TempHome) -> SqliteStore {
    SqliteStore::open_for_reading(&home.database_path(), &home.owners(), "show").unwrap()
}

fn count_owners(home: &TempHome) -> usize {
    fs::read_dir(home.path().join("run/owners")).map_or(0, Iterator::count)
}

fn audit_entry() -> AuditEntry {
    AuditEntry {
        at: Timestamp::now(),
        actor: AuditActor::Terminal,
        action: AuditAction::Configuration,
        subject: "a setting".into(),
    }
}

#[tokio::test]
async fn reading_makes_no_owner_and_the_first_write_does() {
    let home = TempHome::new();
    let session = plain_session();
    let writer = home.open();
    writer.create_session(&session).await.unwrap();
    writer.close().await;
    drop(writer);
    assert_eq!(count_owners(&home), 0);

    let store = open_for_reading(&home);
    assert_same_debug(&store.sessions(Page::first(9)).await.unwrap(), &vec![session]);
    assert!(store.lost_turns().await.unwrap().is_empty());
    assert_eq!(count_owners(&home), 0);

    store.record_audit(audit_entry()).await.unwrap();
    store.record_audit(audit_entry()).await.unwrap();
    assert_eq!(count_owners(&home), 1);
    let audit = AuditQuery::newest(9);
    assert_eq!(store.audit(audit).await.unwrap().len(), 2);
    drop(store);
    assert_eq!(count_owners(&home), 0);
}

#[tokio::test]
async fn a_closed_store_does_not_begin_to_write() {
    let home = TempHome::new();
    drop(home.open());
    let store = open_for_reading(&home);
    store.close().await;
    let refused = store.record_audit(audit_entry()).await.unwrap_err().to_string();
    assert!(refused.contains("has been closed"), "{refused}");
    assert_eq!(count_owners(&home), 0);
}

#[tokio::test]
async fn a_file_that_is_missing_or_old_is_created_or_migrated() {
    let missing = TempHome::new();
    let store = open_for_reading(&missing);
    assert!(store.sessions(Page::first(9)).await.unwrap().is_empty());

    let old = copy_of_baseline();
    let store = open_for_reading(&old);
    assert!(!store.sessions(Page::first(9)).await.unwrap().is_empty());
    assert!(store.schedules().await.unwrap().is_empty());
}

#[test]
fn a_file_of_another_program_is_refused() {
    let home = TempHome::new();
    let other = rusqlite::Connection::open(home.database_path()).unwrap();
    other.execute_batch("CREATE TABLE theirs (a); PRAGMA user_version = 10;").unwrap();
    let opened = SqliteStore::open_for_reading(&home.database_path(), &home.owners(), "show");
    let refused = opened.unwrap_err().to_string();
    assert!(refused.contains("database of another program"), "{refused}");
}
