//! Sessions: creating, changing, naming, listing and deleting them.

use angelia_core::{
    model::ExternalName,
    ports::{Page, StoreError},
};

use super::{
    StoreFixture,
    samples::{
        assert_same_debug, create_turn, event, finished, full_session, owned_session,
        plain_session, plain_turn, timestamp,
    },
};

pub async fn a_session_comes_back_as_it_was(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let session = full_session();
    store.create_session(&session).await.unwrap();
    assert_same_debug(&store.session(session.id).await.unwrap(), &Some(session));
}

pub async fn a_plain_session_comes_back_as_it_was(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let session = plain_session();
    assert!(store.session(session.id).await.unwrap().is_none());
    store.create_session(&session).await.unwrap();
    assert_same_debug(&store.session(session.id).await.unwrap(), &Some(session));
}

pub async fn a_session_is_created_once(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let session = plain_session();
    store.create_session(&session).await.unwrap();
    let mut other = full_session();
    other.id = session.id;
    let again = store.create_session(&other).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    assert_same_debug(&store.session(session.id).await.unwrap(), &Some(session));
}

pub async fn a_change_based_on_an_old_revision_is_refused(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let mut session = plain_session();
    let missing = store.put_session(&session).await;
    assert!(matches!(missing, Err(StoreError::NotFound("session"))), "{missing:?}");
    store.create_session(&session).await.unwrap();

    let mut changed = full_session();
    changed.id = session.id;
    changed.revision = session.revision;
    let revision = store.put_session(&changed).await.unwrap();
    assert!(revision > session.revision);
    changed.revision = revision;
    assert_same_debug(&store.session(session.id).await.unwrap(), &Some(changed.clone()));

    session.title = Some("too late".into());
    let late = store.put_session(&session).await;
    assert!(matches!(late, Err(StoreError::Conflict)), "{late:?}");
    assert_same_debug(&store.session(session.id).await.unwrap(), &Some(changed));
}

pub async fn sessions_are_paged_newest_first(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let session = plain_session();
        store.create_session(&session).await.unwrap();
        ids.insert(0, session.id);
    }
    let mut seen = Vec::new();
    let mut page = Page::first(2);
    loop {
        let found = store.sessions(page).await.unwrap();
        assert!(found.len() <= 2);
        let Some(last) = found.last() else { break };
        page.before = Some(last.id.as_uuid());
        seen.extend(found.iter().map(|session| session.id));
    }
    assert_eq!(seen, ids);
    let all = store.sessions(Page::first(usize::MAX)).await.unwrap();
    assert_eq!(all.len(), 5);
}

pub async fn the_first_who_gives_a_name_keeps_it_and_names_are_scoped(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (one, two) = (plain_session(), plain_session());
    let name = |scope: &str| ExternalName { scope: scope.into(), name: "chat → 7".into() };
    let unknown = store.bind_name(&name("bridge"), one.id).await;
    assert!(matches!(unknown, Err(StoreError::NotFound("session"))), "{unknown:?}");
    store.create_session(&one).await.unwrap();
    store.create_session(&two).await.unwrap();
    store.bind_name(&name("bridge"), one.id).await.unwrap();
    store.bind_name(&name("http"), two.id).await.unwrap();
    assert_eq!(store.find_by_name(&name("bridge")).await.unwrap(), Some(one.id));
    assert_eq!(store.find_by_name(&name("http")).await.unwrap(), Some(two.id));
    assert_eq!(store.find_by_name(&name("bus")).await.unwrap(), None);

    let bound = store.bind_name(&name("bridge"), two.id).await.unwrap();
    assert_eq!(bound, one.id);
    assert_eq!(store.find_by_name(&name("bridge")).await.unwrap(), Some(one.id));
}

pub async fn a_deleted_session_takes_everything_along(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let kept = owned_session(&*store).await;
    let name = ExternalName { scope: "bridge".into(), name: "x".into() };
    store.bind_name(&name, lease.session).await.unwrap();
    let turn = plain_turn(lease.session);
    create_turn(&*store, &lease, &turn).await;
    let append = store.append(&lease, vec![event(&turn, 1, finished())]);
    append.await.unwrap().await.unwrap();
    let other = plain_turn(kept.session);
    create_turn(&*store, &kept, &other).await;

    store.delete_session(lease.session).await.unwrap();
    assert!(store.session(lease.session).await.unwrap().is_none());
    assert!(store.turn(turn.id).await.unwrap().is_none());
    assert!(store.replay(turn.id, 0, 10).await.unwrap().is_empty());
    assert_eq!(store.find_by_name(&name).await.unwrap(), None);
    let acquired = store.acquire_lease(lease.session).await;
    assert!(matches!(acquired, Err(StoreError::NotFound("session"))), "{acquired:?}");
    let again = store.delete_session(lease.session).await;
    assert!(matches!(again, Err(StoreError::NotFound("session"))), "{again:?}");
    let turns = store.turns(None, Page::first(10)).await.unwrap();
    assert_same_debug(&turns, &[other]);
}

pub async fn retention_sees_only_what_is_old_and_done(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let add = async |updated: i64, created: i64, finish: Option<i64>| {
        let mut session = plain_session();
        session.updated_at = timestamp(updated);
        store.create_session(&session).await.unwrap();
        let lease = store.acquire_lease(session.id).await.unwrap();
        let mut turn = plain_turn(session.id);
        turn.created_at = timestamp(created);
        create_turn(&*store, &lease, &turn).await;
        if let Some(at) = finish {
            let mut last = event(&turn, 1, finished());
            last.at = timestamp(at);
            let append = store.append(&lease, vec![last]).await.unwrap();
            append.await.unwrap();
        }
        session.id
    };
    let old = add(0, 1, Some(2)).await;
    add(100, 1, Some(2)).await;
    add(0, 100, Some(101)).await;
    add(0, 1, Some(100)).await;
    add(0, 1, None).await;
    let mut silent = plain_session();
    silent.updated_at = timestamp(0);
    store.create_session(&silent).await.unwrap();

    let stale = store.stale_sessions(timestamp(50)).await.unwrap();
    let stale: Vec<_> = stale.iter().map(|session| session.id).collect();
    assert_eq!(stale, [old, silent.id]);
}
