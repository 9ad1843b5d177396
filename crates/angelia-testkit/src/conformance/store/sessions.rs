//! Sessions: creating, changing, naming, listing and deleting them.

use angelia_core::{
    engine::short_id,
    model::{Content, EventKind, ExternalName, IdPrefix, SessionId, SessionSource, TurnRecord},
    ports::{Page, RecordKind, SessionFilter, SessionOrder, SessionQuery, Store, StoreError},
};
use uuid::Uuid;

use super::{
    StoreFixture,
    samples::{
        assert_same_debug, create_turn, event, finished, fresh_uuid, full_session, owned_session,
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

pub async fn a_review_is_in_no_list(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (shown, mut review) = (plain_session(), plain_session());
    review.source = Some(SessionSource::Review(shown.id.to_string().into()));
    let mut turns = Vec::new();
    for session in [&shown, &review] {
        store.create_session(session).await.unwrap();
        let lease = store.acquire_lease(session.id).await.unwrap();
        let turn = plain_turn(session.id);
        create_turn(&*store, &lease, &turn).await;
        turns.push(turn.id);
    }
    let all = Page::first(usize::MAX);
    let ids: Vec<_> = store.sessions(all).await.unwrap().iter().map(|one| one.id).collect();
    assert_eq!(ids, [shown.id]);
    let here = Some("/project".into());
    for query in [
        SessionQuery::newest(all),
        SessionQuery::last_used(None, all),
        SessionQuery::last_used(here, all),
    ] {
        let found = store.list_sessions(query).await.unwrap();
        let ids: Vec<_> = found.iter().map(|one| one.record.id).collect();
        assert_eq!(ids, [shown.id]);
    }
    let listed = store.turns(None, all).await.unwrap();
    assert_eq!(listed.iter().map(|turn| turn.id).collect::<Vec<_>>(), turns[..1]);
    // It can still be found by its id.
    assert_eq!(store.turns(Some(review.id), all).await.unwrap()[0].id, turns[1]);
    assert_eq!(store.list_sessions(SessionQuery::One(review.id)).await.unwrap().len(), 1);
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

/// Records a session with one turn, and returns its lease and the turn.
async fn used_session(
    store: &dyn Store,
    cwd: &str,
    used_at: i64,
    words: &str,
) -> (SessionId, TurnRecord) {
    let mut session = plain_session();
    session.spec.cwd = cwd.into();
    store.create_session(&session).await.unwrap();
    let lease = store.acquire_lease(session.id).await.unwrap();
    let mut turn = plain_turn(session.id);
    turn.created_at = timestamp(used_at);
    turn.input = vec![
        Content::text("<system-reminder>\nnot a person\n</system-reminder>"),
        Content::text(words),
    ];
    create_turn(store, &lease, &turn).await;
    (session.id, turn)
}

pub async fn sessions_are_listed_by_use_with_what_people_know(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (old, _) = used_session(&*store, "/one", 50, "used last").await;
    let (new, turn) = used_session(&*store, "/two", 10, "begun last").await;
    let unused = plain_session();
    store.create_session(&unused).await.unwrap();
    let name = |scope: &str, name: &str| ExternalName { scope: scope.into(), name: name.into() };
    store.bind_name(&name("bus", "other"), old).await.unwrap();
    store.bind_name(&name(ExternalName::OWNER_SCOPE, "work"), old).await.unwrap();
    let list = async |query: SessionQuery| {
        let found = store.list_sessions(query).await.unwrap();
        found.into_iter().map(|one| one.record.id).collect::<Vec<_>>()
    };
    let all = |cwd: Option<&str>| SessionQuery::last_used(cwd.map(Into::into), Page::first(9));
    assert_eq!(list(all(None)).await, [old, new, unused.id]);
    assert_eq!(list(all(Some("/two"))).await, [new]);
    assert_eq!(list(SessionQuery::newest(Page::first(2))).await, [unused.id, new]);
    assert_eq!(list(SessionQuery::One(SessionId::from_uuid(fresh_uuid()))).await, []);

    let found = store.list_sessions(SessionQuery::One(old)).await.unwrap();
    assert_eq!(found[0].name.as_deref(), Some("work"));
    assert_eq!(found[0].first_words.as_deref(), Some("used last"));
    let newest = found[0].newest_turn.as_ref().unwrap();
    assert_eq!((&*newest.status, newest.created_at), ("queued", timestamp(50)));
    assert_eq!((found[0].turns, found[0].cost_usd), (1, None));
    let found = store.list_sessions(SessionQuery::One(unused.id)).await.unwrap();
    let unused = &found[0];
    assert_eq!((&unused.name, &unused.first_words, &unused.newest_turn), (&None, &None, &None));
    assert_eq!(unused.turns, 0);

    let lease = store.acquire_lease(new).await.unwrap();
    let mut end = event(&turn, 1, finished());
    end.at = timestamp(60);
    store.append(&lease, vec![end]).await.unwrap().await.unwrap();
    assert_eq!(list(all(None)).await[0], new, "the end of a turn is a use");
    let found = store.list_sessions(SessionQuery::One(new)).await.unwrap();
    let newest = found[0].newest_turn.as_ref().unwrap();
    assert_eq!((newest.id, &*newest.status), (turn.id, "completed"));
    let EventKind::Finished(outcome) = finished() else { unreachable!("it is an end") };
    assert_eq!((found[0].turns, found[0].cost_usd), (1, outcome.usage.cost_usd));
}

pub async fn sessions_are_found_by_what_people_know(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (tests, _) = used_session(&*store, "/one", 50, "Write 100% of the tests").await;
    let (notes, turn) = used_session(&*store, "/two", 60, "deploy notes").await;
    let mut other = plain_session();
    other.title = Some("a title".into());
    other.source = Some(SessionSource::Key("ci".into()));
    other.spec.profile = "work".into();
    other.spec.executor = "other".into();
    store.create_session(&other).await.unwrap();
    let mut review = plain_session();
    review.source = Some(SessionSource::Review(notes.to_string().into()));
    store.create_session(&review).await.unwrap();
    let name = ExternalName { scope: ExternalName::OWNER_SCOPE.into(), name: "nightly".into() };
    store.bind_name(&name, notes).await.unwrap();
    let lease = store.acquire_lease(notes).await.unwrap();
    store.append(&lease, vec![event(&turn, 1, finished())]).await.unwrap().await.unwrap();

    let find = async |filter: SessionFilter, order| {
        let query = SessionQuery::Find { filter, order, page: Page::first(9) };
        let found = store.list_sessions(query).await.unwrap();
        found.into_iter().map(|one| one.record.id).collect::<Vec<_>>()
    };
    let filter = SessionFilter::default;
    let used = SessionOrder::Used;
    assert_eq!(find(filter(), SessionOrder::Created).await, [other.id, notes, tests]);
    assert_eq!(find(filter(), used).await[0], notes);
    for (words, expected) in [
        (&["TESTS", "100%"][..], &[tests][..]),
        (&["nightly"], &[notes]),
        (&["title"], &[other.id]),
        (&["1_0"], &[]),
        (&["tests", "deploy"], &[]),
    ] {
        let words = words.iter().map(|word| (*word).into()).collect();
        assert_eq!(find(SessionFilter { words, ..filter() }, used).await, expected);
    }
    let statuses = |words: &[&str]| SessionFilter {
        statuses: words.iter().map(|word| (*word).into()).collect(),
        ..filter()
    };
    assert_eq!(find(statuses(&["queued", "running"]), used).await, [tests]);
    assert_eq!(find(statuses(&["completed", "failed"]), used).await, [notes]);
    assert_eq!(find(statuses(&["completed", "queued"]), used).await, [notes, tests]);
    let of_profile = SessionFilter { profile: Some("work".into()), ..filter() };
    assert_eq!(find(of_profile, used).await, [other.id]);
    let of_executor = SessionFilter { executor: Some("other".into()), ..filter() };
    assert_eq!(find(of_executor, used).await, [other.id]);
    for source in ["key", "key:ci"] {
        let of_source = SessionFilter { source: Some(source.into()), ..filter() };
        assert_eq!(find(of_source, used).await, [other.id], "{source}");
    }
    let of_source = SessionFilter { source: Some("key:c".into()), ..filter() };
    assert!(find(of_source, used).await.is_empty());
    let of_folder = SessionFilter { cwd: Some("/one".into()), ..filter() };
    assert_eq!(find(of_folder, used).await, [tests]);
    let since = SessionFilter { since: Some(timestamp(60)), ..filter() };
    assert!(!find(since, used).await.contains(&tests));

    // A session that gets another profile is found under the new one.
    let record = store.session(other.id).await.unwrap().unwrap();
    let mut changed = record.clone();
    changed.spec.profile = "play".into();
    store.put_session(&changed).await.unwrap();
    let of_profile = SessionFilter { profile: Some("play".into()), ..filter() };
    assert_eq!(find(of_profile, used).await, [other.id]);
}

pub async fn a_page_by_use_starts_behind_its_session(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let mut ids = Vec::new();
    // Two of them are used at the same time.
    for used_at in [5, 1, 4, 4, 3] {
        ids.push(used_session(&*store, "/project", used_at, "x").await.0);
    }
    let (mut seen, mut page) = (Vec::new(), Page::first(2));
    loop {
        let query = SessionQuery::last_used(Some("/project".into()), page);
        let found = store.list_sessions(query).await.unwrap();
        let Some(last) = found.last() else { break };
        page.before = Some(last.record.id.as_uuid());
        seen.extend(found.iter().map(|one| one.record.id));
    }
    assert_eq!(seen, [ids[0], ids[3], ids[2], ids[4], ids[1]]);
}

pub async fn ids_are_found_by_their_start(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (session, turn) = used_session(&*store, "/project", 1, "x").await;
    let (other, _) = used_session(&*store, "/project", 2, "y").await;
    let find = async |kind, id: Uuid, digits, limit| {
        store.find_ids(kind, IdPrefix::of(id, digits), limit).await.unwrap()
    };
    let (id, turn) = (session.as_uuid(), turn.id.as_uuid());
    assert_eq!(find(RecordKind::Session, id, 32, 9).await, [id]);
    assert_eq!(find(RecordKind::Session, id, 4, 9).await, [id, other.as_uuid()]);
    assert_eq!(find(RecordKind::Session, id, 4, 1).await, [id]);
    assert_eq!(find(RecordKind::Turn, turn, 32, 9).await, [turn]);
    assert!(find(RecordKind::Turn, id, 32, 9).await.is_empty());
    assert!(find(RecordKind::Approval, id, 32, 9).await.is_empty());

    let short = short_id(&*store, RecordKind::Session, id).await.unwrap();
    assert!(short.len() >= 8 && id.to_string().starts_with(&short), "{short}");
    let prefix = IdPrefix::parse(&short).unwrap();
    assert_eq!(store.find_ids(RecordKind::Session, prefix, 9).await.unwrap(), [id]);
    let shorter = IdPrefix::of(id, prefix.digits() - 1);
    let fits = store.find_ids(RecordKind::Session, shorter, 9).await.unwrap();
    assert!(prefix.digits() == 8 || fits.len() == 2, "{short}: {fits:?}");
}
