//! E28: which errors are told at once, and in whose words; `clocks` has those that are waited out.

use std::time::Duration;

use angelia_core::model::FailureKind;
use angelia_executors::scripted_model::{ApiError, Reply};

use crate::loop_lab::{calls, in_each_api, run_call};

#[tokio::test]
async fn e28_what_the_provider_calls_final_is_final() {
    in_each_api(async |lab| {
        let reply = Reply::status_with(500, "this will not get better");
        let output = lab.turn([reply.with_header("x-should-retry", "false")]).await;
        let failure = output.failure();
        assert!(failure.message.contains("this will not get better"), "{failure:?}");
    })
    .await;
}

#[tokio::test]
async fn e27_errors_of_the_account_are_told_at_once_and_in_the_providers_words() {
    in_each_api(async |lab| {
        let table = [
            (Reply::error(ApiError::InsufficientQuota), FailureKind::Refused, ""),
            (Reply::status_with(401, "that key is not known"), FailureKind::Auth, "not known"),
            (Reply::status_with(403, "not in your plan"), FailureKind::Refused, "in your plan"),
            (Reply::status_with(404, "no model m here"), FailureKind::Invalid, "no model m"),
        ];
        for (reply, kind, words) in table {
            let output = lab.turn([reply]).await;
            let failure = output.failure();
            assert_eq!(failure.kind, kind, "{failure:?}");
            assert!(failure.message.contains(words), "{failure:?}");
        }
    })
    .await;
}

/// A long wait is not sat out inside a turn.
#[tokio::test]
async fn e28_a_limit_that_lasts_longer_than_a_minute_ends_the_turn() {
    in_each_api(async |lab| {
        let output = lab.turn([Reply::status(429).with_header("retry-after", "3600")]).await;
        let failure = output.failure();
        assert_eq!(failure.kind, FailureKind::RateLimited, "{failure:?}");
        assert_eq!(failure.retry_after, Some(Duration::from_hours(1)), "{failure:?}");
    })
    .await;
}

#[tokio::test]
async fn e28_an_overflow_that_cannot_be_helped_is_told_as_such_and_what_was_done_stays_done() {
    in_each_api(async |lab| {
        // There is no summary either: its request is too long however much is left out of it.
        let overflow = || Reply::error(ApiError::Overflow { window: 4_096 });
        let output = lab.turn([calls([run_call()]), overflow(), overflow()]).await;
        let failure = output.failure();
        assert!(failure.message.contains("4096"), "{failure:?}");
        assert!(failure.hint.is_some(), "what to do is said: {failure:?}");
        assert_eq!(lab.runs(), 1);
    })
    .await;
}

#[tokio::test]
async fn e28_a_limit_of_output_that_is_too_high_is_lowered() {
    in_each_api(async |lab| {
        let mut spec = lab.spec();
        spec.native.max_output_tokens = Some(9_000);
        let cap = Reply::error(ApiError::OutputCap { limit: 777 });
        let output = lab.turn_with(&spec, [cap, Reply::text("done")]).await;
        assert_eq!(output.answer(), "done");
        let body = lab.last_request().body;
        let fields = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        let limit = fields.iter().find_map(|field| body[*field].as_u64());
        assert_eq!(limit, Some(777), "{body}");
    })
    .await;
}
