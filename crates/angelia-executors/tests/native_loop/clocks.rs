//! E28, E32: how long the loop waits, on paused time. Nothing here sleeps for real, so the lengths are
//! exact, apart from the share that is left to chance.

use std::time::{Duration, SystemTime};

use angelia_core::{
    model::{Content, EventKind, FailureKind, TurnStatus},
    ports::{AgentEvent, TurnControl},
};
use angelia_executors::scripted_model::{Fault, Reply, ReplyBlock, StreamBreak};
use angelia_testkit::direct_session::TurnHandle;
use jiff::{Timestamp, fmt::rfc2822};
use tokio::time::Instant;

use crate::{
    loop_lab::{calls, detail_of},
    paused_lab::{RINGS_AFTER, in_each_api_paused},
};

/// The timer has a resolution of a millisecond.
const TICK: Duration = Duration::from_millis(2);

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Asserts that a wait was this long, or up to a quarter shorter.
#[track_caller]
fn assert_backoff(pause: Duration, full: f64) {
    let full = seconds(full);
    assert!((full.mul_f64(0.75)..=full + TICK).contains(&pause), "{pause:?} of {full:?}");
}

#[track_caller]
fn assert_exact(pause: Duration, wanted: Duration) {
    assert!((wanted..=wanted + TICK).contains(&pause), "{pause:?} instead of {wanted:?}");
}

#[tokio::test(start_paused = true)]
async fn e28_a_server_that_is_overloaded_is_asked_again_with_growing_waits() {
    in_each_api_paused(async |lab| {
        let replies = [529, 503, 500, 502, 408].map(Reply::status);
        let output = lab.turn(replies.into_iter().chain([Reply::text("done")])).await;
        assert_eq!(output.answer(), "done");
        for (pause, full) in lab.pauses::<5>().into_iter().zip([0.5, 1.0, 2.0, 4.0, 8.0]) {
            assert_backoff(pause, full);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e28_a_server_that_stays_down_is_given_up_after_five_more_attempts() {
    in_each_api_paused(async |lab| {
        let output = lab.turn((0..6).map(|_| Reply::status(500))).await;
        assert_eq!(output.failure().kind, FailureKind::Unavailable, "{output:#?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e28_a_wait_that_the_provider_asks_for_is_kept_in_any_form() {
    in_each_api_paused(async |lab| {
        let at = Timestamp::try_from(SystemTime::now() + Duration::from_secs(30)).unwrap();
        let at = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap();
        let replies = [
            Reply::status(429).with_header("retry-after", "7"),
            Reply::status(429).with_header("retry-after", at),
            Reply::status(500).with_header("retry-after-ms", "40"),
            Reply::text("done"),
        ];
        let output = lab.turn(replies).await;
        assert_eq!(output.answer(), "done");
        let [named, dated, exact] = lab.pauses();
        assert_exact(named, Duration::from_secs(7));
        // A date has whole seconds, and the clock of the machine goes on.
        assert!((25..=30).contains(&dated.as_secs()), "{dated:?}");
        assert_exact(exact, Duration::from_millis(40));
        assert!(output.notices().iter().any(|notice| &*notice.code == "rate_limited"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e28_the_clock_of_silence_rings_whatever_the_connection_does() {
    in_each_api_paused(async |lab| {
        for fault in [Fault::HangHeaders, Fault::KeepAlives] {
            let output = lab.turn([Reply::fault(fault), Reply::text("done")]).await;
            assert_eq!(output.answer(), "done", "{fault:?}");
            let [pause] = lab.pauses();
            assert_backoff(pause.checked_sub(RINGS_AFTER).unwrap(), 0.5);
            detail_of(&output, "stream_dropped");
        }
        // After words, what was shown stays, and the answer goes on.
        let first = calls([ReplyBlock::Text("some words".into())]);
        for cut in [StreamBreak::Hang, StreamBreak::KeepAlives] {
            let output = lab.turn([first.clone().with_cut(cut), Reply::text("the rest")]).await;
            assert!(output.answer().ends_with("the rest"), "{output:#?}");
            let [pause] = lab.pauses();
            assert_backoff(pause.checked_sub(RINGS_AFTER).unwrap(), 0.5);
            let detail = detail_of(&output, "stream_dropped");
            assert!(detail["cause"].to_string().contains("said nothing"), "{detail}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e28_a_model_that_writes_slowly_is_not_interrupted() {
    in_each_api_paused(async |lab| {
        let begun = Instant::now();
        let slow = Reply::words(4, RINGS_AFTER.mul_f64(0.25)).with_wait(RINGS_AFTER.mul_f64(0.9));
        let output = lab.turn([slow]).await;
        assert!(output.answer().contains("w3"), "{output:#?}");
        assert!(begun.elapsed() > RINGS_AFTER * 2, "{:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e28_continuations_wait_longer_each_time_and_are_two_at_most() {
    in_each_api_paused(async |lab| {
        let cut = || calls([ReplyBlock::Text("words".into())]).with_cut(StreamBreak::Reset);
        let output = lab.turn([cut(), cut(), cut()]).await;
        assert_eq!(output.failure().kind, FailureKind::Unavailable, "{output:#?}");
        let [first, second] = lab.pauses();
        assert_backoff(first, 0.5);
        assert_backoff(second, 1.0);
    })
    .await;
}

/// Says something to the turn, or ends it, when the first request has failed.
fn during_the_wait(control: Option<TurnControl>) -> impl FnMut(&AgentEvent, &TurnHandle) + Send {
    let mut control = Some(control);
    move |event: &AgentEvent, hands: &TurnHandle| {
        let is_retry = matches!(event, AgentEvent::Event(EventKind::Notice(notice))
            if &*notice.code == "retrying");
        match control.take_if(|_| is_retry) {
            Some(Some(control)) => hands.send_control(control),
            Some(None) => hands.cancel.cancel(),
            None => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e32_words_that_come_while_a_retry_waits_are_delivered_once() {
    in_each_api_paused(async |lab| {
        lab.model.script([Reply::status(529), Reply::text("an answer"), Reply::text("and more")]);
        let mut session = lab.open().await;
        let words = TurnControl::Steer(vec![Content::text("and this?")]);
        let output = session.prompt_watched("go on", during_the_wait(Some(words))).await;
        session.close().await;
        assert!(output.answer().ends_with("and more"), "{output:#?}");
        assert!(output.notices().iter().all(|notice| &*notice.code != "undelivered"));
        let said = lab.model.model_requests();
        let carriers =
            said.iter().filter(|request| request.json().to_string().contains("and this?"));
        assert_eq!(carriers.count(), 1, "{said:#?}");
        assert!(lab.last_request().last_text().ends_with("and this?"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e28_an_interrupt_ends_the_wait_for_a_retry_at_once() {
    in_each_api_paused(async |lab| {
        lab.model.script([Reply::status(529).with_header("retry-after", "40")]);
        let mut session = lab.open().await;
        let begun = Instant::now();
        let output = session.prompt_watched("go on", during_the_wait(None)).await;
        assert!(matches!(output.outcome.status, TurnStatus::Interrupted), "{output:#?}");
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        lab.model.script([Reply::text("still here")]);
        assert_eq!(session.prompt("and then").await.answer(), "still here");
        session.close().await;
    })
    .await;
}
