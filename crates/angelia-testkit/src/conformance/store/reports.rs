//! Usage, quotas, search, and turns by their status.

use angelia_core::{
    model::{
        AgentStart, BrowserRecord, ColdReason, Content, EventKind, Outcome, Quota, QuotaReport,
        SearchQuery, SearchTerms, SessionId, Speaker, TextChannel, TurnRecord, TurnStatus, Usage,
        UsageBucket, UsageGroup, UsageQuery,
    },
    ports::{Lease, Page, SearchUpkeep, Store, TurnFilter},
};
use uuid::Uuid;

use super::{
    StoreFixture,
    samples::{create_turn, event, finished, outcome, owned_session, plain_turn, timestamp},
};

fn started(profile: &str, model: Option<&str>) -> EventKind {
    EventKind::Started(AgentStart {
        profile: profile.into(),
        executor: "fake".into(),
        model: model.map(Into::into),
        native_session_id: None,
        resumed: false,
        warm: false,
    })
}

fn usage(input_tokens: u64, cost_usd: Option<f64>) -> Usage {
    Usage { input_tokens, output_tokens: 1, cost_usd, lane: Some("x".into()), ..Usage::default() }
}

async fn append(store: &dyn Store, lease: &Lease, turn: &TurnRecord, kinds: Vec<EventKind>) {
    let numbered = (1..).zip(kinds);
    let events = numbered.map(|(seq, kind)| event(turn, seq, kind)).collect();
    store.append(lease, events).await.unwrap().await.unwrap();
}

async fn used(
    store: &dyn Store,
    query: UsageQuery,
) -> Vec<(Option<String>, u64, u64, Option<f64>)> {
    let rows = store.usage(query).await.unwrap();
    let row = |row: angelia_core::model::UsageTotals| {
        let key = row.key.map(|key| key.to_string());
        (key, row.turns, row.usage.input_tokens, row.usage.cost_usd)
    };
    rows.into_iter().map(row).collect()
}

pub async fn what_turns_used_adds_up(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    // The turns are an hour apart, so that they are in different hours in every time zone.
    let turn = async |charged_to: Option<&str>, at, kinds| {
        let mut turn = plain_turn(lease.session);
        turn.options.caller = charged_to.map(|_| "session".into());
        turn.options.charged_to = charged_to.map(Into::into);
        turn.created_at = timestamp(at);
        create_turn(&*store, &lease, &turn).await;
        append(&*store, &lease, &turn, kinds).await;
    };
    let end = |input, cost| {
        let usage = usage(input, cost);
        EventKind::Finished(Outcome { usage, ..outcome(TurnStatus::Completed) })
    };
    let report = |input, cost| EventKind::Usage(usage(input, cost));
    let ended = vec![started("a", Some("m")), report(5, None), report(7, None), end(10, Some(0.5))];
    turn(None, 0, ended).await;
    turn(Some("k"), 3600, vec![started("b", None), end(20, None)]).await;
    // A running turn counts with its usage so far.
    turn(None, 7200, vec![started("a", Some("m")), report(40, Some(0.25))]).await;
    // No agent got this turn.
    turn(None, 7200, vec![finished()]).await;

    let all = UsageQuery::default();
    assert_eq!(used(&*store, all).await, [(None, 3, 70, Some(0.75))]);
    let by = |by| UsageQuery { by: Some(by), ..all };
    let text = |text: &str| Some(text.to_owned());
    let a = (text("a"), 2, 50, Some(0.75));
    assert_eq!(used(&*store, by(UsageGroup::Profile)).await, [a, (text("b"), 1, 20, None)]);
    let owner = (text("owner"), 2, 50, Some(0.75));
    assert_eq!(used(&*store, by(UsageGroup::Key)).await, [owner, (text("k"), 1, 20, None)]);
    let model = (text("m"), 2, 50, Some(0.75));
    assert_eq!(used(&*store, by(UsageGroup::Model)).await, [model, (None, 1, 20, None)]);
    assert_eq!(used(&*store, by(UsageGroup::Lane)).await, [(text("x"), 3, 70, Some(0.75))]);
    assert_eq!(used(&*store, by(UsageGroup::Executor)).await, [(text("fake"), 3, 70, Some(0.75))]);
    let session = text(&lease.session.to_string());
    assert_eq!(used(&*store, by(UsageGroup::Session)).await, [(session, 3, 70, Some(0.75))]);
    let (from, to) = (Some(timestamp(3600)), Some(timestamp(7200)));
    assert_eq!(used(&*store, UsageQuery { from, to, ..all }).await, [(None, 1, 20, None)]);
    let hours = UsageQuery { bucket: Some(UsageBucket::Hour), ..all };
    let hours = store.usage(hours).await.unwrap();
    assert_eq!(hours.iter().map(|row| row.usage.input_tokens).collect::<Vec<_>>(), [10, 20, 40]);
    assert!(hours.is_sorted_by(|a, b| a.start < b.start), "{hours:?}");

    // A deleted conversation still has to be paid for.
    store.release_lease(lease.clone()).await.unwrap();
    store.delete_session(lease.session).await.unwrap();
    assert_eq!(used(&*store, by(UsageGroup::Session)).await, [(None, 3, 70, Some(0.75))]);
}

