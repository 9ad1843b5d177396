//! The rates of Telegram are kept, counted at the server.

use std::time::{Duration, Instant};

use angelia_core::ports::{Channel as _, OutgoingMessage};
use angelia_testkit::telegram_server::TelegramServer;

#[tokio::test]
async fn one_message_a_second_for_each_chat_and_chats_do_not_wait_for_each_other() {
    let server = TelegramServer::start();
    let bot = super::adapter(&server);
    let send = |chat: &'static str, text: &'static str| {
        let bot = bot.clone();
        async move {
            let message = OutgoingMessage { text: text.into(), ..OutgoingMessage::default() };
            bot.send(chat, &message).await.unwrap();
        }
    };
    let begin = Instant::now();
    tokio::join!(send("7", "a"), send("7", "b"), send("7", "c"), send("8", "d"));
    let calls = server.calls("sendMessage");
    let times: Vec<_> =
        calls.iter().filter(|call| call.fields["chat_id"] == 7).map(|call| call.at).collect();
    // The requests of a busy machine arrive late, never early.
    for (at, seconds) in times.iter().zip(0..) {
        assert!(*at >= begin + Duration::from_secs(seconds), "{times:?}");
    }
    let other = calls.iter().find(|call| call.fields["chat_id"] == 8).unwrap();
    assert!(other.at < times[1], "the other chat did not wait");
}
