//! The prefix of a conversation: prompts and tools, and their stability.

use angelia_core::model::{SessionSpec, SystemPrompt, ToolSet};
use angelia_testkit::model_server::ReplyUsage;
use serde_json::Value;

use crate::harness::{ClaudeHarness, on_both};

/// Returns the request that the first prompt of a session sends to the model.
async fn first_request(lab: &ClaudeHarness, spec: &SessionSpec) -> Value {
    let mut session = lab.open(spec).await;
    session.prompt("hello").await.answer();
    session.close().await;
    lab.last_request()
}

fn system(request: &Value) -> String {
    let blocks = request["system"].as_array().unwrap();
    // The first block differs from request to request.
    blocks[1..].iter().map(|block| block["text"].as_str().unwrap()).collect()
}

fn tool_names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn real_a_prompt_is_added_or_put_in_place_of_the_own_one() {
    on_both(async |lab| {
        let mut spec = lab.spec();
        let own = system(&first_request(&lab, &spec).await);
        assert!(own.len() > 1000);
        let long = "MARK-OF-THE-PROMPT ".repeat(10_000);
        spec.system = SystemPrompt::Append(long.as_str().into());
        let added = system(&first_request(&lab, &spec).await);
        assert!(added.contains(long.trim()));
        let at = added.find("MARK-OF").unwrap();
        assert!(at > 1000, "after the own prompt");

        spec.system = SystemPrompt::Replace("ONLY THIS".into());
        let replaced = system(&first_request(&lab, &spec).await);
        assert!(replaced.contains("ONLY THIS") && replaced.len() < 200, "{replaced}");
    })
    .await;
}

#[tokio::test]
async fn real_tools_and_rules_reach_the_program() {
    on_both(async |lab| {
        let mut spec = lab.spec();
        spec.tools = ToolSet::List(vec!["Bash".into(), "Read".into()]);
        let request = first_request(&lab, &spec).await;
        let names = tool_names(&request);
        assert!(names.contains(&"Bash") && names.contains(&"Read"), "{names:?}");
        assert!(!names.contains(&"Write") && !names.contains(&"WebFetch"), "{names:?}");

        spec.tools = ToolSet::None;
        let request = first_request(&lab, &spec).await;
        assert!(!tool_names(&request).contains(&"Bash"));

        spec.tools = ToolSet::Default;
        spec.permissions.disallowed = vec!["Bash".parse().unwrap()];
        let request = first_request(&lab, &spec).await;
        let names = tool_names(&request);
        assert!(!names.contains(&"Bash") && names.contains(&"Read"), "{names:?}");
        spec.tools = ToolSet::All;
        spec.permissions.disallowed.clear();
        assert!(tool_names(&first_request(&lab, &spec).await).contains(&"Bash"));
    })
    .await;
}

#[tokio::test]
async fn real_the_prefix_stays_the_same() {
    on_both(async |lab| {
        lab.server.set_usage(ReplyUsage::default());
        let spec = lab.spec();
        let prefix = |request: &Value| (system(request), request["tools"].clone());

        let mut session = lab.open(&spec).await;
        let one = session.prompt("first words").await;
        let first = lab.last_request();
        let two = session.prompt("other words").await;
        let second = lab.last_request();
        session.close().await;
        assert_eq!(prefix(&first), prefix(&second), "over two turns");
        assert_eq!(one.usage().prefix_sha256, two.usage().prefix_sha256);
        assert_eq!(one.usage().prefix_sha256.as_deref().unwrap().len(), 64);

        let other = first_request(&lab, &spec).await;
        assert_eq!(prefix(&first), prefix(&other), "over two sessions");

        // Text that depends on the folder is not in the prefix, unless the profile asks for it.
        std::fs::create_dir(lab.place.work_dir().join("elsewhere")).unwrap();
        let mut elsewhere = spec.clone();
        elsewhere.cwd = lab.place.work_dir().join("elsewhere");
        assert_eq!(system(&first), system(&first_request(&lab, &elsewhere).await));
        elsewhere.stable_prompt = false;
        let dynamic = system(&first_request(&lab, &elsewhere).await);
        assert_ne!(system(&first), dynamic);
        assert!(dynamic.len() > system(&first).len());
    })
    .await;
}

#[tokio::test]
async fn real_cache_counts_are_those_of_the_turn() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        for _ in 0..2 {
            let heard = session.prompt("hello").await;
            let usage = heard.usage();
            assert_eq!(usage.cache_read_tokens, 3000, "{usage:?}");
            assert_eq!(usage.cache_write_tokens, 120, "{usage:?}");
            assert!(usage.cost_usd.unwrap() > 0.0);
        }
        session.close().await;
    })
    .await;
}
