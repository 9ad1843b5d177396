//! What a store checks before it opens a database, and what it can keep in it.

use std::{sync::Arc, thread};

use angelia_backends::{
    owners::OwnerRegistry,
    store::{PostgresAddress, PostgresStore},
};
use angelia_core::{
    model::{
        AgentStart, BrowserRecord, Content, EventKind, ExternalName, GrantRule, Quota, QuotaReport,
        SearchQuery, SearchTerms, StoredRule, TextChannel, ToolChoice, UsageGroup, UsageQuery,
    },
    ports::{
        BrowserStore as _, ClaimOutcome, NewTurn, Page, RequestClaim, SessionQuery, Store as _,
    },
};
use angelia_testkit::conformance::store::{
    assert_same_debug, event, finished, fresh_uuid, full_session, plain_session, plain_turn,
    timestamp,
};

use super::database::TestDatabase;

#[tokio::test]
async fn many_stores_may_open_an_empty_database_at_once() {
    let database = Arc::new(TestDatabase::new());
    let open = || {
        let database = Arc::clone(&database);
        thread::spawn(move || database.open())
    };
    let threads: Vec<_> = (0..6).map(|_| open()).collect();
    let stores: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for store in &stores {
        store.create_session(&plain_session()).await.unwrap();
    }
    let all = stores[0].sessions(Page::first(99)).await.unwrap();
    assert_eq!(all.len(), 6);
    assert_eq!(database.value("SELECT count(*) FROM schema_version"), "1");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let database = TestDatabase::new();
    database.open().close().await;
    database.query("UPDATE schema_version SET version = 99");
    let refused = database
        .try_open(database.server.socket_folder(), &TestDatabase::machine("one"))
        .unwrap_err()
        .to_string();
    assert!(refused.ends_with("upgrade this machine"), "{refused}");
    assert!(refused.contains("its schema is 99"), "{refused}");
}

#[test]
fn a_database_that_confirms_too_early_is_refused() {
    let database = TestDatabase::new();
    let alter = format!("ALTER DATABASE {} SET synchronous_commit = off", database.name);
    database.server.query("postgres", &alter).unwrap();
    let refused = database
        .try_open(database.server.socket_folder(), &TestDatabase::machine("one"))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("synchronous_commit = off"), "{refused}");
}

