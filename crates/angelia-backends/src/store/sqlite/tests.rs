//! Tests that need access to the store's internals: the number of transactions, a full disk, and
//! the form of the data on disk.

mod deleted_words;
mod turn_ends;

use std::{fmt::Write as _, fs, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{AuditAction, AuditActor, AuditEntry, Content, EventKind, TurnEvent, TurnRecord},
    ports::{
        ApprovalFilter, ClaimOutcome, Lease, NewTurn, Page, PendingCommit, RequestClaim, Store as _,
    },
};
use angelia_testkit::{
    any_event::any_event,
    conformance::store::{
        event, every_content, every_event, every_status, full_spec, notice, outcome, plain_session,
        plain_turn, stored_turn, timestamp,
    },
};
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

use super::{SqliteStore, content_json, event_json, open, spec_json};
use crate::owners::OwnerRegistry;

fn open_store(home: &TempDir) -> SqliteStore {
    let owner = OwnerRegistry::new(home.path().join("owners")).register("run").unwrap();
    SqliteStore::open(&home.path().join("state.db"), Arc::new(owner)).unwrap()
}

/// Counts the frames of the write-ahead log that end a transaction.
fn count_commits(home: &TempDir) -> usize {
    let log = fs::read(home.path().join("state.db-wal")).unwrap();
    let salt = &log[16..24];
    log[32..]
        .chunks_exact(24 + 4096)
        .filter(|frame| &frame[8..16] == salt && frame[4..8] != [0; 4])
        .count()
}

async fn append(store: &SqliteStore, lease: &Lease, event: TurnEvent) -> PendingCommit {
    store.append(lease, vec![event]).await.unwrap()
}

#[tokio::test]
async fn what_queues_up_shares_a_transaction() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let (lease, turn) = stored_turn(&store).await;
    let before = count_commits(&home);

    // Another writer holds the lock, so that everything queues up.
    let mut other = open::open_writable(&home.path().join("state.db")).unwrap();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let mut waiting = Vec::new();
    for seq in 1..=200 {
        waiting.push(append(&store, &lease, event(&turn, seq, notice("n"))).await);
    }
    lock.rollback().unwrap();
    for committed in waiting {
        committed.await.unwrap();
    }
    let needed = count_commits(&home) - before;
    assert!(needed <= 2, "200 appends took {needed} transactions");
}

#[tokio::test]
async fn a_full_disk_is_named_and_the_store_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let (lease, turn) = stored_turn(&store).await;
    let limit = |pages: i64| {
        store.writer.write(move |db| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            db.connection.query_row(&sql, [], |_| Ok(()))?;
            Ok(())
        })
    };
    let big = |seq| event(&turn, seq, notice(&"x".repeat(100_000)));
    append(&store, &lease, big(1)).await.await.unwrap();
    limit(1).await.unwrap();

    // Small events that fit are queued around one that does not.
    let first = append(&store, &lease, event(&turn, 2, notice("fits"))).await;
    let second = append(&store, &lease, big(3)).await;
    let third = append(&store, &lease, event(&turn, 4, notice("fits"))).await;
    first.await.unwrap();
    let error = second.await.unwrap_err().to_string();
    assert!(error.contains("disk is full") && error.contains("free some space"), "{error}");
    third.await.unwrap();
    let mut too_big = plain_turn(lease.session);
    too_big.input = vec![Content::text("x".repeat(100_000))];
    assert!(store.create_turn(&lease, &too_big.clone().into()).await.is_err());
    assert!(store.turn(too_big.id).await.unwrap().is_none());

    limit(1_000_000).await.unwrap();
    append(&store, &lease, big(5)).await.await.unwrap();
    let stored = store.replay(turn.id, 0, 100).await.unwrap();
    let stored: Vec<_> = stored.iter().map(|event| event.seq).collect();
    assert_eq!(stored, [1, 2, 4, 5]);
}

