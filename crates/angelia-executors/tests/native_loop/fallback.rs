//! E26: other models answer while the session's own cannot. The scripted providers count who was asked.

use std::time::Duration;

use angelia_core::model::{FailureKind, TokenPrice, Usage};
use angelia_executors::{
    native::providers::{KeySource, Provider},
    scripted_model::{ApiError, Reply, ReplyBlock, StreamBreak},
};
use angelia_testkit::direct_session::{DirectSession, TurnOutput};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    chain_lab::{NAMES, down, in_each_api_chained, keys, limited, pass},
    loop_lab::{call, calls, detail_of},
};

const OWN: &str = NAMES[0];
const SPARE: &str = NAMES[1];
const LAST: &str = NAMES[2];

fn as_they_are(_: &mut [Provider; 3]) {}

fn done() -> Reply {
    Reply::text("done")
}

/// A call that starts no process, because time stands still.
fn note_call() -> Reply {
    calls([
        ReplyBlock::Thinking("a deep thought".into()),
        call("todo", json!({"items": [{"text": "one", "status": "pending"}]})),
    ])
}

fn has_notice(output: &TurnOutput, code: &str) -> bool {
    output.notices().iter().any(|notice| &*notice.code == code)
}

#[tokio::test(start_paused = true)]
async fn e26_a_model_that_stays_down_is_left_at_the_request_boundary_with_everything_said_so_far() {
    in_each_api_chained(as_they_are, async |lab| {
        let busy = || Reply::status_with(529, "too busy now");
        let output = lab
            .turn([
                (OWN, note_call()),
                (OWN, busy()),
                (OWN, busy()),
                (OWN, busy()),
                (OWN, busy()),
                (OWN, busy()),
                (SPARE, done()),
            ])
            .await;
        assert_eq!(output.answer(), "done");
        let detail = detail_of(&output, "fell_back");
        assert_eq!((&detail["from"], &detail["to"]), (&json!("scripted/m"), &json!("spare/m")));
        assert!(detail["reason"].as_str().unwrap().contains("too busy now"), "{detail}");
        let asked = lab.last_request();
        assert_eq!(asked.results().len(), 1, "the call has its result: {asked:#?}");
        assert!(asked.contains("go on"));
        // The thoughts of one provider are not told to another.
        for foreign in ["a deep thought", "c2ln", "c2VhbGVk"] {
            assert!(!asked.contains(foreign), "{foreign}: {asked:#?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_a_limit_is_waited_out_for_five_seconds_and_not_longer() {
    in_each_api_chained(as_they_are, async |lab| {
        let begun = Instant::now();
        let output = lab.turn([(OWN, limited(5)), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
        assert!(!has_notice(&output, "fell_back"));
        assert!(begun.elapsed() >= Duration::from_secs(5));
        let begun = Instant::now();
        let output = lab.turn([(OWN, limited(6)), (SPARE, done())]).await;
        assert_eq!(output.answer(), "done");
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        detail_of(&output, "fell_back");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_without_another_model_a_limit_is_waited_out_for_a_minute() {
    in_each_api_chained(as_they_are, async |lab| {
        let lab = lab.alone();
        let output = lab.turn([(OWN, limited(40)), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
        let output = lab.turn([(OWN, limited(61))]).await;
        assert_eq!(output.failure().kind, FailureKind::RateLimited);
        // The provider decides: the limit may have ended.
        assert_eq!(lab.turn([(OWN, done())]).await.answer(), "done");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_the_change_holds_for_the_turn_is_said_once_and_ends_with_the_cool_down() {
    in_each_api_chained(as_they_are, async |lab| {
        let mut session = lab.open().await;
        let first = [(OWN, limited(30)), (SPARE, note_call()), (SPARE, done())];
        let output = lab.turn_of(&mut session, first).await;
        detail_of(&output, "fell_back");
        assert_eq!(output.started().model.as_deref(), Some("scripted/m"));
        let output = lab.turn_of(&mut session, [(SPARE, done())]).await;
        assert_eq!(output.started().model.as_deref(), Some("spare/m"));
        assert!(!has_notice(&output, "fell_back"), "it was said: {output:#?}");
        pass(31).await;
        let output = lab.turn_of(&mut session, [(OWN, done())]).await;
        let detail = detail_of(&output, "returned");
        assert_eq!((&detail["from"], &detail["to"]), (&json!("spare/m"), &json!("scripted/m")));
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_what_one_session_finds_out_all_sessions_know() {
    in_each_api_chained(as_they_are, async |lab| {
        lab.turn([(OWN, limited(30)), (SPARE, done())]).await;
        let output = lab.turn([(SPARE, done())]).await;
        let detail = detail_of(&output, "fell_back");
        assert!(detail["reason"].as_str().unwrap().contains("429"), "{detail}");
        pass(31).await;
        let output = lab.turn([(OWN, done())]).await;
        assert!(!has_notice(&output, "fell_back"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_a_model_that_fails_again_gets_one_attempt_and_a_pause_of_twice_the_length() {
    in_each_api_chained(as_they_are, async |lab| {
        let mut session = lab.open().await;
        lab.turn_of(&mut session, [(OWN, down("gone")), (SPARE, done())]).await;
        for minutes in [1, 2, 4, 8, 15, 15] {
            pass(minutes * 60 - 2).await;
            lab.turn_of(&mut session, [(SPARE, done())]).await;
            pass(3).await;
            // Not the five attempts of a model that works as a rule.
            lab.turn_of(&mut session, [(OWN, Reply::status(529)), (SPARE, done())]).await;
        }
        pass(15 * 60 + 1).await;
        lab.turn_of(&mut session, [(OWN, done())]).await;
        lab.turn_of(&mut session, [(OWN, Reply::status(529)), (OWN, done())]).await;
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_a_request_that_is_wrong_is_not_sent_to_anybody_else() {
    in_each_api_chained(as_they_are, async |lab| {
        let policy = json!({"error": {"message": "not this", "code": "content_policy_violation"}});
        for reply in [
            Reply::status_with(400, "temperature is wrong"),
            Reply::status_with(404, "no model m here"),
            Reply::error(ApiError::Overflow { window: 4_096 }),
            Reply::json(400, policy),
        ] {
            let output = lab.turn([(OWN, reply)]).await;
            assert!(!has_notice(&output, "fell_back"), "{:?}", output.failure());
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_the_end_of_the_chain_reports_the_first_error() {
    in_each_api_chained(as_they_are, async |lab| {
        let exchange = [(OWN, down("the first")), (SPARE, down("the second")), (LAST, down("x"))];
        let output = lab.turn(exchange).await;
        let failure = output.failure();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.message.contains("the first"), "{failure:?}");
        let codes = output.notices().iter().filter(|notice| &*notice.code == "fell_back").count();
        assert_eq!(codes, 2);
        // Everybody is known to fail: the session's own model is asked all the same, and nobody else.
        let output = lab.turn([(OWN, down("again"))]).await;
        assert!(output.failure().message.contains("again"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_text_that_was_shown_is_continued_by_the_other_model() {
    in_each_api_chained(as_they_are, async |lab| {
        let cut = || calls([ReplyBlock::Text("the begin".into())]).with_cut(StreamBreak::Reset);
        let rest = Reply::text("ning and the end");
        let exchange = [(OWN, cut()), (OWN, cut()), (OWN, cut()), (SPARE, rest)];
        let output = lab.turn(exchange).await;
        assert!(output.answer().ends_with("ning and the end"), "{output:#?}");
        assert!(lab.last_request().ends_with_the_user());
        assert!(lab.last_request().last_text().contains("Continue exactly"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_what_is_wrong_with_the_account_is_a_reason_to_ask_somebody_else() {
    let with_keys = |providers: &mut [Provider; 3]| providers[0].keys = keys(1);
    in_each_api_chained(with_keys, async |lab| {
        for (reply, minutes) in [
            (Reply::status_with(401, "that key is not known"), 5),
            (Reply::status_with(403, "not in your plan"), 1),
            (Reply::error(ApiError::InsufficientQuota), 60),
        ] {
            let output = lab.turn([(OWN, reply), (SPARE, done())]).await;
            detail_of(&output, "fell_back");
            pass(minutes * 60 + 1).await;
            lab.turn([(OWN, done())]).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_a_provider_without_its_key_is_passed_over() {
    let unset = |providers: &mut [Provider; 3]| {
        providers[0].keys = vec![KeySource::Env("NONE".into())];
    };
    in_each_api_chained(unset, async |lab| {
        let output = lab.turn([(SPARE, done())]).await;
        let detail = detail_of(&output, "fell_back");
        assert!(detail["reason"].as_str().unwrap().contains("`NONE` is not set"), "{detail}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_the_cost_and_the_lane_are_those_of_the_models_that_answered() {
    let priced = |providers: &mut [Provider; 3]| {
        providers[1].keys = keys(1);
        for (provider, output) in providers.iter_mut().zip([1.0, 10.0, 100.0]) {
            let price = TokenPrice { input: 0.0, output, cache_read: 0.0, cache_write: 0.0 };
            provider.models.get_mut("m").unwrap().price = Some(price);
        }
    };
    in_each_api_chained(priced, async |lab| {
        let exchange = [(OWN, note_call()), (OWN, down("gone")), (SPARE, done())];
        let output = lab.turn(exchange).await;
        // Every answer has 25 tokens.
        let [first, last] = output.usages().try_into().unwrap();
        let cost = |usage: &Usage| usage.cost_usd.unwrap() * 1e6;
        assert!((cost(first) - 25.0).abs() < 1e-6, "{first:?}");
        assert!((cost(last) - 275.0).abs() < 1e-6, "{last:?}");
        assert_eq!((first.lane.as_deref(), last.lane.as_deref()), (Some("local"), Some("api_key")));
        assert_ne!(first.prefix_sha256, last.prefix_sha256);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e26_a_cost_limit_needs_the_price_of_every_model_of_the_chain() {
    let unpriced = |providers: &mut [Provider; 3]| providers[2].keys = keys(1);
    in_each_api_chained(unpriced, async |lab| {
        let mut spec = lab.spec();
        spec.budgets.cost_usd = Some(1.0);
        let mut session = DirectSession::open(&*lab.place.executor, &spec, None).await.unwrap();
        let output = lab.turn_of(&mut session, []).await;
        assert!(output.failure().message.contains("last/m"), "{:?}", output.failure());
        session.close().await;
    })
    .await;
}