pub async fn parts_of_an_hour_add_up_to_the_turn(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    // Every ten minutes for five hours, each with a different count.
    let times: Vec<i64> = (0..30).map(|index| index * 600).collect();
    for (index, at) in times.iter().enumerate() {
        let mut turn = plain_turn(lease.session);
        turn.created_at = timestamp(*at);
        create_turn(&*store, &lease, &turn).await;
        let usage = usage(1 << index, None);
        let end = EventKind::Finished(Outcome { usage, ..outcome(TurnStatus::Completed) });
        append(&*store, &lease, &turn, vec![started("a", None), end]).await;
    }
    for (from, to) in [(0, 18_000), (1, 17_999), (599, 601), (601, 1199), (900, 9000), (3700, 3701)]
    {
        let query = UsageQuery {
            from: Some(timestamp(from)),
            to: Some(timestamp(to)),
            ..UsageQuery::default()
        };
        let wanted: u64 = (times.iter().enumerate())
            .filter(|(_, at)| (from..to).contains(*at))
            .map(|(index, _)| 1 << index)
            .sum();
        let found: u64 = used(&*store, query).await.iter().map(|row| row.2).sum();
        assert_eq!(found, wanted, "{from} to {to}");
    }
}

pub async fn a_cold_cache_has_a_reason(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let turns = [("m", 0, "p"), ("m", 9, "p"), ("m", 0, "p"), ("m", 0, "q"), ("n", 0, "q")];
    for (index, (model, cache_read_tokens, prefix)) in (0..).zip(turns) {
        let mut turn = plain_turn(lease.session);
        turn.created_at = timestamp(index * 60);
        create_turn(&*store, &lease, &turn).await;
        let usage = Usage {
            cache_read_tokens,
            prefix_sha256: Some(prefix.into()),
            ..usage(2000, Some(0.5))
        };
        let end = EventKind::Finished(Outcome { usage, ..outcome(TurnStatus::Completed) });
        append(&*store, &lease, &turn, vec![started("a", Some(model)), end]).await;
    }
    let all = UsageQuery::default();
    let cold = store.cold_starts(all, 9).await.unwrap();
    let reasons: Vec<_> = cold.iter().map(|one| one.reason).collect();
    let expected = [
        ColdReason::ModelChanged,
        ColdReason::PrefixChanged,
        ColdReason::Expired,
        ColdReason::NewSession,
    ];
    assert_eq!(reasons, expected, "newest first");
    assert_eq!(cold[0].session, Some(lease.session));
    assert_eq!((cold[0].usage.input_tokens, cold[0].usage.cost_usd), (2000, Some(0.5)));
    let rows = store.usage(all).await.unwrap();
    assert_eq!((rows[0].turns, rows[0].cold_starts), (5, 4));
    let late = UsageQuery { from: Some(timestamp(200)), ..all };
    assert_eq!(store.cold_starts(late, 9).await.unwrap().len(), 1);
    assert_eq!(store.cold_starts(all, 2).await.unwrap().len(), 2);
}

pub async fn browsers_are_kept_until_they_are_removed(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let browser = |number: u8| BrowserRecord {
        id: Uuid::from_u128(number.into()),
        sha256: [number; 32],
        name: "Firefox on Linux".into(),
        created_at: timestamp(1),
        used_at: timestamp(1),
        expires_at: timestamp(9),
    };
    for number in [2, 1] {
        store.add_browser(browser(number)).await.unwrap();
    }
    let used = Uuid::from_u128(1);
    store.note_browser_use(used, timestamp(5), timestamp(15)).await.unwrap();
    store.note_browser_use(Uuid::from_u128(7), timestamp(5), timestamp(15)).await.unwrap();
    let changed = BrowserRecord { used_at: timestamp(5), expires_at: timestamp(15), ..browser(1) };
    assert_eq!(store.browsers().await.unwrap(), [changed, browser(2)]);
    assert!(store.remove_browser(used).await.unwrap());
    assert!(!store.remove_browser(used).await.unwrap());
    assert_eq!(store.browsers().await.unwrap(), [browser(2)]);
}

