//! Connections that are cut where it hurts: between a commit and its answer.

use std::path::PathBuf;

use angelia_backends::store::PostgresStore;
use angelia_core::{
    model::{AuditAction, AuditActor, AuditEntry, ExternalName, GrantRule, StoredRule},
    ports::{AuditQuery, ClaimOutcome, NewTurn, RequestClaim, Store as _},
};
use angelia_testkit::{
    conformance::store::{
        event, finished, fresh_uuid, notice, owned_session, plain_session, plain_turn, stored_turn,
        timestamp,
    },
    fault_proxy::{Fault, FaultProxy},
    postgres_server::socket_path,
};
use tempfile::TempDir;

use super::database::TestDatabase;

/// The bytes that end every transaction.
const COMMIT: &[u8] = b"COMMIT";

/// A store behind a proxy.
struct ProxiedStore {
    store: PostgresStore,
    proxy: FaultProxy,
    database: TestDatabase,
    _folder: TempDir,
}

impl ProxiedStore {
    fn new() -> Self {
        let database = TestDatabase::new();
        let folder = tempfile::tempdir().unwrap();
        let server: PathBuf = socket_path(database.server.socket_folder());
        let proxy = FaultProxy::start(&socket_path(folder.path()), &server).unwrap();
        let store = database.try_open(folder.path(), &TestDatabase::machine("one")).unwrap();
        Self { store, proxy, database, _folder: folder }
    }
}

fn audit_entry(subject: &str) -> AuditEntry {
    AuditEntry {
        at: timestamp(0),
        actor: AuditActor::Terminal,
        action: AuditAction::Deletion,
        subject: subject.into(),
    }
}

/// Both when the commit has arrived and when it has not, the events are there once.
#[tokio::test]
async fn an_append_whose_answer_is_lost_is_looked_up() {
    let proxied = ProxiedStore::new();
    let store = &proxied.store;
    let (lease, turn) = stored_turn(store).await;
    let faults = [Fault::LoseAnswer, Fault::LoseRequest, Fault::LoseAnswer, Fault::LoseAnswer];
    for (seq, fault) in (1..).zip(faults) {
        proxied.proxy.plan(fault, COMMIT);
        let append = store.append(&lease, vec![event(&turn, seq, notice("n"))]);
        append.await.unwrap().await.unwrap();
        proxied.proxy.wait_for(usize::try_from(seq).unwrap()).unwrap();
    }
    let last = store.append(&lease, vec![event(&turn, 5, finished())]);
    last.await.unwrap().await.unwrap();
    let seqs: Vec<_> =
        store.replay(turn.id, 0, 99).await.unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
}

/// The bytes of a lost connection arrive after the same has been written on another one.
#[tokio::test]
async fn a_commit_that_arrives_late_changes_nothing() {
    let proxied = ProxiedStore::new();
    let store = &proxied.store;
    owned_session(store).await;
    for round in 1..=3 {
        proxied.proxy.plan(Fault::Delay, COMMIT);
        // Nothing but the ledger keeps a row of the audit from being added twice.
        store.record_audit(audit_entry(&round.to_string())).await.unwrap();
        proxied.proxy.wait_for(round).unwrap();
        proxied.proxy.deliver();
    }
    let rows = store.audit(AuditQuery::newest(99)).await.unwrap();
    let subjects: Vec<_> = rows.iter().map(|row| &*row.entry.subject).collect();
    assert_eq!(subjects, ["3", "2", "1"]);
}

