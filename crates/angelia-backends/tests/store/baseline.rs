//! The file that version 0.1.0 wrote (`fixtures/baseline-0.1.0`): every later version must read the
//! same records from it.

use std::{fmt::Write as _, fs, path::Path};

use angelia_backends::store::SqliteStore;
use angelia_core::{
    model::{EventKind, ExternalName, SearchQuery, SearchTerms, SessionId, UsageQuery},
    ports::{ApprovalFilter, ClaimOutcome, NewTurn, Page, RequestClaim, Store as _},
};
use angelia_testkit::conformance::store::{plain_turn, timestamp};
use rusqlite::Connection;
use uuid::Uuid;

use crate::home::TempHome;

pub(crate) fn copy_of_baseline() -> TempHome {
    let home = TempHome::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/baseline-0.1.0");
    fs::copy(fixture.join("state.db"), home.database_path()).unwrap();
    home
}

/// Appends one line per record, in its debug form, which shows every byte.
fn list<T: std::fmt::Debug>(text: &mut String, heading: &str, records: &[T]) {
    writeln!(text, "== {heading}: {}", records.len()).unwrap();
    for record in records {
        writeln!(text, "{record:?}").unwrap();
    }
}

async fn list_names(text: &mut String, home: &TempHome, store: &SqliteStore) {
    let database = Connection::open(home.database_path()).unwrap();
    let mut names = database.prepare("SELECT scope, name FROM external_names").unwrap();
    let names = names.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let names: Vec<(String, String)> = names.map(Result::unwrap).collect();
    for (scope, name) in names {
        let name = ExternalName { scope: scope.into(), name: name.into() };
        list(text, &format!("{name:?}"), &[store.find_by_name(&name).await.unwrap()]);
    }
}

#[tokio::test]
async fn the_file_of_the_baseline_is_read_as_it_was() {
    let home = copy_of_baseline();
    let store = home.open();
    let mut text = String::new();
    let sessions = store.sessions(Page::first(1000)).await.unwrap();
    list(&mut text, "sessions", &sessions);
    list_names(&mut text, &home, &store).await;
    let turns = store.turns(None, Page::first(1000)).await.unwrap();
    list(&mut text, "turns", &turns);
    for turn in &turns {
        let events = store.replay(turn.id, 0, 1000).await.unwrap();
        list(&mut text, &format!("events of {:?}", turn.id), &events);
    }
    let approvals = store.approvals(ApprovalFilter::All, Page::first(1000)).await.unwrap();
    list(&mut text, "approvals", &approvals);
    let pending = store.approvals(ApprovalFilter::Pending, Page::first(1000)).await.unwrap();
    list(&mut text, "pending approvals", &pending);
    list(&mut text, "lost turns", &store.lost_turns().await.unwrap());
    list(&mut text, "parked turns", &store.resumable_turns(None).await.unwrap());
    let stale = store.stale_sessions(timestamp(1_000_000_000)).await.unwrap();
    list(&mut text, "stale sessions", &stale);
    let cost = store.cost_since("caller", timestamp(0)).await.unwrap();
    list(&mut text, "cost", &[cost]);
    list(&mut text, "history", &store.find_by_history([7; 32], 9).await.unwrap());
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn the_claims_of_the_baseline_still_hold() {
    let home = copy_of_baseline();
    let database = Connection::open(home.database_path()).unwrap();
    let mut claims = database
        .prepare(
            "SELECT c.caller, c.key, c.input, c.turn_id, t.session_id
             FROM claims c JOIN turns t ON t.id = c.turn_id",
        )
        .unwrap();
    let claims = claims
        .query_map([], |row| {
            let claim = RequestClaim {
                caller: row.get::<_, String>(0)?.into(),
                key: row.get::<_, String>(1)?.into(),
                input: row.get(2)?,
                since: timestamp(0),
            };
            Ok((claim, row.get::<_, [u8; 16]>(3)?, row.get::<_, [u8; 16]>(4)?))
        })
        .unwrap();
    let claims: Vec<_> = claims.map(Result::unwrap).collect();
    assert_eq!(claims.len(), 2);
    let store = home.open();
    for (mut claim, turn, session) in claims {
        let session = SessionId::from_uuid(Uuid::from_bytes(session));
        let lease = store.acquire_lease(session).await.unwrap();
        let repeat = NewTurn { claim: Some(claim.clone()), ..plain_turn(session).into() };
        let again = store.create_turn(&lease, &repeat).await.unwrap();
        let ClaimOutcome::Repeats(found) = again else {
            panic!("{again:?}");
        };
        assert_eq!(found.as_uuid().into_bytes(), turn);
        claim.input = [1; 32];
        let conflict = NewTurn { claim: Some(claim), ..plain_turn(session).into() };
        let other = store.create_turn(&lease, &conflict).await.unwrap();
        assert_eq!(other, ClaimOutcome::Conflicts(found));
    }
}

#[tokio::test]
async fn the_baseline_has_usage_and_can_be_searched() {
    let home = copy_of_baseline();
    let store = home.open();
    let used = store.usage(UsageQuery::default()).await.unwrap();
    let turns = store.turns(None, Page::first(1000)).await.unwrap();
    let mut tokens = 0;
    for turn in &turns {
        let events = store.replay(turn.id, 0, 1000).await.unwrap();
        // Turns that no agent got have used nothing.
        if events.iter().any(|event| matches!(event.kind, EventKind::Started(_))) {
            let usage = turn.state.outcome().map(|outcome| &outcome.usage);
            // One of them has the greatest number there is; sums are capped.
            tokens += usage.map_or(0, |usage| usage.output_tokens.min(1 << 50));
        }
    }
    assert!(used[0].turns > 0 && tokens > 0, "{used:?}");
    assert_eq!(used[0].usage.output_tokens, tokens);
    let spoken = turns.iter().find_map(|turn| {
        let outcome = turn.state.outcome()?;
        outcome.text.split_whitespace().find(|word| word.len() > 3).map(str::to_owned)
    });
    let terms = SearchTerms::parse(&spoken.unwrap()).unwrap();
    assert!(!store.search(SearchQuery { terms, limit: 5 }).await.unwrap().is_empty());
}
