//! Answers in threads are streams of Slack; elsewhere, and where a stream cannot go on, they are edits. In
//! the end there is one message, with the answer.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{
    BlockKind, Channel as _, OutgoingMessage, RichBlock, SentMessage, Span, SpanStyle, StreamMeans,
};
use angelia_frontends::chat::slack::Slack;
use angelia_testkit::{
    direct_session::wait_until,
    slack_server::{BOT_USER, SlackFault, SlackMessage, SlackServer},
};
use tokio::time::sleep;

use super::{KeptEvents, PERSON, adapter, markdown};

/// A thread in which somebody has mentioned the bot.
struct Thread {
    server: SlackServer,
    slack: Arc<Slack>,
    chat: String,
}

impl Thread {
    async fn open() -> Self {
        let server = SlackServer::start();
        let slack = adapter(&server);
        let kept = KeptEvents::receive(&slack);
        let ts = server.write_in_channel(PERSON, "C1", None, &format!("<@{BOT_USER}> go"));
        wait_until("it arrives", || kept.all().len() == 2).await;
        Self { server, slack, chat: format!("C1#{ts}") }
    }

    async fn begin(&self, text: &str) -> SentMessage {
        self.slack.begin_stream(&self.chat, &markdown(text)).await.unwrap()
    }

    /// Shows the text when the rates allow it.
    async fn show(&self, begun: &SentMessage, text: &OutgoingMessage) {
        for _ in 0..100 {
            match self.slack.update_stream(&self.chat, begun, text).await {
                Ok(()) => return,
                Err(error) => assert!(error.retry_after.is_some(), "{error}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("it was always too early");
    }

    async fn end(&self, begun: &SentMessage, text: &str) {
        self.slack.end_stream(&self.chat, begun, &markdown(text)).await.unwrap();
    }

    fn only_message(&self) -> SlackMessage {
        let mut messages = self.server.messages("C1");
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    fn count(&self, method: &str) -> usize {
        self.server.calls(method).len()
    }
}

/// A text with a line about a tool, as the host shows it.
fn with_tool(text: &str, line: &str) -> OutgoingMessage {
    let mut message = markdown(text);
    let spans = vec![Span { text: line.to_owned(), style: SpanStyle::default() }];
    let block = RichBlock { kind: BlockKind::Text, spans, has_gap: true };
    message.rich.as_mut().unwrap().blocks.push(block);
    OutgoingMessage { passing_blocks: 1, ..message }
}

#[tokio::test]
async fn the_stream_is_the_answer() {
    let thread = Thread::open().await;
    assert!(matches!(thread.slack.stream_means(&thread.chat), StreamMeans::Stream { .. }));
    assert!(matches!(thread.slack.stream_means("DU7"), StreamMeans::Edit { .. }));
    let begun = thread.begin("The first words come").await;
    assert_eq!(thread.only_message().text, "The first words");
    let start = thread.server.calls("chat.startStream").remove(0).fields;
    assert_eq!(
        (&start["recipient_user_id"], &start["recipient_team_id"]),
        (&"U7".into(), &"T0001".into())
    );
    thread.show(&begun, &with_tool("The first words come and then", "⚙ Bash ls")).await;
    let message = thread.only_message();
    assert_eq!(message.text, "The first words come and");
    assert_eq!(message.tasks["tool"], ("⚙ Bash ls".to_owned(), "in_progress".to_owned()));
    thread.end(&begun, "The first words come and then the last.").await;
    let message = thread.only_message();
    assert_eq!(message.text, "The first words come and then the last.");
    assert_eq!(message.tasks["tool"].1, "complete");
    assert_eq!((message.is_streaming, message.edits), (false, 0), "no edit was needed");
    // The end may come again, also from a later process.
    thread.end(&begun, "The first words come and then the last.").await;
    let later = adapter(&thread.server);
    let last = markdown("The first words come and then the last.");
    later.end_stream(&thread.chat, &begun, &last).await.unwrap();
    assert_eq!(thread.only_message().text, "The first words come and then the last.");
    assert_eq!(thread.count("chat.postMessage"), 0);
}

#[tokio::test]
async fn formatting_is_exact_in_the_end() {
    let thread = Thread::open().await;
    let begun = thread.begin("Some **bold** words, a_b").await;
    thread.end(&begun, "Some **bold** words, a_b and `x*y` <!channel>").await;
    let message = thread.only_message();
    assert_eq!(message.text, "Some bold words, a_b and x*y <!channel>");
    assert_eq!((message.is_streaming, message.edits), (false, 1));
    // If the edit fails, the words are there all the same.
    let thread = Thread::open().await;
    let begun = thread.begin("Some **bold** words").await;
    thread.server.fail_next("chat.update", SlackFault::Refuse("edit_window_closed".to_owned()));
    thread.end(&begun, "Some **bold** words, done.").await;
    assert_eq!(thread.only_message().text, "Some bold words, done.");
}

#[tokio::test]
async fn a_text_that_changes_goes_on_by_edits() {
    let thread = Thread::open().await;
    let begun = thread.begin("The first words come").await;
    thread.show(&begun, &markdown("Other words come now")).await;
    let message = thread.only_message();
    assert_eq!((message.text.as_str(), message.edits), ("Other words come now", 1));
    thread.show(&begun, &with_tool("Other words", "⚙ Read x")).await;
    assert_eq!(thread.only_message().text, "Other words\n\n⚙ Read x");
    thread.end(&begun, "The answer.").await;
    assert_eq!(thread.only_message().text, "The answer.");
    assert_eq!(thread.count("chat.stopStream"), 1);
}

#[tokio::test]
async fn a_sealed_stream_goes_on_by_edits() {
    let thread = Thread::open().await;
    let begun = thread.begin("The first words come").await;
    thread.server.seal_streams();
    thread.show(&begun, &markdown("The first words come and go on")).await;
    assert_eq!(thread.only_message().text, "The first words come and go on");
    thread.end(&begun, "The first words come and go on to the end.").await;
    assert_eq!(thread.only_message().text, "The first words come and go on to the end.");
    assert_eq!(thread.count("chat.stopStream"), 0, "nobody stops what is no stream");

    let thread = Thread::open().await;
    let begun = thread.begin("The first words come").await;
    thread.server.seal_streams();
    thread.end(&begun, "The first words come, at last.").await;
    assert_eq!(thread.only_message().text, "The first words come, at last.");
}

#[tokio::test]
async fn a_stream_that_a_killed_process_left_is_ended() {
    let thread = Thread::open().await;
    let begun = thread.begin("The first words come").await;
    let later = adapter(&thread.server);
    later.update_stream(&thread.chat, &begun, &markdown("(failed: killed)")).await.unwrap();
    assert_eq!(thread.only_message().text, "(failed: killed)");
    let begun = thread.begin("Another one comes here").await;
    let last = markdown("(failed: killed)");
    later.end_stream(&thread.chat, &begun, &last).await.unwrap();
    let messages = thread.server.messages("C1");
    assert!(messages.iter().all(|one| one.text == "(failed: killed)" && !one.is_streaming));
}

#[tokio::test]
async fn a_lost_answer_to_the_end_is_no_second_message() {
    let thread = Thread::open().await;
    let begun = thread.begin("The first words come").await;
    thread.server.fail_next("chat.stopStream", SlackFault::Cut);
    let last = markdown("The first words come, and the last.");
    thread.slack.end_stream(&thread.chat, &begun, &last).await.unwrap_err();
    thread.slack.end_stream(&thread.chat, &begun, &last).await.unwrap();
    assert_eq!(thread.only_message().text, "The first words come, and the last.");
}

#[tokio::test]
async fn an_app_without_streams_gets_edits() {
    let thread = Thread::open().await;
    thread.server.forget_method("chat.startStream");
    let begun = thread.begin("The first words come").await;
    assert!(matches!(thread.slack.stream_means(&thread.chat), StreamMeans::Edit { .. }));
    thread.end(&begun, "All of it.").await;
    let message = thread.only_message();
    assert_eq!((message.text.as_str(), message.thread.is_some()), ("All of it.", true));
}
