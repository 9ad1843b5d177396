//! E27: several keys of one provider: which of them is used, and what makes it give way to the next.

use std::time::Duration;

use angelia_core::model::FailureKind;
use angelia_executors::{
    native::providers::{KeyRotation, Provider},
    scripted_model::{ApiError, Reply},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    chain_lab::{ChainLab, KEYS, NAMES, in_each_api_chained, keys, limited, pass},
    loop_lab::detail_of,
};

const OWN: &str = NAMES[0];

fn done() -> Reply {
    Reply::text("done")
}

/// Runs a test with a provider that has so many keys and no fallback.
async fn with_keys(count: usize, rotate: KeyRotation, test: impl AsyncFn(ChainLab)) {
    let change = |providers: &mut [Provider; 3]| {
        providers[0].keys = keys(count);
        providers[0].rotate = rotate;
    };
    in_each_api_chained(change, async |lab| test(lab.alone()).await).await;
}

#[tokio::test(start_paused = true)]
async fn e27_a_limited_key_is_asked_once_more_and_then_gives_way_to_the_next() {
    with_keys(3, KeyRotation::FillFirst, async |lab| {
        let begun = Instant::now();
        let busy = || Reply::status_with(429, "slow down");
        let output = lab.turn([(OWN, busy()), (OWN, busy()), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
        assert_eq!(lab.keys_used(), ["KEY_A", "KEY_A", "KEY_B"]);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let detail = detail_of(&output, "key_rotated");
        assert_eq!((&detail["provider"], &detail["reason"]), (&json!(OWN), &json!("slow down")));
        let fingerprints = [&detail["from"], &detail["to"]].map(|one| one.as_str().unwrap().len());
        assert_eq!(fingerprints, [8, 8], "{detail}");
        let told = format!("{output:?}");
        assert!(KEYS.iter().all(|(_, key)| !told.contains(key)), "{told}");
        // The first key rests for a minute.
        lab.turn([(OWN, done())]).await;
        pass(61).await;
        lab.turn([(OWN, done())]).await;
        assert_eq!(lab.keys_used(), ["KEY_B", "KEY_A"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_a_long_limit_gives_way_at_once_and_lasts_as_long_as_the_provider_says() {
    with_keys(2, KeyRotation::FillFirst, async |lab| {
        let output = lab.turn([(OWN, limited(600)), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
        pass(590).await;
        lab.turn([(OWN, done())]).await;
        pass(11).await;
        lab.turn([(OWN, done())]).await;
        assert_eq!(lab.keys_used(), ["KEY_A", "KEY_B", "KEY_B", "KEY_A"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_when_all_keys_are_limited_the_first_to_be_free_is_waited_for() {
    with_keys(2, KeyRotation::FillFirst, async |lab| {
        let begun = Instant::now();
        let output = lab.turn([(OWN, limited(20)), (OWN, limited(50)), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
        assert_eq!(lab.keys_used(), ["KEY_A", "KEY_B", "KEY_A"]);
        assert_eq!(begun.elapsed().as_secs(), 20);
        let output = lab.turn([(OWN, limited(3_600)), (OWN, limited(900))]).await;
        let failure = output.failure();
        assert_eq!(failure.kind, FailureKind::RateLimited);
        assert!(failure.retry_after.unwrap() <= Duration::from_mins(15), "{failure:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_a_refused_key_rests_for_five_minutes_and_a_revoked_one_for_ever() {
    with_keys(2, KeyRotation::FillFirst, async |lab| {
        let refused = Reply::status_with(401, "that key is not known");
        let output = lab.turn([(OWN, refused), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
        detail_of(&output, "key_rotated");
        pass(301).await;
        let revoked = Reply::status_with(401, "this key has been revoked");
        lab.turn([(OWN, revoked), (OWN, done())]).await;
        pass(100 * 3_600).await;
        lab.turn([(OWN, done())]).await;
        assert_eq!(lab.keys_used(), ["KEY_A", "KEY_B", "KEY_A", "KEY_B", "KEY_B"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_without_a_key_that_is_accepted_the_turn_fails_in_the_words_of_the_last() {
    with_keys(2, KeyRotation::FillFirst, async |lab| {
        let refused = |words: &str| Reply::status_with(401, words);
        let output = lab.turn([(OWN, refused("the first")), (OWN, refused("the second"))]).await;
        let failure = output.failure();
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(failure.message.contains("the second"), "{failure:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_a_used_up_balance_gives_way_at_once_and_is_never_asked_again_with_the_same_key() {
    with_keys(2, KeyRotation::FillFirst, async |lab| {
        let unpaid = || Reply::error(ApiError::InsufficientQuota);
        let output = lab.turn([(OWN, unpaid()), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
        pass(3_590).await;
        lab.turn([(OWN, done())]).await;
        assert_eq!(lab.keys_used(), ["KEY_A", "KEY_B", "KEY_B"]);
        pass(11).await;
        let output = lab.turn([(OWN, unpaid()), (OWN, unpaid())]).await;
        assert_eq!(output.failure().kind, FailureKind::Refused);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_what_an_account_may_not_do_is_neither_refreshed_nor_retried() {
    with_keys(2, KeyRotation::FillFirst, async |lab| {
        let output = lab.turn([(OWN, Reply::status_with(403, "not in your plan"))]).await;
        let failure = output.failure();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.message.contains("not in your plan"), "{failure:?}");
        // Some servers refuse a token so that was not accepted.
        let words = "[WKE=unauthenticated:bad-token] no access";
        let output = lab.turn([(OWN, Reply::status_with(403, words)), (OWN, done())]).await;
        assert_eq!(output.answer(), "done");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_a_limit_behind_an_aggregator_never_changes_our_key() {
    with_keys(2, KeyRotation::FillFirst, async |lab| {
        let upstream = || {
            let metadata = json!({"provider_name": "Elsewhere", "raw": "rate-limited upstream"});
            let error = json!({"code": 429, "message": "Provider error", "metadata": metadata});
            Reply::json(429, json!({"error": error}))
        };
        let exchange = [(OWN, upstream()), (OWN, upstream()), (OWN, upstream()), (OWN, done())];
        let output = lab.turn(exchange).await;
        assert_eq!(output.answer(), "done");
        assert_eq!(lab.keys_used(), ["KEY_A"; 4]);
        assert!(output.notices().iter().all(|notice| &*notice.code != "key_rotated"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_round_robin_takes_each_key_in_turn_and_passes_over_one_that_rests() {
    with_keys(3, KeyRotation::RoundRobin, async |lab| {
        let mut session = lab.open().await;
        for _ in 0..4 {
            lab.turn_of(&mut session, [(OWN, done())]).await;
        }
        assert_eq!(lab.keys_used(), ["KEY_A", "KEY_B", "KEY_C", "KEY_A"]);
        lab.turn_of(&mut session, [(OWN, limited(60)), (OWN, done())]).await;
        lab.turn_of(&mut session, [(OWN, done())]).await;
        lab.turn_of(&mut session, [(OWN, done())]).await;
        lab.turn_of(&mut session, [(OWN, done())]).await;
        assert_eq!(lab.keys_used(), ["KEY_B", "KEY_C", "KEY_C", "KEY_A", "KEY_C"]);
        session.close().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_least_used_takes_the_key_with_the_fewest_requests() {
    with_keys(2, KeyRotation::LeastUsed, async |lab| {
        let busy = || Reply::status(529);
        lab.turn([(OWN, busy()), (OWN, busy()), (OWN, done())]).await;
        for _ in 0..4 {
            lab.turn([(OWN, done())]).await;
        }
        assert_eq!(lab.keys_used(), ["KEY_B", "KEY_B", "KEY_B", "KEY_A"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn e27_the_errors_of_a_fallback_do_not_touch_the_keys_of_the_first() {
    let shared = |providers: &mut [Provider; 3]| {
        providers[0].keys = keys(1);
        providers[1].keys = keys(1);
    };
    in_each_api_chained(shared, async |lab| {
        let refused = || Reply::status_with(401, "that key is not known");
        let [own, spare, last] = NAMES;
        lab.turn([(own, limited(20)), (spare, refused()), (last, done())]).await;
        pass(21).await;
        lab.turn([(own, done())]).await;
    })
    .await;
}