#[tokio::test]
async fn a_job_that_fails_does_not_spoil_its_group() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let (lease, turn) = stored_turn(&store).await;
    let mut other = open::open_writable(&home.path().join("state.db")).unwrap();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let stale = Lease { epoch: 0, ..lease.clone() };
    let good = append(&store, &lease, event(&turn, 1, notice("n"))).await;
    let lost = append(&store, &stale, event(&turn, 2, notice("n"))).await;
    let twice = append(&store, &lease, event(&turn, 1, notice("n"))).await;
    let better = append(&store, &lease, event(&turn, 3, notice("n"))).await;
    lock.rollback().unwrap();
    good.await.unwrap();
    assert!(lost.await.is_err() && twice.await.is_err());
    better.await.unwrap();
    assert_eq!(store.replay(turn.id, 0, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn another_writer_is_waited_for_and_then_named() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let (lease, turn) = stored_turn(&store).await;
    let impatient = store.writer.write(|db| {
        db.connection.busy_timeout(Duration::from_millis(20))?;
        Ok(())
    });
    impatient.await.unwrap();
    let mut other = open::open_writable(&home.path().join("state.db")).unwrap();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let error = store.release_lease(lease.clone()).await.unwrap_err().to_string();
    assert!(error.contains("busy") && error.contains("try again"), "{error}");
    // Reading works meanwhile, and writing works again afterwards.
    assert!(store.turn(turn.id).await.unwrap().is_some());
    lock.rollback().unwrap();
    store.release_lease(lease).await.unwrap();
}

#[tokio::test]
async fn dropping_the_store_writes_what_was_queued() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let (lease, turn): (_, TurnRecord) = stored_turn(&store).await;
    for seq in 1..=100 {
        drop(append(&store, &lease, event(&turn, seq, notice("n"))).await);
    }
    drop(store);
    let store = open_store(&home);
    assert_eq!(store.replay(turn.id, 0, 1000).await.unwrap().len(), 100);
}

#[tokio::test]
async fn an_unchanged_specification_is_not_written_again() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let mut session = plain_session();
    session.spec.system = angelia_core::model::SystemPrompt::Append("long ".repeat(100_000).into());
    store.create_session(&session).await.unwrap();
    let log = home.path().join("state.db-wal");
    let size = |log: &Path| fs::metadata(log).unwrap().len();
    let before = size(&log);
    session.title = Some("new".into());
    store.put_session(&session).await.unwrap();
    assert!(size(&log) - before < 50_000);
}

#[tokio::test]
async fn claims_whose_time_is_over_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let (lease, first) = stored_turn(&store).await;
    let claim_at = async |now: i64, window: i64| {
        let mut turn = plain_turn(lease.session);
        turn.created_at = timestamp(now);
        let claim = RequestClaim {
            caller: "owner".into(),
            key: now.to_string().into(),
            input: [0; 32],
            since: timestamp(now - window),
        };
        let new = NewTurn { claim: Some(claim), ..turn.into() };
        store.create_turn(&lease, &new).await.unwrap()
    };
    assert_eq!(claim_at(0, 100_000).await, ClaimOutcome::New);
    for now in 1..=500 {
        assert_eq!(claim_at(now, 10).await, ClaimOutcome::New);
    }
    let count = |table: &'static str| {
        store.writer.write(move |db| {
            let sql = format!("SELECT count(*) FROM {table}");
            Ok(db.connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
        })
    };
    // The claim with the long window, and those of the last ten seconds.
    assert_eq!(count("claims").await.unwrap(), 12);
    assert_eq!(count("turns").await.unwrap(), 502);
    assert!(store.turn(first.id).await.unwrap().is_some());
}

