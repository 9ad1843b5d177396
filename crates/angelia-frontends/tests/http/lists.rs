//! Lists: pages, filters, and the agents of this machine.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::ApiHarness;

fn ids(list: &Value) -> Vec<String> {
    let data = list["data"].as_array().unwrap().iter();
    data.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let stage = ApiHarness::new();
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(stage.session().await);
    }
    made.reverse();
    for limit in [1, 2, 3, 6, 7, 8] {
        let mut seen = Vec::new();
        let mut path = format!("/api/sessions?limit={limit}");
        loop {
            let page = stage.get(&path).await;
            assert!(ids(&page).len() <= limit);
            seen.extend(ids(&page));
            let Some(next) = page["next"].as_str() else {
                break;
            };
            path = format!("/api/sessions?limit={limit}&cursor={next}");
        }
        assert_eq!(seen, made, "limit {limit}");
    }
    assert_eq!(ids(&stage.get("/api/sessions?limit=0").await).len(), 1);
    for wrong in ["limit=-1", "limit=x", "cursor=x", "colour=red"] {
        let answer = stage.call(Method::GET, &format!("/api/sessions?{wrong}"), None).await;
        let (status, kind, message) = answer.error();
        assert_eq!((status, kind.as_str()), (400, "invalid"), "{message}");
    }
}

#[tokio::test]
async fn turns_are_listed_of_one_session_or_of_all() {
    let stage = ApiHarness::new();
    let (one, other) = (stage.session().await, stage.session().await);
    let mut turns = Vec::new();
    for session in [&one, &other, &one] {
        let turn = stage.submit(session, "echo hi").await;
        stage.wait_for_status(&turn, "completed").await;
        turns.push(turn);
    }
    let all = stage.get("/api/turns").await;
    assert_eq!(ids(&all), [&*turns[2], &*turns[1], &*turns[0]]);
    let of_one = stage.get(&format!("/api/turns?session={one}&limit=1")).await;
    assert_eq!(ids(&of_one), [&*turns[2]]);
    let next = of_one["next"].as_str().unwrap();
    let rest = stage.get(&format!("/api/turns?session={one}&cursor={next}")).await;
    assert_eq!(ids(&rest), [&*turns[0]]);
    assert_eq!(rest["next"], json!(null));
    let unknown = stage.call(Method::GET, "/api/turns?session=x", None).await;
    assert_eq!(unknown.error().0, 404);
}

#[tokio::test]
async fn profiles_and_executors_are_told() {
    let stage = ApiHarness::new();
    assert_eq!(
        stage.get("/api/profiles").await,
        json!({"data": [{"id": "default", "executor": "puppet", "mode": "agent", "model": null}], "next": null})
    );
    assert_eq!(
        stage.get("/api/executors").await,
        json!({"data": [{"id": "puppet", "ready": true, "version": "1", "path": "puppet",
            "login": "not_needed", "lane": null, "problem": null}], "next": null})
    );
}
