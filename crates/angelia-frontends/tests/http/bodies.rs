//! Invalid requests: unknown paths and methods, garbage, oversized bodies.

use axum::{
    body::Body,
    http::{Method, Request},
};
use serde_json::json;

use crate::harness::{ApiHarness, request};

fn with_body(path: &str, body: impl Into<Body>) -> Request<Body> {
    let (parts, _) = request(Method::POST, path, None).into_parts();
    Request::from_parts(parts, body.into())
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_have_the_shape_of_errors() {
    let stage = ApiHarness::new();
    for path in ["/nothing", "/api", "/api/", "/api/nothing", "/api/sessions/", "/healthz/x"] {
        let (status, kind, message) = stage.call(Method::GET, path, None).await.error();
        assert_eq!((status, kind.as_str()), (404, "not_found"));
        assert!(message.contains(path), "{message}");
    }
    let wrong = [
        (Method::PUT, "/api/sessions", "GET,HEAD,POST"),
        (Method::POST, "/api/turns", "GET,HEAD"),
        (Method::GET, "/api/turns/x/interrupt", "POST"),
        (Method::DELETE, "/healthz", "GET,HEAD"),
    ];
    for (method, path, allowed) in wrong {
        let answer = stage.call(method, path, None).await;
        assert_eq!(answer.error().0, 405);
        assert_eq!(answer.headers["allow"], allowed, "{path}");
    }
    for id in ["x", "00000000-0000-0000-0000-00000000000", "%00", "..", "%2e%2e%2f"] {
        let answer = stage.call(Method::GET, &format!("/api/sessions/{id}"), None).await;
        assert_eq!(answer.error().0, 404, "{id}");
    }
}

#[tokio::test]
async fn a_wrong_field_is_named_by_its_place() {
    let stage = ApiHarness::new();
    let id = stage.session().await;
    let turns = format!("/api/sessions/{id}/turns");
    let image = |media_type: &str, data: &str| json!({"input": [{"type": "text", "text": "see"}, {"type": "image", "media_type": media_type, "data": data}]});
    let cases = [
        ("/api/sessions", json!({"profil": "x"}), "profil: unknown field `profil`"),
        ("/api/sessions", json!({"title": 7}), "title: invalid type: integer `7`"),
        ("/api/sessions", json!([]), "the body: "),
        (turns.as_str(), json!({}), "missing field `input`"),
        (
            &turns,
            json!({"input": 7}),
            "input: invalid type: integer `7`, expected a string or a list of blocks",
        ),
        (&turns, json!({"input": " \n"}), "input: there must be some text"),
        (&turns, json!({"input": []}), "input: there must be some text or an image"),
        (
            &turns,
            json!({"input": [{"type": "text", "text": ""}]}),
            "input: there must be some text or an image",
        ),
        (&turns, json!({"input": ["x"]}), "input[0]: invalid type: string"),
        (
            &turns,
            json!({"input": [{"type": "song"}]}),
            "input[0]: a block of type `song` is not known",
        ),
        (
            &turns,
            json!({"input": [{"type": "text", "text": "x", "data": "x"}]}),
            "input[0]: a text block has `text`",
        ),
        (&turns, image("image/png", "no base64!"), "input[1]: `data` is not base64"),
        (&turns, image("image/tiff", ""), "input[1]: `media_type` must be one of"),
        (&turns, json!({"input": "x", "can_ask": "yes"}), "can_ask: invalid type"),
        (
            "/api/turns/00000000-0000-0000-0000-000000000009/interrupt",
            json!({"kill": 1}),
            "kill: invalid type",
        ),
        (
            "/api/approvals/00000000-0000-0000-0000-000000000009",
            json!({"verdict": "maybe"}),
            "verdict: `maybe` is not a verdict; use one of once, session, always, deny, stop",
        ),
        (
            "/api/approvals/00000000-0000-0000-0000-000000000009",
            json!({"verdict": "once", "answers": ["x"]}),
            "answers: invalid type",
        ),
    ];
    for (path, body, why) in cases {
        let answer = stage.call(Method::POST, path, Some(body.clone())).await;
        let (status, kind, message) = answer.error();
        assert_eq!((status, kind.as_str()), (400, "invalid"), "{body}");
        assert!(message.contains(why), "{body}: {message}");
    }
    let path = format!("/api/sessions/{id}");
    let no_title = stage.call(Method::PATCH, &path, Some(json!({}))).await;
    assert!(no_title.error().2.contains("missing field `title`"));
}

#[tokio::test]
async fn garbage_is_a_bad_request_and_nothing_worse() {
    let stage = ApiHarness::new();
    let id = stage.session().await;
    let deep = "[".repeat(100_000);
    let garbage: [&[u8]; 7] = [
        b"{",
        b"nonsense",
        b"\0\0\0\0",
        b"\xff\xfe{}",
        b"{} {}",
        b"\x1f\x8b\x08\x00",
        deep.as_bytes(),
    ];
    for path in ["/api/sessions".to_owned(), format!("/api/sessions/{id}/turns")] {
        for bytes in garbage {
            let answer = stage.send(with_body(&path, bytes.to_vec())).await;
            let (status, kind, _) = answer.error();
            assert_eq!((status, kind.as_str()), (400, "invalid"), "{}", bytes.escape_ascii());
        }
    }
}

#[tokio::test]
async fn what_is_no_character_is_replaced_and_other_near_json_names_its_field() {
    let stage = ApiHarness::new();
    let id = stage.session().await;
    let path = format!("/api/sessions/{id}/turns");
    let body = b"\xef\xbb\xbf{\"input\":\"echo a\\ud83db\xffc\\ud83d\\ude00\"}".to_vec();
    let turn = stage.send(with_body(&path, body)).await.success_json();
    let events = stage.events(turn["id"].as_str().unwrap(), 0).await;
    assert!(events.contains("a\u{fffd}b\u{fffd}c\u{1f600}"), "{events}");
    for (body, why) in [
        (r#"{"input":NaN}"#, "input: NaN is not a number in JSON"),
        ("{\"input\":\"a\nb\"}", "input: the control character U+000A"),
        (r#"{"input":"x","max_cost_usd":Infinity}"#, "max_cost_usd: Infinity"),
        (r#"{"input":"x",}"#, "input: there is a comma before `}`"),
        (r#"{'input':"x"}"#, "the body is not JSON: the next key is not in double quotes"),
    ] {
        let (status, kind, message) = stage.send(with_body(&path, body)).await.error();
        assert_eq!((status, kind.as_str()), (400, "invalid"), "{message}");
        assert!(message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_too_large() {
    let stage = ApiHarness::new();
    let id = stage.session().await;
    let path = format!("/api/sessions/{id}/turns");
    let body = |length: usize| {
        let text = "x".repeat(length - r#"{"input":""}"#.len());
        format!(r#"{{"input":"{text}"}}"#)
    };
    let limit = 64 << 20;
    let largest = stage.send(with_body(&path, body(limit))).await;
    assert_eq!(largest.status.as_u16(), 202, "{}", largest.text);
    let (status, kind, message) = stage.send(with_body(&path, body(limit + 1))).await.error();
    assert_eq!((status, kind.as_str()), (413, "too_large"), "{message}");
    let mut announced = with_body(&path, "{}");
    let length = (1_u64 << 40).into();
    announced.headers_mut().insert("content-length", length);
    assert_eq!(stage.send(announced).await.error().0, 413);
}
