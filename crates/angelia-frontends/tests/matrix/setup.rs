//! The checks of the set-up, and where credentials go.

use std::sync::Arc;

use angelia_core::ports::{Channel as _, ConnectionErrorKind, InboundFile, SendErrorKind};
use angelia_frontends::chat::matrix::{Matrix, MatrixError, MatrixSecrets};
use angelia_testkit::{
    clock::SystemClock,
    matrix_server::{BOT, MatrixServer, TOKEN},
};

use super::{PERSON, adapter};

fn build(base_url: &str, token: &str, user_id: Option<&str>) -> Result<Matrix, MatrixError> {
    Matrix::new(MatrixSecrets { base_url, token, user_id }, Arc::new(SystemClock))
}

#[tokio::test]
async fn a_refused_token_is_told_from_a_lost_connection() {
    let server = MatrixServer::start();
    let wrong = build(server.base_url(), "wrong-token", None).unwrap();
    let error = wrong.check().await.unwrap_err();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(error.to_string().contains("log the bot in again"), "{error}");
    assert!(!error.to_string().contains("wrong"), "the token is never shown");
    assert!(!format!("{wrong:?}").contains("wrong"));
    for bad in ["", "a b", "a\n"] {
        assert!(build(server.base_url(), bad, None).is_err(), "{bad}");
    }
    assert!(build(server.base_url(), TOKEN, Some("bot")).is_err());
    let plain = build("http://example.com", TOKEN, None);
    assert!(plain.unwrap_err().to_string().contains("unencrypted"));
    let nobody = build("http://127.0.0.1:1", TOKEN, None).unwrap();
    assert_eq!(nobody.check().await.unwrap_err().kind, ConnectionErrorKind::Lost);
}

#[tokio::test]
async fn the_commonest_mistakes_of_the_set_up_are_found() {
    let server = MatrixServer::start();
    let findings = adapter(&server).check().await.unwrap();
    assert!(findings.iter().all(|one| !one.is_problem), "{findings:?}");
    assert!(findings[0].text.contains(BOT) && findings[1].text.contains("no room yet"));
    let room = server.direct_room(PERSON);
    server.encrypt(&room, PERSON);
    let other = build(server.base_url(), TOKEN, Some("@other:test.example")).unwrap();
    let findings = other.check().await.unwrap();
    let problems: Vec<&str> =
        findings.iter().filter(|one| one.is_problem).map(|one| one.text.as_str()).collect();
    assert_eq!(problems.len(), 2, "{findings:?}");
    assert!(problems[0].contains("@other:test.example"), "{problems:?}");
    assert!(problems[1].contains(&room) && problems[1].contains("encrypted"), "{problems:?}");
    // One room that can be read is enough.
    server.add_room("team", &[PERSON]);
    let findings = adapter(&server).check().await.unwrap();
    assert!(findings.iter().all(|one| !one.is_problem), "{findings:?}");
}

#[tokio::test]
async fn files_come_from_the_homeserver_only_also_from_an_old_one() {
    let server = MatrixServer::start();
    let bot = adapter(&server);
    let file =
        |id: &str| InboundFile { id: id.into(), name: "x".into(), media_type: None, size: None };
    for address in ["http://127.0.0.1:1/x", "mxc://", "mxc://a", "mxc://a/../b", "mxc:///x"] {
        let error = bot.fetch_file(&file(address), 10).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused, "{address}: {error}");
    }
    let url = server.add_media("m1", "text/plain", b"new");
    assert_eq!(bot.fetch_file(&file(&url), 10).await.unwrap(), b"new");
    server.use_old_media();
    assert_eq!(bot.fetch_file(&file(&url), 10).await.unwrap(), b"new");
    assert!(server.calls("GET download").iter().all(|call| call.path.contains("test.example")));
}