/// A file of the first schema version, with data in it, is migrated to the latest schema.
#[tokio::test]
async fn an_older_file_is_migrated() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("migrations/0001_initial.sql")).unwrap();
    old.execute_batch(
        "PRAGMA application_id = 0x416e6765; PRAGMA user_version = 1; PRAGMA journal_mode = wal;
         INSERT INTO sessions (id, revision, created_at, updated_at) VALUES (zeroblob(16), 3, 1, 1);
         INSERT INTO specs (session_id, body) SELECT id, '' FROM sessions;
         INSERT INTO leases (session_id, owner, epoch) SELECT id, 'gone', 7 FROM sessions;
         INSERT INTO turns (id, session_id, created_at, state, origin, can_ask)
            SELECT zeroblob(16), id, 1, 'running', 'owner', 1 FROM sessions;
         INSERT INTO inputs (turn_id, body) VALUES (zeroblob(16), '[]');",
    )
    .unwrap();
    drop(old);
    let store = open_store(&home);
    assert_eq!(store.lost_turns().await.unwrap().len(), 1);
    let every = store.approvals(ApprovalFilter::All, Page::first(9)).await;
    assert!(every.unwrap().is_empty());
    let (lease, _) = stored_turn(&store).await;
    let claim = RequestClaim {
        caller: "owner".into(),
        key: "k".into(),
        input: [0; 32],
        since: timestamp(0),
    };
    let turn = plain_turn(lease.session);
    let new = NewTurn { claim: Some(claim), ..turn.into() };
    let claimed = store.create_turn(&lease, &new).await.unwrap();
    assert_eq!(claimed, ClaimOutcome::New);
}

