//! The rates of Feishu are kept, counted at the server.

use std::time::{Duration, Instant};

use angelia_core::ports::Channel as _;
use angelia_testkit::feishu_server::FeishuServer;

use super::{adapter, chat, message};

#[tokio::test]
async fn five_messages_a_second_for_each_chat() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    bot.check().await.unwrap();
    let begin = Instant::now();
    let send = |number: usize| {
        let bot = bot.clone();
        async move {
            let id = number.to_string();
            bot.send(&chat(), &message(&id, &id)).await.unwrap();
        }
    };
    futures_util::future::join_all((0..12).map(send)).await;
    // The requests of a busy machine arrive late, never early.
    let times: Vec<_> = server.calls("send").iter().map(|call| call.at - begin).collect();
    for (count, millis) in [(5, 1100), (10, 2200)] {
        let early = times.iter().filter(|at| **at < Duration::from_millis(millis)).count();
        assert!(early <= count, "{times:?}");
    }
}

#[tokio::test]
async fn a_card_grows_at_most_ten_times_a_second() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let begun = bot.begin_stream(&chat(), &message("p", "0")).await.unwrap();
    let start = Instant::now();
    let mut shown = 0;
    for number in 0..60 {
        let text = message("p", &number.to_string());
        shown += usize::from(bot.update_stream(&chat(), &begun, &text).await.is_ok());
    }
    let times: Vec<_> = server.calls("card_text").iter().map(|call| call.at - start).collect();
    assert_eq!(times.len(), shown, "what comes too early is left out");
    let early = times.iter().filter(|at| **at < Duration::from_millis(1100)).count();
    assert!(early <= 10, "{times:?}");
}
