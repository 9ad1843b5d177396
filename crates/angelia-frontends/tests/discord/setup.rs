//! The checks of the set-up, and where credentials go.

use std::sync::Arc;

use angelia_core::ports::{Channel as _, ConnectionErrorKind, InboundFile};
use angelia_frontends::chat::discord::Discord;
use angelia_testkit::{
    clock::SystemClock,
    discord_server::{DiscordServer, TOKEN},
};

use super::adapter;

#[tokio::test]
async fn a_refused_token_is_told_from_a_lost_connection() {
    let server = DiscordServer::start();
    let clock = Arc::new(SystemClock);
    let wrong = Discord::new("wrong.to.ken", Some(server.base_url()), clock).unwrap();
    let error = wrong.check().await.unwrap_err();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(error.to_string().contains("page Bot"), "{error}");
    assert!(!error.to_string().contains("wrong"), "the token is never shown");
    assert!(!format!("{wrong:?}").contains("wrong"));
    for bad in ["", "abc", "a.b", "a..c", "a.b.c.d", "a.b c.d"] {
        assert!(Discord::new(bad, None, Arc::new(SystemClock)).is_err(), "{bad}");
    }
    let plain = Discord::new(TOKEN, Some("http://example.com"), Arc::new(SystemClock));
    assert!(plain.unwrap_err().to_string().contains("unencrypted"));
}

#[tokio::test]
async fn the_commonest_mistakes_of_the_set_up_are_found() {
    let server = DiscordServer::start();
    let findings = adapter(&server).check().await.unwrap();
    assert!(findings.iter().all(|one| !one.is_problem), "{findings:?}");
    assert!(findings[0].text.contains("fake_bot (123456)"));
    server.forbid_reading();
    server.divert_interactions();
    server.set_servers(0);
    server.set_sessions_left(0);
    let findings = adapter(&server).check().await.unwrap();
    let problems: Vec<&str> =
        findings.iter().filter(|one| one.is_problem).map(|one| one.text.as_str()).collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    for (problem, words) in problems.iter().zip([
        "Message Content Intent",
        "Interactions Endpoint URL",
        "too many sessions",
        "client_id=123456&scope=bot%20applications.commands&permissions=274878008320",
    ]) {
        assert!(problem.contains(words), "{problem}");
    }
}

#[tokio::test]
async fn files_are_fetched_from_servers_of_discord_only() {
    let server = DiscordServer::start();
    let bot = adapter(&server);
    for address in ["http://127.0.0.1:1/x", "https://example.org/x", "file:///etc/passwd", "x"] {
        let file =
            InboundFile { id: address.into(), name: "x".into(), media_type: None, size: None };
        let error = bot.fetch_file(&file, 10).await.unwrap_err();
        assert!(error.message.contains("file"), "{error}");
    }
}
