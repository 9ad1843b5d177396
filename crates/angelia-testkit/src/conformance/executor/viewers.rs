//! Viewers that are slow or have disconnected: none of them may block an agent forever.

use std::time::Duration;

use angelia_core::model::{Content, TurnOrigin, TurnStatus};

use super::{
    ExecutorFixture,
    session::{TurnSettings, TurnViewer, open},
};

/// Receives one batch at a time, with a delay before each.
const SLOW_VIEWER: TurnSettings =
    TurnSettings { origin: TurnOrigin::Owner, capacity: 1, pace: Some(Duration::from_millis(2)) };

pub async fn no_viewer_holds_an_agent_up(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    // A slow viewer gets every event.
    let input = vec![Content::text(fixture.words_prompt(300, Duration::ZERO))];
    let heard = session.turn(input, SLOW_VIEWER, async |_| {}).await;
    assert_eq!(heard.answer_or_blocks().split_whitespace().count(), 300);
    assert_eq!(heard.deltas().split_whitespace().count(), 300);

    // A slow viewer can interrupt, although there are always more events to read.
    let forever = fixture.words_prompt(4_000, Duration::from_millis(10));
    let input = vec![Content::text(forever.as_str())];
    let viewer = async |view: &mut TurnViewer| {
        view.until_delta().await;
        view.cancel();
    };
    let heard = session.turn(input, SLOW_VIEWER, viewer).await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");

    // The agent does not wait for a viewer that has disconnected.
    let ended = session.prompt_unread(forever).await;
    assert_eq!(ended.status, TurnStatus::Interrupted, "{ended:#?}");
    let heard = session.prompt(fixture.say_prompt("to somebody")).await;
    assert!(heard.answer_or_blocks().contains("to somebody"));
    session.close().await;
}
