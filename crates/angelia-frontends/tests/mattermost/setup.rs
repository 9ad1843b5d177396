//! The checks of the set-up, and where credentials go.

use std::sync::Arc;

use angelia_core::ports::{Channel as _, ConnectionErrorKind, InboundFile, SendErrorKind};
use angelia_frontends::chat::mattermost::Mattermost;
use angelia_testkit::{
    clock::SystemClock,
    mattermost_server::{BOT_NAME, MattermostServer, TOKEN},
};

use super::adapter;

#[tokio::test]
async fn a_refused_token_is_told_from_a_lost_connection() {
    let server = MattermostServer::start();
    let build = |url: &str, token: &str| Mattermost::new(url, token, Arc::new(SystemClock));
    let wrong = build(server.base_url(), "wrongtoken").unwrap();
    let error = wrong.check().await.unwrap_err();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(error.to_string().contains("Bot Accounts"), "{error}");
    assert!(!error.to_string().contains("wrong"), "the token is never shown");
    assert!(!format!("{wrong:?}").contains("wrong"));
    for bad in ["", "a b", "a-b"] {
        assert!(build(server.base_url(), bad).is_err(), "{bad}");
    }
    let plain = build("http://example.com", TOKEN);
    assert!(plain.unwrap_err().to_string().contains("unencrypted"));
}

#[tokio::test]
async fn the_commonest_mistakes_of_the_set_up_are_found() {
    let server = MattermostServer::start();
    let findings = adapter(&server).check().await.unwrap();
    assert!(findings.iter().all(|one| !one.is_problem), "{findings:?}");
    assert!(findings[0].text.contains(BOT_NAME), "{findings:?}");
    server.leave_teams();
    let findings = adapter(&server).check().await.unwrap();
    let problem = findings.iter().find(|one| one.is_problem).unwrap();
    assert!(problem.text.contains("no team"), "{problem:?}");
}

#[tokio::test]
async fn files_are_fetched_by_their_ids_only() {
    let server = MattermostServer::start();
    let bot = adapter(&server);
    for id in ["http://127.0.0.1:1/x", "../users/me", ""] {
        let file = InboundFile { id: id.into(), name: "x".into(), media_type: None, size: None };
        let error = bot.fetch_file(&file, 10).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused, "{id}: {error}");
    }
}
