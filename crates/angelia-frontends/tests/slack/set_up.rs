//! The check of an app finds the mistakes that people make, and no error shows a token.

use angelia_core::ports::{Channel as _, ConnectionErrorKind};
use angelia_frontends::chat::slack::Slack;
use angelia_testkit::slack_server::{APP_TOKEN, BOT_TOKEN, SlackServer};

use super::adapter;

#[tokio::test]
async fn missing_scopes_are_named() {
    let server = SlackServer::start();
    let findings = adapter(&server).check().await.unwrap();
    assert!(findings.iter().all(|finding| !finding.is_problem), "{findings:?}");
    assert!(findings[0].text.contains("@fakebot"), "{findings:?}");
    assert_eq!(server.sockets_opened(), 0, "a check takes no events");
    server.set_scopes("chat:write,im:history,app_mentions:read,channels:history,groups:history");
    let findings = adapter(&server).check().await.unwrap();
    let problems: Vec<&str> =
        findings.iter().filter(|one| one.is_problem).map(|one| one.text.as_str()).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("files:read") && problems[1].contains("files:write"));
}

#[tokio::test]
async fn each_token_is_named_when_it_is_wrong_and_never_shown() {
    let server = SlackServer::start();
    let url = server.base_url();
    for (bot, app, named) in
        [("xoxb-wrong", APP_TOKEN, "bot_token"), (BOT_TOKEN, "xapp-wrong", "app_token")]
    {
        let slack = Slack::new(bot, app, Some(&url)).unwrap();
        let error = slack.check().await.unwrap_err();
        assert_eq!(error.kind, ConnectionErrorKind::Refused);
        assert!(error.message.contains(named) && !error.message.contains("wrong"), "{error}");
        assert!(!format!("{slack:?}").contains("wrong"));
    }
    assert!(Slack::new(APP_TOKEN, BOT_TOKEN, None).is_err(), "the tokens are swapped");
    assert!(Slack::new(BOT_TOKEN, BOT_TOKEN, None).is_err());
    let plain = Slack::new(BOT_TOKEN, APP_TOKEN, Some("http://example.com"));
    assert!(plain.unwrap_err().to_string().contains("unencrypted"));
}
