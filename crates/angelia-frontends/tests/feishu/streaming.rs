//! A card that grows: its sequence over restarts, its end, and what happens when the platform closes it.

use angelia_core::ports::{Channel as _, SendErrorKind, StreamMeans};
use angelia_testkit::feishu_server::{ApiFault, FeishuServer};

use super::{adapter, chat, message};

#[tokio::test]
async fn the_sequence_grows_over_a_restart_and_the_card_is_ended() {
    let server = FeishuServer::start();
    let first = adapter(&server);
    let begun = first.begin_stream(&chat(), &message("p", "so")).await.unwrap();
    first.update_stream(&chat(), &begun, &message("p", "so far")).await.unwrap();
    first.update_stream(&chat(), &begun, &message("p", "so far,")).await.unwrap();
    assert!(server.messages(&chat())[0].is_streaming);
    // Another process has only the id.
    let second = adapter(&server);
    second.update_stream(&chat(), &begun, &message("p", "so far, so")).await.unwrap();
    second.end_stream(&chat(), &begun, &message("a", "so far, **so** good")).await.unwrap();
    let third = adapter(&server);
    third.end_stream(&chat(), &begun, &message("a", "so far, **so** good")).await.unwrap();
    let shown = server.messages(&chat());
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].text.as_str(), shown[0].is_streaming), ("so far, **so** good", false));
    let settings = &server.calls("card_settings")[0].fields["settings"];
    assert!(
        settings.as_str().unwrap().contains("so far"),
        "the list of chats shows it: {settings}"
    );
}

#[tokio::test]
async fn a_stream_that_the_platform_closes_goes_on_as_a_card() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let begun = bot.begin_stream(&chat(), &message("p", "so")).await.unwrap();
    server.close_streams();
    bot.update_stream(&chat(), &begun, &message("p", "so far")).await.unwrap();
    assert_eq!(server.messages(&chat())[0].text, "so far");
    bot.end_stream(&chat(), &begun, &message("a", "the end")).await.unwrap();
    assert_eq!(server.messages(&chat())[0].text, "the end");
    // A clock that was set back.
    let parts: Vec<&str> = begun.message_id.as_deref().unwrap().split('/').collect();
    let late = format!("{}/{}/{}", parts[0], parts[1], i64::from(i32::MAX) * 1000);
    let late = angelia_core::ports::SentMessage { message_id: Some(late.into()) };
    let other = adapter(&server);
    other.end_stream(&chat(), &late, &message("a", "the very end")).await.unwrap();
    assert_eq!(server.messages(&chat())[0].text, "the very end");
}

#[tokio::test]
async fn an_answer_that_is_refused_as_markdown_is_plain() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let begun = bot.begin_stream(&chat(), &message("p", "so")).await.unwrap();
    for operation in ["card_text", "put_card"] {
        let words = "failed to create card content".to_owned();
        server.fail_next(operation, ApiFault::Refuse(230_099, words));
    }
    bot.end_stream(&chat(), &begun, &message("a", "a *b* <c>")).await.unwrap();
    let shown = server.messages(&chat());
    assert_eq!((shown[0].text.as_str(), shown[0].is_streaming), ("a *b* <c>", false));
    // A card that is gone is not written any more; the text goes as a new message.
    server.fail_next("card_text", ApiFault::Refuse(300_302, "card not found".to_owned()));
    let error = bot.end_stream(&chat(), &begun, &message("a", "x")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Refused);
}

#[tokio::test]
async fn a_preview_that_may_have_arrived_is_sent_again_under_its_key() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    server.fail_next("send", ApiFault::Cut);
    let begun = bot.begin_stream(&chat(), &message("p", "so")).await.unwrap();
    bot.end_stream(&chat(), &begun, &message("a", "so it is")).await.unwrap();
    let shown = server.messages(&chat());
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].text, "so it is");
}

#[tokio::test]
async fn an_app_without_the_scope_gets_edits() {
    let server = FeishuServer::start();
    server.remove_scope("cardkit:card:write");
    let bot = adapter(&server);
    assert!(matches!(bot.stream_means(&chat()), StreamMeans::Stream { .. }));
    let begun = bot.begin_stream(&chat(), &message("p", "so")).await.unwrap();
    assert!(matches!(bot.stream_means(&chat()), StreamMeans::Edit { .. }));
    bot.update_stream(&chat(), &begun, &message("p", "so far")).await.unwrap();
    bot.end_stream(&chat(), &begun, &message("a", "so far, so good")).await.unwrap();
    let shown = server.messages(&chat());
    assert_eq!((shown.len(), shown[0].text.as_str()), (1, "so far, so good"));
}
