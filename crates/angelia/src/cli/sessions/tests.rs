//! Tests of lists and long sessions, from the store and from the daemon.

use std::path::Path;

use angelia_core::model::{Content, SessionId, SessionRecord};
use angelia_frontends::http::resources::SessionResource;
use angelia_testkit::conformance::store::{plain_session, plain_turn};
use clap::Parser as _;
use jiff::{Timestamp, tz::TimeZone};

use super::{
    list::{self, SessionListArgs},
    transcript::Transcript,
};
use crate::{
    cli::{
        args::{Cli, Command, SessionsCommand},
        local_time::relative,
        view::View,
    },
    client::test_daemon::TestDaemon,
    records::PAGE_SIZE,
};

/// The arguments of `sessions list`.
fn listed(arguments: &[&str]) -> SessionListArgs {
    let words = ["angelia", "sessions", "list"].iter().chain(arguments);
    match Cli::parse_from(words).command {
        Command::Sessions(SessionsCommand::List(args)) => args,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_list_has_only_the_sessions_that_are_wanted() {
    let stage = TestDaemon::new();
    let mut ids = Vec::new();
    for title in ["fix the parser", "write notes"] {
        let session = SessionRecord { title: Some(title.into()), ..plain_session() };
        stage.store.create_session(&session).await.unwrap();
        ids.push(session.id);
    }
    for records in stage.records().await {
        for (arguments, wanted) in [
            (&[][..], &[ids[1], ids[0]][..]),
            (&["PARSER", "fix"], &ids[..1]),
            (&["--profile", "nobody"], &[]),
            (&["--status", "running,failed"], &[]),
            (&["--since", "2100-01-01"], &[]),
            (&["notes", "--since", "2000-01-01"], &ids[1..]),
        ] {
            let (sessions, _) = list::read(&records, &listed(arguments)).await.unwrap();
            let found: Vec<_> = sessions.iter().map(|session| session.id).collect();
            assert_eq!(found, wanted, "{arguments:?}");
        }
    }
}

/// Records a session without a title that is longer than a page.
async fn record_long_session(stage: &TestDaemon) -> SessionId {
    let session = plain_session();
    stage.store.create_session(&session).await.unwrap();
    let lease = stage.store.acquire_lease(session.id).await.unwrap();
    for number in 0..=PAGE_SIZE {
        let mut turn = plain_turn(session.id);
        turn.input = vec![Content::text(format!("\nprompt {number}\nmore"))];
        stage.store.create_turn(&lease, &turn.into()).await.unwrap();
    }
    session.id
}

#[tokio::test]
async fn a_long_session_is_named_by_its_first_prompt() {
    let stage = TestDaemon::new();
    let id = record_long_session(&stage).await;
    for records in stage.records().await {
        let args = listed(&[]);
        let (sessions, has_more) = list::read(&records, &args).await.unwrap();
        assert_eq!((sessions.len(), has_more), (1, false));
        assert_eq!(sessions[0].id, id);
        assert_eq!(sessions[0].first_words.as_deref(), Some("prompt 0"));
    }
}

#[tokio::test]
async fn a_long_session_is_shown_with_all_its_turns() {
    let stage = TestDaemon::new();
    let id = record_long_session(&stage).await;
    let [stored, served] = stage.records().await;
    let text = Transcript::read(&stored, id).await.unwrap().render(&View::PLAIN, &TimeZone::UTC);
    assert_eq!(text.matches("── you ·").count(), PAGE_SIZE + 1);
    let (first, last) = (text.find("prompt 0\n"), text.find(&format!("prompt {PAGE_SIZE}\n")));
    assert!(first.is_some() && first < last, "the oldest turn comes first");
    let by_daemon =
        Transcript::read(&served, id).await.unwrap().render(&View::PLAIN, &TimeZone::UTC);
    assert_eq!(by_daemon, text);
}

/// A session as the daemon describes it.
fn described(id: &str, used_at: &str, rest: &serde_json::Value) -> SessionResource {
    let mut session = serde_json::json!({
        "id": format!("{id}-7000-8000-000000000000"), "short_id": id, "title": null,
        "profile": "default", "executor": "claude", "mode": "agent", "model": "sonnet",
        "cwd": "/home/ada/shop", "permissions": "ask", "native_session_id": null,
        "forked_from": null, "created_at": used_at, "updated_at": used_at,
    });
    for (name, value) in rest.as_object().unwrap() {
        session[name] = value.clone();
    }
    serde_json::from_value(session).unwrap()
}

fn sample_list() -> Vec<SessionResource> {
    vec![
        described(
            "019e0a1b-2c3d",
            "2026-11-17T14:27:00Z",
            &serde_json::json!({"name": "login", "source": "terminal", "status": "running",
                "first_words": "fix the login form, it loses the password on reload"}),
        ),
        described(
            "019e0a1b-2c41",
            "2026-11-16T13:05:00Z",
            &serde_json::json!({"source": "key:ci-bot", "status": "completed", "cwd": "/srv/build",
                "executor": "codex", "model": null, "first_words": "\u{4fee}\u{590d}\u{767b}\u{5f55}"}),
        ),
        described(
            "019a3f00-0000",
            "2025-03-01T12:00:00Z",
            &serde_json::json!({"source": "bus:coder", "title": "bus: coder",
                "cwd": "/home/ada", "status": "awaiting_approval"}),
        ),
        described("01900000-0000", "2024-01-01T12:00:00Z", &serde_json::json!({})),
    ]
}

fn sample_lines(width: Option<usize>) -> String {
    let now: Timestamp = "2026-11-17T14:30:00Z".parse().unwrap();
    let when = |at| relative(at, now, &TimeZone::UTC);
    let table = list::table(&sample_list(), Some(Path::new("/home/ada")), when);
    table.lines(width).join("\n")
}

#[test]
fn a_list_of_sessions_fits_80_columns() {
    insta::assert_snapshot!(sample_lines(Some(80)));
}

#[test]
fn a_list_of_sessions_fits_40_columns() {
    insta::assert_snapshot!(sample_lines(Some(40)));
}

#[test]
fn a_list_of_sessions_is_whole_in_a_pipe() {
    insta::assert_snapshot!(sample_lines(None));
}
