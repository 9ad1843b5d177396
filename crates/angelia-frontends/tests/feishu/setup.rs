//! The commonest failures of the set-up are found.

use angelia_core::ports::Channel as _;
use angelia_testkit::feishu_server::FeishuServer;

use super::adapter;

async fn problems(server: &FeishuServer) -> Vec<String> {
    let findings = adapter(server).check().await.unwrap();
    findings.into_iter().filter(|one| one.is_problem).map(|one| one.text).collect()
}

#[tokio::test]
async fn missing_scopes_and_subscriptions_are_named() {
    let server = FeishuServer::start();
    assert_eq!(problems(&server).await, [""; 0]);
    server.remove_scope("im:message:send_as_bot");
    server.change_app(|app| {
        app["event"]["subscription_type"] = "webhook".into();
        app["callback"]["subscribed_callbacks"] = serde_json::json!([]);
    });
    let found = problems(&server).await;
    for part in ["im:message:send_as_bot", "persistent connection", "card.action.trigger"] {
        assert!(found.iter().any(|text| text.contains(part)), "{part}: {found:?}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
    // What the app may not ask is said, and is no problem.
    server.remove_scope("application:application:self_manage");
    let findings = adapter(&server).check().await.unwrap();
    assert!(findings.iter().any(|one| !one.is_problem && one.text.contains("check yourself")));
}