#[test]
fn a_database_that_is_not_there_is_explained() {
    let database = TestDatabase::new();
    let open = |address: &str| {
        let address = PostgresAddress::parse(address, None, None).unwrap();
        let owners = OwnerRegistry::new(database.home().join("owners"));
        let machine = TestDatabase::machine("one");
        let opened = PostgresStore::open_for_reading(address, machine, &owners, "run");
        opened.unwrap_err().to_string()
    };
    let missing = open(&database.server.address_of("no_such_database"));
    assert!(missing.contains("createdb"), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    let nobody = format!("postgres:///x?host={}&user=a", folder.path().display());
    let nobody = open(&nobody);
    assert!(nobody.contains("check that the server runs"), "{nobody}");
}

/// A process that only reads is no owner.
#[tokio::test]
async fn reading_leaves_no_trace() {
    let database = TestDatabase::new();
    database.open().close().await;
    let address = database.server.address_of(&database.name);
    let address = PostgresAddress::parse(&address, None, None).unwrap();
    let owners = OwnerRegistry::new(database.home().join("owners"));
    let machine = TestDatabase::machine("one");
    let store = PostgresStore::open_for_reading(address, machine, &owners, "status").unwrap();
    assert!(store.sessions(Page::first(1)).await.unwrap().is_empty());
    assert_eq!(database.value("SELECT count(*) FROM owners WHERE dead_at IS NULL"), "0");
    store.create_session(&plain_session()).await.unwrap();
    assert_eq!(database.value("SELECT command FROM owners WHERE dead_at IS NULL"), "status");
}

#[tokio::test]
async fn the_audit_cannot_be_changed() {
    let database = TestDatabase::new();
    let _store = database.open();
    for sql in ["UPDATE audit SET at = 0", "DELETE FROM audit", "TRUNCATE audit"] {
        let sql = format!("SET search_path = angelia; {sql}");
        let refused = database.server.query(&database.name, &sql).unwrap_err();
        assert!(format!("{refused:#}").contains("append-only"), "{refused:#}");
    }
}

/// Postgres has no NUL in text, but people and agents do.
#[tokio::test]
async fn a_nul_is_kept_in_every_text() {
    const NUL: &str = "a\0b";
    let database = TestDatabase::new();
    let store = database.open();
    let mut session = full_session();
    session.spec.profile = NUL.into();
    session.spec.executor = NUL.into();
    session.spec.cwd = "/a\0b".into();
    store.create_session(&session).await.unwrap();
    assert_same_debug(&store.session(session.id).await.unwrap(), &Some(session.clone()));
    let name = ExternalName { scope: NUL.into(), name: NUL.into() };
    assert_eq!(store.bind_name(&name, session.id).await.unwrap(), session.id);
    assert_eq!(store.find_by_name(&name).await.unwrap(), Some(session.id));

    let lease = store.acquire_lease(session.id).await.unwrap();
    let mut turn = plain_turn(session.id);
    turn.input = vec![Content::text("say a\0b")];
    turn.options.caller = Some(NUL.into());
    turn.options.charged_to = Some(NUL.into());
    turn.options.tool_choice = ToolChoice::Named(NUL.into());
    let claim =
        RequestClaim { caller: NUL.into(), key: NUL.into(), input: [0; 32], since: timestamp(-9) };
    let new = NewTurn { claim: Some(claim.clone()), ..turn.clone().into() };
    assert_eq!(store.create_turn(&lease, &new).await.unwrap(), ClaimOutcome::New);
    assert_eq!(store.check_claim(&claim).await.unwrap(), ClaimOutcome::Repeats(turn.id));
    assert_same_debug(&store.turn(turn.id).await.unwrap(), &Some(turn.clone()));

    let started = EventKind::Started(AgentStart {
        profile: NUL.into(),
        executor: NUL.into(),
        model: Some(NUL.into()),
        native_session_id: None,
        resumed: false,
        warm: false,
    });
    let answer = EventKind::Block { block: 0, channel: TextChannel::Answer, text: NUL.into() };
    let events = (1..).zip([started, answer, finished()]);
    let events: Vec<_> = events.map(|(seq, kind)| event(&turn, seq, kind)).collect();
    store.append(&lease, events.clone()).await.unwrap().await.unwrap();
    assert_same_debug(&store.replay(turn.id, 0, 9).await.unwrap(), &events);

    let by_model = UsageQuery { by: Some(UsageGroup::Model), ..UsageQuery::default() };
    assert_eq!(store.usage(by_model).await.unwrap()[0].key.as_deref(), Some(NUL));
    assert!(store.cost_since(NUL, timestamp(-9)).await.unwrap() > 0.0);
    let terms = SearchTerms::parse("a\0B").unwrap();
    assert_eq!(store.search(SearchQuery { terms, limit: 9 }).await.unwrap().len(), 1);
    let listed = store.list_sessions(SessionQuery::One(session.id)).await.unwrap();
    assert_eq!(listed[0].record.title, session.title);
    keep_small_records(&store, NUL).await;
}

async fn keep_small_records(store: &PostgresStore, nul: &str) {
    let rule = StoredRule {
        id: fresh_uuid(),
        profile: nul.into(),
        cwd: "/a\0b".into(),
        rule: GrantRule::Exact { tool: nul.into(), subject: nul.into() },
        created_at: timestamp(0),
        by: nul.into(),
    };
    store.add_rule(&rule).await.unwrap();
    assert_same_debug(&store.rules().await.unwrap(), &[rule]);
    let browser = BrowserRecord {
        id: fresh_uuid(),
        sha256: [0; 32],
        name: nul.into(),
        created_at: timestamp(0),
        used_at: timestamp(0),
        expires_at: timestamp(9),
    };
    store.add_browser(browser.clone()).await.unwrap();
    assert_eq!(store.browsers().await.unwrap(), [browser]);
    let report =
        QuotaReport { window: nul.into(), used: None, is_exhausted: false, resets_at: None };
    let quota = Quota { executor: nul.into(), report, reported_at: timestamp(0) };
    store.save_quota(quota.clone()).await.unwrap().await.unwrap();
    assert_eq!(store.quotas().await.unwrap(), [quota]);
}
