//! Approvals: listed, decided once, and distinguished from unknown ones.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::ApiHarness;

async fn list(stage: &ApiHarness, query: &str) -> Vec<Value> {
    let list = stage.get(&format!("/api/approvals{query}")).await;
    list["data"].as_array().unwrap().clone()
}

async fn approval_id(stage: &ApiHarness, turn: &str) -> String {
    stage.wait_for_status(turn, "awaiting_approval").await;
    let pending = list(stage, "").await;
    let of_turn = pending.iter().find(|one| one["turn_id"] == turn);
    of_turn.unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn approvals_are_decided_once_with_note_and_answers() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let cases = [
        ("ask", json!({"verdict": "once"}), "once - [] by owner"),
        ("ask", json!({"verdict": "deny", "note": "not today"}), "deny not today [] by owner"),
        (
            "question",
            json!({"verdict": "once", "answers": {"Which colour?": "red"}}),
            "once - [Which colour?=red] by owner",
        ),
    ];
    for (prompt, decision, text) in cases {
        let turn = stage.submit(&session, prompt).await;
        let approval = approval_id(&stage, &turn).await;
        let path = format!("/api/approvals/{approval}");
        let verdict = decision["verdict"].clone();
        let decided = stage.post(&path, decision.clone()).await;
        assert_eq!(decided, json!({"id": approval, "verdict": verdict}));
        assert_eq!(stage.wait_for_status(&turn, "completed").await["text"], text);
        let again = stage.call(Method::POST, &path, Some(decision)).await;
        let (status, kind, message) = again.error();
        assert_eq!((status, kind.as_str()), (409, "conflict"));
        let verdict = verdict.as_str().unwrap();
        assert!(message.ends_with(&format!("{verdict} by owner")), "{message}");
    }
    let deleted = stage.call(Method::DELETE, &format!("/api/sessions/{session}"), None).await;
    assert_eq!(deleted.status.as_u16(), 204);
    // Each decision is one row of the audit, however often it was sent, and so is the deletion.
    let first = stage.get("/api/audit?limit=3").await;
    let rest = stage.get(&format!("/api/audit?cursor={}", first["next"].as_str().unwrap())).await;
    assert_eq!((&first["next"], &rest["next"]), (&json!("2"), &Value::Null));
    let rows = [&first, &rest].into_iter().flat_map(|page| page["data"].as_array().unwrap());
    let rows: Vec<_> =
        rows.map(|row| (row["id"].as_str().unwrap(), row["action"].as_str().unwrap())).collect();
    assert_eq!(rows, [("4", "deletion"), ("3", "decision"), ("2", "decision"), ("1", "decision")]);
    let row = &rest["data"][0];
    assert!(row["what"].as_str().unwrap().ends_with(": once"), "{row}");
    assert_eq!(row["who"], "browser", "{row}");
    let bad = stage.call(Method::GET, "/api/audit?since=soon", None).await;
    assert!(bad.error().2.starts_with("since: "));
}

#[tokio::test]
async fn pending_ones_are_listed_and_decided_ones_on_request() {
    let stage = ApiHarness::new();
    let mut turns = Vec::new();
    for prompt in ["ask", "question", "ask"] {
        let session = stage.session().await;
        let turn = stage.submit(&session, prompt).await;
        let id = approval_id(&stage, &turn).await;
        turns.push((session, turn, id));
    }
    let pending = list(&stage, "").await;
    let ids: Vec<_> = pending.iter().map(|one| one["id"].clone()).collect();
    let newest_first: Vec<_> = turns.iter().rev().map(|(.., id)| json!(id)).collect();
    assert_eq!(ids, newest_first);

    let (session, turn, id) = &turns[1];
    let asked = &pending[1];
    let expected = json!({
        "id": id, "short_id": asked["short_id"], "session_id": session, "turn_id": turn,
        "kind": "question", "tool": "shell",
        "title": "make", "detail": "in /project", "tool_id": null,
        "diff": null,
        "session": {"id": session, "title": null, "profile": "default", "cwd": "/project"},
        "choices": ["once", "deny", "stop"],
        "questions": [{"text": "Which colour?", "header": "Colour", "multiple": false, "options": [
            {"label": "red", "description": ""}, {"label": "blue", "description": ""}]}],
        "asked_at": asked["asked_at"], "expires_at": asked["expires_at"], "decided": null,
    });
    assert_eq!(*asked, expected);
    let short = asked["short_id"].as_str().unwrap();
    assert!(short.len() >= 8 && id.starts_with(short), "{short}");
    let found = stage.get(&format!("/api/approvals?prefix={short}")).await;
    assert_eq!(found["data"], json!([asked]));
    assert!(asked["expires_at"].as_str() > asked["asked_at"].as_str());
    assert!(!pending[0].as_object().unwrap().contains_key("questions"));

    let decided = json!({"verdict": "deny"});
    stage.post(&format!("/api/approvals/{id}"), decided).await;
    stage.wait_for_status(turn, "completed").await;
    assert_eq!(list(&stage, "").await.len(), 2);
    assert_eq!(list(&stage, "?all=0").await.len(), 2);
    let all = list(&stage, "?all=1").await;
    assert_eq!(all.len(), 3);
    assert_eq!(all[1]["decided"]["verdict"], "deny");
    assert_eq!(all[1]["decided"]["by"], "owner");
    assert!(all[1]["decided"]["at"].is_string());

    let first = stage.get("/api/approvals?all=1&limit=2").await;
    let next = first["next"].as_str().unwrap();
    let rest = list(&stage, &format!("?all=1&cursor={next}")).await;
    assert_eq!(rest, all[2..]);
    let wrong = stage.call(Method::GET, "/api/approvals?all=maybe", None).await;
    assert_eq!(wrong.error().0, 400);
}

#[tokio::test]
async fn what_was_never_asked_cannot_be_decided() {
    let stage = ApiHarness::new();
    for id in
        ["00000000-0000-0000-0000-000000000009", "ffffffff-ffff-ffff-ffff-ffffffffffff", "yes"]
    {
        let path = format!("/api/approvals/{id}");
        let body = json!({"verdict": "once"});
        let answer = stage.call(Method::POST, &path, Some(body)).await;
        let (status, kind, _) = answer.error();
        assert_eq!((status, kind.as_str()), (404, "not_found"), "{id}");
    }
}
