//! What errors mean.

use std::time::Duration;

use angelia_executors::native::provider::{ErrorClass, ErrorReply, ProviderError};

fn error(status: u16, headers: &[(&str, &str)], body: &str) -> ProviderError {
    let now = "2026-11-17T08:00:00Z".parse().unwrap();
    ProviderError::from_reply(&ErrorReply { status, headers, body, now })
}

#[test]
fn type_and_words_decide_before_the_status() {
    use ErrorClass::{
        Auth, Billing, Forbidden, Invalid, NotFound, Overloaded, RateLimited, ReasoningRejected,
        Refused, SchemaRejected, Unavailable,
    };
    let table = [
        (
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_1"}"#,
            Auth,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"You're out of extra usage. Add more."}}"#,
            Billing,
        ),
        (403, r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#, Forbidden),
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
            NotFound,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
            RateLimited,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Overloaded,
        ),
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            Unavailable,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#,
            ReasoningRejected,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."}}"#,
            ReasoningRejected,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
            Billing,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
            RateLimited,
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            Auth,
        ),
        (404, r#"{"error":{"message":"no such model","code":"model_not_found"}}"#, NotFound),
        (
            400,
            r#"{"error":{"message":"The encrypted content could not be verified.","code":"invalid_encrypted_content"}}"#,
            ReasoningRejected,
        ),
        (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, Billing),
        (
            403,
            r#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"x"}}}"#,
            Refused,
        ),
        (403, r#"{"error":"personal-team-blocked:spending-limit: raise it","code":"x"}"#, Billing),
        (429, r#"{"error":{"code":"1305","message":"busy"}}"#, Overloaded),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            Unavailable,
        ),
        (
            400,
            r#"{"error":{"message":"failed to parse grammar","type":"invalid_request_error"}}"#,
            SchemaRejected,
        ),
        (400, r#"{"error":{"message":"temperature is wrong"}}"#, Invalid),
        (502, "<html>Bad gateway</html>", Unavailable),
        (408, "", Unavailable),
    ];
    for (status, body, class) in table {
        let error = error(status, &[], body);
        assert_eq!(error.class, class, "{status} {body}");
        assert_eq!(error.is_transient(), matches!(class, RateLimited | Overloaded | Unavailable));
    }
}

#[test]
fn what_is_wrong_with_an_image_is_told_apart() {
    use ErrorClass::{ImageRefused, ImageTooLarge, ImageUnreadable};
    let table = [
        (400, r#"{"error":{"message":"This model does not support image input"}}"#, ImageRefused),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"}}"#,
            ImageTooLarge,
        ),
        (
            400,
            r#"{"error":{"message":"At least one of the image dimensions exceed max allowed size: 8000 pixels"}}"#,
            ImageTooLarge,
        ),
        (413, r#"{"error":{"message":"The image is too large."}}"#, ImageTooLarge),
        (400, r#"{"error":{"message":"Could not process image"}}"#, ImageUnreadable),
    ];
    for (status, body, class) in table {
        let error = error(status, &[], body);
        assert_eq!(error.class, class, "{status} {body}");
        assert!(!error.is_transient(), "{status} {body}");
    }
}

#[test]
fn every_spelling_of_an_overflow_is_known() {
    let table = [
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            Some(200_000),
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            None,
        ),
        (400, r#"{"message":"Input is too long for requested model."}"#, None),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","code":"context_length_exceeded"}}"#,
            Some(128_000),
        ),
        (
            400,
            r#"{"error":{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}"#,
            Some(1_048_576),
        ),
        (
            400,
            r#"{"error":"This model's maximum prompt length is 131072 but the request contains 200000 tokens."}"#,
            Some(131_072),
        ),
        (
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion."}}"#,
            None,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
            Some(4_096),
        ),
        (
            400,
            r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}"#,
            None,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144"}}"#,
            Some(262_144),
        ),
        (
            422,
            r#"{"message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}"#,
            Some(32_768),
        ),
        (400, r#"{"error":{"message":"invalid params, context window exceeds limit"}}"#, None),
        (
            500,
            r#"{"error":{"message":"The prompt is longer than the model's context length"}}"#,
            None,
        ),
        (400, "", None),
        (413, "", None),
    ];
    for (status, body, window) in table {
        assert_eq!(error(status, &[], body).class, ErrorClass::Overflow { window }, "{body}");
    }
    let limited = r#"{"error":{"message":"Rate limit: reduce the length of requests"}}"#;
    assert_eq!(error(429, &[], limited).class, ErrorClass::RateLimited);
}

#[test]
fn a_limit_of_output_is_no_overflow() {
    let table = [
        (
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for m",
            Some(64_000),
        ),
        (
            "max_tokens is too large: 90000. This model supports at most 16384 completion tokens",
            Some(16_384),
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context \
             length is 4096 tokens and your request has 1000 input tokens (4000 > 4096 - 1000).",
            Some(3_096),
        ),
    ];
    for (message, limit) in table {
        let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        assert_eq!(error(400, &[], &body).class, ErrorClass::OutputCap { limit }, "{message}");
    }
}

#[test]
fn a_provider_says_when_to_come_again() {
    let wait = |headers: &[(&str, &str)], body: &str| error(429, headers, body).retry_after;
    let table = [
        (vec![("retry-after", "2")], Some(2.0)),
        (vec![("retry-after", "2"), ("retry-after-ms", "1500")], Some(1.5)),
        (vec![("retry-after", "Tue, 17 Nov 2026 08:00:30 GMT")], Some(30.0)),
        (vec![("retry-after", "Tue, 17 Nov 2026 07:00:00 GMT")], Some(0.0)),
        (
            vec![
                ("anthropic-ratelimit-tokens-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "2026-11-17T08:01:00Z"),
                ("anthropic-ratelimit-requests-remaining", "9"),
                ("anthropic-ratelimit-requests-reset", "2026-11-17T09:00:00Z"),
            ],
            Some(60.0),
        ),
        (
            vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")],
            Some(360.0),
        ),
        (vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794902405000")], Some(5.0)),
        (vec![("retry-after", "soon")], None),
        (vec![("retry-after", "-1")], None),
    ];
    for (headers, seconds) in table {
        assert_eq!(wait(&headers, "{}"), seconds.map(Duration::from_secs_f64), "{headers:?}");
    }
    let words =
        r#"{"error":{"message":"Rate limit reached. Please try again in 11.05s. Visit us."}}"#;
    assert_eq!(wait(&[], words), Some(Duration::from_secs_f64(11.05)));
    let refused = error(500, &[("x-should-retry", "false"), ("x-request-id", "req_9")], "{}");
    assert!(!refused.is_transient());
    assert_eq!(refused.request_id.as_deref(), Some("req_9"));
    assert!(error(400, &[("x-should-retry", "true")], "{}").is_transient());
}

#[test]
fn the_error_behind_an_aggregator_is_shown() {
    let body = r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"provider_name":"P","raw":"{\"error\":{\"message\":\"P is busy\",\"type\":\"rate_limit_error\"}}"}}}"#;
    let error = error(429, &[], body);
    assert!(error.is_upstream);
    assert_eq!((&*error.message, error.class), ("P is busy", ErrorClass::RateLimited));
}