#[tokio::test]
async fn a_row_of_the_audit_cannot_be_changed_or_deleted() {
    let home = tempfile::tempdir().unwrap();
    let store = open_store(&home);
    let entry = AuditEntry {
        at: timestamp(1),
        actor: AuditActor::Terminal,
        action: AuditAction::Key,
        subject: "added `bot`".into(),
    };
    store.record_audit(entry).await.unwrap();
    let other = Connection::open(home.path().join("state.db")).unwrap();
    for sql in ["UPDATE audit SET subject = ''", "DELETE FROM audit"] {
        let refused = other.execute(sql, []).unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
}

/// Pins the bytes on disk. A change here means that files of the last version are read differently.
#[test]
fn events_have_a_known_form() {
    let lines = every_event().into_iter().map(|kind| {
        let mut body = Vec::new();
        let word = event_json::encode(&kind, &mut body).unwrap();
        format!("{word} {}\n", String::from_utf8(body).unwrap())
    });
    insta::assert_snapshot!(lines.collect::<String>());
}

#[test]
fn specifications_have_a_known_form() {
    let mut body = Vec::new();
    spec_json::encode(&full_spec(), &mut body).unwrap();
    insta::assert_snapshot!(String::from_utf8(body).unwrap());
}

#[test]
fn outcomes_have_a_known_form() {
    let lines = every_status().into_iter().map(|status| {
        let mut body = Vec::new();
        event_json::encode(&EventKind::Finished(outcome(status)), &mut body).unwrap();
        format!("{}\n", String::from_utf8(body).unwrap())
    });
    insta::assert_snapshot!(lines.collect::<String>());
}

#[test]
fn inputs_have_a_known_form() {
    insta::assert_snapshot!(content_json::encode(&every_content()).unwrap());
}

/// Bodies that version 0.1.0 wrote are written again byte for byte.
#[test]
fn the_bodies_of_the_baseline_keep_their_bytes() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/baseline-0.1.0");
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    fs::copy(fixture.join("state.db"), &path).unwrap();
    let database = Connection::open(path).unwrap();
    let rows = |sql: &str| -> Vec<(String, String)> {
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();

    let events = rows("SELECT kind, body FROM events");
    assert!(events.len() > 100);
    for (kind, body) in events {
        let mut again = Vec::new();
        let event = event_json::decode(event_json::FORMAT_VERSION, &kind, &body);
        assert_eq!(event_json::encode(&event, &mut again).unwrap(), kind);
        assert_eq!(text(again), body);
    }
    for (_, body) in rows("SELECT '', body FROM specs") {
        let mut again = Vec::new();
        spec_json::encode(&spec_json::decode(&body).unwrap(), &mut again).unwrap();
        assert_eq!(text(again), body);
    }
    for (_, body) in rows("SELECT '', body FROM inputs") {
        assert_eq!(content_json::encode(&content_json::decode(&body).unwrap()).unwrap(), body);
    }
}

proptest::proptest! {
    #[test]
    fn an_event_that_was_written_is_read_back(kind in any_event()) {
        let mut body = Vec::new();
        let word = event_json::encode(&kind, &mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        let again = event_json::decode(event_json::FORMAT_VERSION, word, &body);
        proptest::prop_assert_eq!(format!("{again:?}"), format!("{kind:?}"));
    }
}

/// Fields that may be missing, `null` or of an unknown value, as read by every version so far.
#[test]
fn bodies_of_other_versions_are_read_as_they_always_were() {
    let bodies = [
        ("started", r#"{"profile":"p","executor":"e","resumed":true,"warm":false,"more":1}"#),
        (
            "started",
            r#"{"profile":"p","executor":"e","model":null,"native":null,"resumed":true,"warm":false}"#,
        ),
        ("started", r#"{"profile":"p","executor":"e"}"#),
        ("tool_call", r#"{"id":"1","name":"n","class":"read","title":"t","input":{ "a" : 1 }}"#),
        ("tool_call", r#"{"id":"1","name":"n","class":"dream","title":"t","input":null}"#),
        ("plan", r#"[{"text":"a","status":"pending"}]"#),
        ("plan", r#"[{"text":"a","status":"dream"}]"#),
        (
            "approval",
            r#"{"id":"00000000-0000-0000-0000-000000000003","tool_name":"n","title":"t","detail":"d","expires_at":"2026-11-15T12:00:00Z","questions":null}"#,
        ),
        (
            "approval",
            r#"{"id":"00000000-0000-0000-0000-000000000003","tool_name":"n","title":"t","detail":"d","expires_at":"2026-11-15T12:00:00Z","questions":[]}"#,
        ),
        (
            "approval",
            r#"{"id":"x","tool_name":"n","title":"t","detail":"d","expires_at":"2026-11-15T12:00:00Z"}"#,
        ),
        ("resolved", r#"{"id":"00000000-0000-0000-0000-000000000003","verdict":"dream","by":"b"}"#),
        ("usage", "{}"),
        ("usage", r#"{"cost_usd":null,"lane":null,"prefix_sha256":null,"context":null}"#),
        ("usage", r#"{"cost_usd":"much","context":{"used":1,"size":2,"more":3}}"#),
        ("notice", r#"{"level":"warning","code":"c","text":"t"}"#),
        ("notice", r#"{"level":"warning","code":"c","text":"t"} "#),
        ("notice", r#"{"level":"warning","code":"c","text":"t"}x"#),
        ("finished", r#"{"status":"completed"}"#),
        (
            "finished",
            r#"{"status":"dream","failure":{"kind":"dream","message":"m","retry_after":{"secs":1,"nanos":5}}}"#,
        ),
        (
            "finished",
            r#"{"status":"failed","failure":{"kind":"auth","message":"m","hint":null,"retry_after":null},"usage":{"input":1}}"#,
        ),
        ("finished", r#"{"status":"parked","text":"t","reason":"r"}"#),
    ];
    let lines = bodies.map(|(kind, body)| {
        let event = event_json::decode(event_json::FORMAT_VERSION, kind, body);
        format!("{kind} {body}\n  {event:?}\n")
    });
    insta::assert_snapshot!(lines.concat());
}

#[test]
fn specifications_of_other_versions_are_read_as_they_always_were() {
    let mut full = Vec::new();
    spec_json::encode(&full_spec(), &mut full).unwrap();
    let full: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&full).unwrap();
    let mut text = String::new();
    let mut read = |name: &str, spec: &serde_json::Map<String, serde_json::Value>| {
        let json = serde_json::to_string(spec).unwrap();
        let readable = spec_json::decode(&json).is_ok();
        writeln!(text, "{name}: {readable}").unwrap();
    };
    for name in full.keys() {
        let mut spec = full.clone();
        spec.shift_remove(name);
        read(&format!("without {name}"), &spec);
        spec.insert(name.clone(), serde_json::Value::Null);
        read(&format!("with null as {name}"), &spec);
        spec.insert(name.clone(), "dream".into());
        read(&format!("with a word as {name}"), &spec);
    }
    let mut spec = full;
    spec.insert("more".to_owned(), 1.into());
    read("with another field", &spec);
    spec.insert("version".to_owned(), 2.into());
    read("with a later version", &spec);
    insta::assert_snapshot!(text);
}