pub async fn the_newest_report_of_a_quota_is_kept(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let quota = |window: &str, used, at| Quota {
        executor: "fake".into(),
        report: QuotaReport {
            window: window.into(),
            used: Some(used),
            is_exhausted: used >= 1.0,
            resets_at: Some(timestamp(99)),
        },
        reported_at: timestamp(at),
    };
    for (window, used, at) in [("week", 0.25, 1), ("hour", 0.5, 2), ("week", 1.0, 3)] {
        store.save_quota(quota(window, used, at)).await.unwrap().await.unwrap();
    }
    let expected = [quota("hour", 0.5, 2), quota("week", 1.0, 3)];
    assert_eq!(store.quotas().await.unwrap(), expected);
}

pub async fn turns_are_found_by_status_and_time(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let mut turns = Vec::new();
    for at in 0..4 {
        let mut turn = plain_turn(lease.session);
        turn.created_at = timestamp(at);
        create_turn(&*store, &lease, &turn).await;
        turns.push(turn);
    }
    append(&*store, &lease, &turns[0], vec![finished()]).await;
    let interrupted = EventKind::Finished(outcome(TurnStatus::Interrupted));
    append(&*store, &lease, &turns[1], vec![interrupted]).await;
    let parked = angelia_core::model::TurnState::Parked { resumes_at: timestamp(50) };
    store.set_turn_state(&lease, turns[2].id, &parked).await.unwrap();
    let find = async |filter: TurnFilter| {
        let found = store.find_turns(filter, Page::first(9)).await.unwrap();
        let place = |one: &TurnRecord| turns.iter().position(|turn| turn.id == one.id).unwrap();
        found.iter().map(place).collect::<Vec<_>>()
    };
    let status = |word: &str| TurnFilter { statuses: vec![word.into()], ..TurnFilter::default() };
    assert_eq!(find(TurnFilter::default()).await, [3, 2, 1, 0]);
    assert_eq!(find(TurnFilter::unfinished()).await, [3, 2]);
    assert_eq!(find(status("interrupted")).await, [1]);
    assert_eq!(find(status("parked")).await, [2]);
    assert_eq!(find(status("unheard-of")).await, [0_usize; 0]);
    let since = Some(timestamp(2));
    assert_eq!(find(TurnFilter { since, ..TurnFilter::default() }).await, [3, 2]);
    let other = Some(owned_session(&*store).await.session);
    assert_eq!(find(TurnFilter { session: other, ..TurnFilter::default() }).await, [0_usize; 0]);
}

async fn say(store: &dyn Store, lease: &Lease, person: &str, agent: &str) {
    let mut turn = plain_turn(lease.session);
    turn.input = vec![Content::text(person)];
    create_turn(store, lease, &turn).await;
    let block = |channel, text: &str| EventKind::Block { block: 0, channel, text: text.into() };
    let thought = block(TextChannel::Reasoning, "a thought");
    let answer = block(TextChannel::Answer, agent);
    append(store, lease, &turn, vec![thought, answer, finished()]).await;
}

async fn search(store: &dyn Store, words: &str) -> Vec<(SessionId, Speaker, String)> {
    let query = SearchQuery { terms: SearchTerms::parse(words).unwrap(), limit: 9 };
    let found = store.search(query).await.unwrap();
    found.into_iter().map(|one| (one.session, one.speaker, one.excerpt.text)).collect()
}

pub async fn what_was_said_is_found(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (first, second) = (owned_session(&*store).await, owned_session(&*store).await);
    say(&*store, &first, "Fix the Parser", "the lexer was wrong").await;
    say(&*store, &second, "你好，世界", "\"Hello\" in 中文; parsers").await;
    say(&*store, &first, "and the PARSER again", "done").await;
    let (person, agent) = (Speaker::Person, Speaker::Agent);
    let found = async |words: &str| {
        let found = search(&*store, words).await;
        found.into_iter().map(|(session, speaker, _)| (session, speaker)).collect::<Vec<_>>()
    };
    let (one, two) = (first.session, second.session);
    assert_eq!(found("parser").await, [(one, person), (two, agent)]);
    assert_eq!(found("lexer wrong").await, [(one, agent)]);
    assert_eq!(found("世界").await, [(two, person)]);
    assert_eq!(found("中").await, [(two, agent)]);
    assert_eq!(found("中文; \"hello\"").await, [(two, agent)]);
    for missing in ["thought", "parser lexer", "x* OR", "世中"] {
        assert_eq!(found(missing).await, [], "{missing}");
    }
    let excerpts = search(&*store, "again").await;
    assert_eq!(excerpts[0].2, "and the PARSER again");
}

pub async fn what_is_deleted_is_not_found(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (first, second) = (owned_session(&*store).await, owned_session(&*store).await);
    say(&*store, &first, "a secret plan", "ok").await;
    say(&*store, &second, "no secret here", "ok").await;
    assert_eq!(search(&*store, "secret").await.len(), 2);
    store.delete_session(first.session).await.unwrap();
    let left = search(&*store, "secret").await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0, second.session);
    while store.maintain_search().await.unwrap() != SearchUpkeep::Complete {}
    assert_eq!(search(&*store, "secret").await, left);
}