/// Whoever gets an answer of the second connection gets the one of the attempt that was committed.
#[tokio::test]
async fn a_lost_answer_does_not_lose_the_result() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let proxied = ProxiedStore::new();
        let (store, proxy) = (&proxied.store, &proxied.proxy);
        let mut faults = 0;
        let mut plan = || {
            proxy.plan(fault, COMMIT);
            faults += 1;
            faults
        };
        let session = plain_session();
        store.create_session(&session).await.unwrap();

        let happens = plan();
        let lease = store.acquire_lease(session.id).await.unwrap();
        proxy.wait_for(happens).unwrap();
        assert_eq!(lease.epoch, 1, "{fault:?}");

        let turn = plain_turn(session.id);
        let claim = RequestClaim {
            caller: "owner".into(),
            key: "k".into(),
            input: [1; 32],
            since: timestamp(-100),
        };
        let new = NewTurn { claim: Some(claim), ..turn.clone().into() };
        let happens = plan();
        assert_eq!(store.create_turn(&lease, &new).await.unwrap(), ClaimOutcome::New);
        proxy.wait_for(happens).unwrap();

        let happens = plan();
        assert_eq!(store.put_session(&session).await.unwrap(), session.revision + 1);
        proxy.wait_for(happens).unwrap();

        let name = ExternalName { scope: "bus".into(), name: "n".into() };
        let happens = plan();
        assert_eq!(store.bind_name(&name, session.id).await.unwrap(), session.id);
        proxy.wait_for(happens).unwrap();

        let rule = StoredRule {
            id: fresh_uuid(),
            profile: "p".into(),
            cwd: "/project".into(),
            rule: GrantRule::Exact { tool: "t".into(), subject: "s".into() },
            created_at: timestamp(0),
            by: "owner".into(),
        };
        store.add_rule(&rule).await.unwrap();
        let happens = plan();
        assert!(store.remove_rule(rule.id).await.unwrap(), "{fault:?}");
        proxy.wait_for(happens).unwrap();

        let listed = proxied.database.value("SELECT turns FROM sessions");
        assert_eq!(listed, "1", "the turn is counted once, {fault:?}");
    }
}

/// The server still holds the locks of a connection that is gone, until it notices.
#[tokio::test]
async fn a_transaction_that_hangs_in_the_server_is_waited_for() {
    let proxied = ProxiedStore::new();
    let session = plain_session();
    proxied.store.create_session(&session).await.unwrap();
    proxied.proxy.plan(Fault::Delay, COMMIT);
    let lease = proxied.store.acquire_lease(session.id).await.unwrap();
    proxied.proxy.wait_for(1).unwrap();
    proxied.proxy.deliver();
    assert_eq!(lease.epoch, 1);
    assert_eq!(proxied.database.value("SELECT epoch FROM leases"), "1");
}

#[tokio::test]
async fn a_short_outage_is_waited_out() {
    let proxied = ProxiedStore::new();
    let store = &proxied.store;
    let (lease, turn) = stored_turn(store).await;
    let other = plain_session();
    store.create_session(&other).await.unwrap();
    proxied.proxy.block();
    let append = store.append(&lease, vec![event(&turn, 1, notice("n"))]).await.unwrap();
    let acquire = store.acquire_lease(other.id);
    let read = store.turn(turn.id);
    let wait_and_unblock = async {
        // Each of the three has found the door closed.
        while proxied.proxy.refused() < 6 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        proxied.proxy.unblock();
    };
    let (appended, acquired, read, ()) = tokio::join!(append, acquire, read, wait_and_unblock);
    appended.unwrap();
    assert_eq!(acquired.unwrap().epoch, 1);
    assert_eq!(read.unwrap().unwrap().id, turn.id);
}

/// The database says less than it had confirmed, as a standby that was behind would.
#[tokio::test]
async fn a_database_that_lost_commits_gets_no_more() {
    let proxied = ProxiedStore::new();
    let store = &proxied.store;
    let (lease, turn) = stored_turn(store).await;
    proxied.database.query("UPDATE owners SET batch = batch - 1");
    let append = store.append(&lease, vec![event(&turn, 1, notice("n"))]);
    let lost = append.await.unwrap().await.unwrap_err().to_string();
    assert!(lost.contains("has lost what it had confirmed"), "{lost}");
    let again = store.create_session(&plain_session()).await.unwrap_err().to_string();
    assert!(again.contains("has lost what it had confirmed"), "{again}");
}
