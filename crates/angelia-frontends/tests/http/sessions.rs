//! `/api/sessions`.

use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::harness::{ApiHarness, own_process_source, request};

#[tokio::test]
async fn a_session_is_made_shown_renamed_forked_and_deleted() {
    let stage = ApiHarness::new();
    let body = json!({"profile": "homely", "cwd": "/elsewhere", "model": "oak", "title": "first"});
    let made = stage.call(Method::POST, "/api/sessions", Some(body)).await;
    assert_eq!(made.status, StatusCode::CREATED);
    insta::assert_json_snapshot!(made.json(), @r#"
    {
      "id": "00000000-0000-0001-0000-000000000001",
      "short_id": "00000000",
      "title": "first",
      "name": null,
      "source": "http",
      "first_words": null,
      "status": null,
      "newest_turn": null,
      "turns": 0,
      "cost_usd": null,
      "profile": "homely",
      "executor": "puppet",
      "mode": "agent",
      "model": "oak",
      "cwd": "/elsewhere",
      "permissions": "ask",
      "native_session_id": null,
      "forked_from": null,
      "created_at": "2023-11-14T22:13:20.000000Z",
      "updated_at": "2023-11-14T22:13:20.000000Z"
    }
    "#);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/{id}");
    assert_eq!(stage.get(&path).await, made.json());

    let renamed = stage.call(Method::PATCH, &path, Some(json!({"title": "second"})));
    assert_eq!(renamed.await.success_json()["title"], "second");
    let cleared = stage.call(Method::PATCH, &path, Some(json!({"title": null})));
    assert_eq!(cleared.await.success_json()["title"], json!(null));

    let changed = stage.call(Method::PATCH, &path, Some(json!({"model": "elm"})));
    assert_eq!(changed.await.success_json()["model"], "elm");
    for wrong in [json!({"model": " "}), json!({"model": null}), json!({})] {
        let refused = stage.call(Method::PATCH, &path, Some(wrong)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }

    let turn = stage.submit(&id, "echo hi").await;
    stage.wait_for_status(&turn, "completed").await;
    assert_eq!(stage.get(&path).await["native_session_id"], "native-1");
    let forked = stage.call(Method::POST, &format!("{path}/fork"), None).await;
    assert_eq!(forked.status, StatusCode::CREATED);
    let forked = forked.json();
    assert_eq!(forked["forked_from"], *id);
    assert_ne!(forked["id"], *id);
    assert_eq!(forked["native_session_id"], "native-1-fork");

    let deleted = stage.call(Method::DELETE, &path, None).await;
    assert_eq!((deleted.status, deleted.text.as_str()), (StatusCode::NO_CONTENT, ""));
    let gone = [
        (Method::GET, path.clone()),
        (Method::DELETE, path.clone()),
        (Method::POST, format!("{path}/fork")),
    ];
    for (method, path) in gone {
        let (status, kind, message) = stage.call(method, &path, None).await.error();
        assert_eq!(
            (status, kind.as_str(), message.as_str()),
            (404, "not_found", "no such session")
        );
    }
    assert_eq!(stage.call(Method::GET, &format!("/api/turns/{turn}"), None).await.error().0, 404);
}

#[tokio::test]
async fn a_running_session_can_be_deleted_and_its_viewers_see_the_end() {
    let stage = ApiHarness::new();
    let id = stage.session().await;
    let turn = stage.submit(&id, "hang").await;
    let path = format!("/api/sessions/{id}");
    let (events, deleted) =
        tokio::join!(stage.events(&turn, 0), stage.call(Method::DELETE, &path, None),);
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    assert!(events.contains("event: turn.finished"), "{events}");
    assert!(events.contains(r#""status":"interrupted""#), "{events}");
    assert_eq!(stage.call(Method::GET, &path, None).await.error().0, 404);
}

#[tokio::test]
async fn where_a_session_works_is_said_by_name_then_by_profile_then_by_place() {
    let stage = ApiHarness::new();
    let cases = [
        (json!({"profile": "homely"}), "/home"),
        (json!({"profile": "homely", "caller_cwd": "/here"}), "/home"),
        (json!({"profile": "homely", "cwd": "/named", "caller_cwd": "/here"}), "/named"),
        (json!({"profile": "nowhere", "caller_cwd": "/here"}), "/here"),
        (json!({"profile": "nowhere", "cwd": "/named", "caller_cwd": "/here"}), "/named"),
    ];
    for (body, cwd) in cases {
        let session = stage.post("/api/sessions", body.clone()).await;
        assert_eq!(session["cwd"], cwd, "{body}");
    }
    let wrong = [
        (json!({"profile": "nowhere"}), "the profile needs a cwd"),
        (json!({"profile": "foreign", "caller_cwd": "/here"}), "there is no profile `foreign`"),
        (json!({"cwd": "here"}), "cwd: this must be an absolute path"),
        (json!({"caller_cwd": "../x"}), "caller_cwd: this must be an absolute path"),
    ];
    for (body, why) in wrong {
        let (status, kind, message) =
            stage.call(Method::POST, "/api/sessions", Some(body)).await.error();
        assert_eq!((status, kind.as_str(), message.as_str()), (400, "invalid", why));
    }
}

#[tokio::test]
async fn a_name_finds_the_session_it_was_given_last() {
    let stage = ApiHarness::new();
    let path = "/api/sessions?name=my%20work%2F1";
    assert_eq!(stage.get(path).await, json!({"data": [], "next": null}));
    let mut newest = json!(null);
    for _ in 0..2 {
        newest = stage.post("/api/sessions", json!({"name": "my work/1"})).await;
    }
    assert_eq!(stage.get(path).await, json!({"data": [newest], "next": null}));
    let id = newest["id"].as_str().unwrap();
    stage.call(Method::DELETE, &format!("/api/sessions/{id}"), None).await;
    assert_eq!(stage.get(path).await["data"], json!([]));
}

#[tokio::test]
async fn only_the_owners_terminal_is_a_terminal() {
    let stage = ApiHarness::new();
    let trusted = async |mut request: axum::http::Request<axum::body::Body>, says: bool| {
        if says {
            let headers = request.headers_mut();
            headers.insert("x-angelia-terminal", "1".parse().unwrap());
        }
        let id = stage.send(request).await.success_json()["id"].as_str().unwrap().parse().unwrap();
        stage.state.engine.session(id).await.unwrap().spec.trust
    };
    let over_tcp = || request(Method::POST, "/api/sessions", Some(json!({})));
    let over_socket = || {
        let mut request = over_tcp();
        request.extensions_mut().insert(own_process_source());
        request
    };
    assert!(!trusted(over_tcp(), true).await);
    assert!(!trusted(over_socket(), false).await);
    assert!(trusted(over_socket(), true).await);
}
