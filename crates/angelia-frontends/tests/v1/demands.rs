//! Requirements for an answer (a schema, a tool call) are checked, repaired once, or else refused.

use serde_json::{Value, json};

use crate::harness::{ModelApiHarness, ModelApiRequest, assistant, call, input_text, tool, user};

fn schema() -> Value {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    json!({"type": "json_schema", "json_schema": {"name": "out", "schema": schema}})
}

#[tokio::test]
async fn a_form_is_checked_and_repaired_once() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("give")]).with("response_format", schema());
    let answer = stage.send(&ask);
    let run = stage.run().await;
    assert!(run.spec.output_schema.is_some());
    run.emit_answer(0, "I think about it.").await;
    run.complete("{}");
    let repair = stage.run().await;
    assert!(
        input_text(&repair).contains("\"a\" is a required property"),
        "{}",
        input_text(&repair)
    );
    repair.complete(r#"{"a": 1}"#);
    let answer = answer.await.unwrap();
    assert_eq!(answer.content(), r#"{"a": 1}"#);
    assert_eq!(stage.agents_opened(), 1);
}

/// Models like to wrap JSON in a code block. The caller gets the JSON, without a second turn.
#[tokio::test]
async fn fenced_json_is_unwrapped() {
    for (format, stream) in [(json!({"type": "json_object"}), false), (schema(), true)] {
        let stage = ModelApiHarness::new();
        let ask = ModelApiRequest::new([user("give")])
            .with("response_format", format)
            .with("stream", stream);
        let answer = stage.send(&ask);
        let run = stage.run().await;
        run.emit_answer(0, "```json\n{\"a\": 1}\n```").await;
        run.complete("```json\n{\"a\": 1}\n```");
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let content = if stream { answer.streamed() } else { answer.content() };
        assert_eq!(content, r#"{"a": 1}"#, "{answer:?}");
    }
}

#[tokio::test]
async fn what_stays_wrong_is_refused() {
    for stream in [false, true] {
        let stage = ModelApiHarness::new();
        let ask = ModelApiRequest::new([user("give")])
            .with("response_format", json!({"type": "json_object"}))
            .with("stream", stream);
        let answer = stage.send(&ask);
        stage.run().await.complete("no");
        stage.run().await.complete("still no");
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.error().contains("not JSON"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_demanded_call_is_instructed_checked_and_repaired() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("weather?")])
        .with("tools", json!([tool("find")]))
        .with("tool_choice", "required");
    let answer = stage.send(&ask);
    let run = stage.run().await;
    assert!(input_text(&run).starts_with("weather?|["), "{}", input_text(&run));
    run.complete("I would rather not.");
    let repair = stage.run().await;
    call(&repair, &["t1"], "find").await;
    let answer = answer.await.unwrap();
    assert_eq!(answer.json()["choices"][0]["finish_reason"], "tool_calls");

    let stage = ModelApiHarness::new();
    let answer = stage.send(&ask);
    stage.run().await.complete("no");
    stage.run().await.complete("no!");
    assert_eq!(answer.await.unwrap().status, 422);
}

#[tokio::test]
async fn no_tools_are_offered_where_none_may_be_called() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("weather?")])
        .with("tools", json!([tool("find")]))
        .with("tool_choice", "none");
    let answer = stage.send(&ask);
    let run = stage.run().await;
    assert!(run.spec.caller_tools.is_empty());
    run.complete("no idea");
    assert_eq!(answer.await.unwrap().content(), "no idea");
}

/// Python's `json.dumps` writes both of these.
#[tokio::test]
async fn half_a_character_is_replaced_and_no_number_is_named() {
    let stage = ModelApiHarness::new();
    let tool_use = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "t", "name": "find", "input": {"q": "HALF"}},
    ]});
    let result = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": "HALF"},
    ]});
    let turns = [user("look"), tool_use, result, assistant("HALF"), user("emoji HALF")];
    let ask = ModelApiRequest::messages(turns);
    let replaced = |from: &str, to: &str| {
        let (parts, _) = ask.request().into_parts();
        let body = ask.body.to_string().replace(from, to);
        axum::http::Request::from_parts(parts, axum::body::Body::from(body))
    };
    let answer = stage.raw(replaced("HALF", r"\ud83d"));
    let turn = async {
        let run = stage.run().await;
        assert!(input_text(&run).contains("emoji \u{fffd}"), "{}", input_text(&run));
        run.complete("seen");
    };
    let (answer, ()) = tokio::join!(answer, turn);
    assert_eq!(answer.status, 200, "{answer:?}");

    let asks = [
        (ModelApiRequest::new([user("x")]).with("temperature", "HALF"), "temperature"),
        (
            ModelApiRequest::messages([json!({"role": "user", "content": [{"type": "HALF"}]})]),
            "messages.0.content.0.type",
        ),
        (ModelApiRequest::responses(json!({"model": "m", "input": "HALF"})), "input"),
    ];
    for (ask, field) in asks {
        let (parts, _) = ask.request().into_parts();
        let body = ask.body.to_string().replace(r#""HALF""#, "NaN");
        let request = axum::http::Request::from_parts(parts, axum::body::Body::from(body));
        let answer = stage.raw(request).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.error().contains(&format!("{field}: NaN is not a number")), "{answer:?}");
    }
}
