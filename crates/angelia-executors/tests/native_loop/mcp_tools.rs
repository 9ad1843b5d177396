//! The tools of real MCP servers in our own loop: they reach the model, pass the permissions, and keep
//! the beginning of every request the same.

use std::fs;

use angelia_core::model::{ApprovalStage, PermissionLevel, ToolClass, Verdict};
use angelia_core::ports::AgentEvent;
use angelia_executors::{native::provider::Api, scripted_model::Reply};
use angelia_testkit::{direct_session::TurnHandle, mcp_servers};
use serde_json::json;

use crate::{
    loop_lab::{LoopLab, bash, call, calls, detail_of},
    mcp_lab::{
        assert_nothing_left, described_tools, noted, one_api_after_another, server_notices,
        spec_with, watched_spec,
    },
};

#[tokio::test]
async fn real_every_kind_of_content_of_the_reference_server_reaches_the_model() {
    one_api_after_another(async |lab| {
        let spec = spec_with(&lab, "all", &mcp_servers::everything().unwrap());
        let step = calls([
            call("mcp__all__echo", json!({"message": "hello there"})),
            call("mcp__all__get-sum", json!({"a": "2", "b": 40})),
            call("mcp__all__get-tiny-image", json!({})),
            call("mcp__all__get-resource-links", json!({"count": 2})),
            call(
                "mcp__all__get-resource-reference",
                json!({"resourceType": "Text", "resourceId": 1}),
            ),
            call("mcp__all__get-structured-content", json!({"location": "New York"})),
            call("mcp__all__get-env", json!({})),
            call("mcp__all__get-sum", json!({"a": "two", "b": 3})),
        ]);
        let output = lab.turn_with(&spec, [step, Reply::text("done")]).await;
        assert_eq!(output.answer(), "done", "{output:#?}");
        assert_eq!(detail_of(&output, "mcp_started"), json!({"server": "all"}));
        let request = lab.last_request();
        let results = request.results();
        let expected = [
            "hello there",
            "42",
            "the image you requested",
            "[resource demo://resource/dynamic",
            "[resource demo://resource/dynamic/text/1]",
            "temperature",
            "ANGELIA_AGENT",
            "the argument `a` must be number",
        ];
        for (result, words) in results.iter().zip(expected) {
            assert!(result.contains(words), "{:?}: {words}: {result}", lab.api);
        }
        assert_eq!(results.len(), expected.len());
        assert!(request.contains("iVBORw0KGgo"), "{:?}: no image", lab.api);
        assert!(!request.contains("must-not-leak"), "{:?}: {}", lab.api, results[6]);
        assert_nothing_left(&lab).await;
    })
    .await;
}

#[tokio::test]
async fn real_files_of_the_reference_server_and_permissions() {
    one_api_after_another(async |lab| {
        let folder = lab.place.isolated.root().join("shelf");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("book"), "it was a dark night\n").unwrap();
        let mut spec = spec_with(&lab, "files", &mcp_servers::filesystem(&folder).unwrap());
        spec.permissions.level = PermissionLevel::Ask;
        spec.permissions.disallowed.push("mcp__files__write_*".parse().unwrap());
        let read =
            |name: &str| call("mcp__files__read_text_file", json!({"path": folder.join(name)}));
        lab.server.script([
            calls([read("book"), call("mcp__files__list_directory", json!({"path": folder}))]),
            calls([call(
                "mcp__files__write_file",
                json!({"path": folder.join("x"), "content": ""}),
            )]),
            Reply::text("done"),
        ]);
        let mut session = lab.open_with(&spec).await;
        let decide = |event: &AgentEvent, hands: &TurnHandle| {
            let AgentEvent::ApprovalRequest(request) = event else { return };
            let is_reading = &*request.tool_name == "mcp__files__read_text_file";
            hands.decide(request, if is_reading { Verdict::Once } else { Verdict::Deny });
        };
        let output = session.prompt_watched("go on", decide).await;
        session.close().await;
        assert_eq!(output.answer(), "done", "{output:#?}");
        // The server calls both tools read-only, and yet both are requests.
        let asked: Vec<_> = output.approval_requests();
        assert_eq!(asked.len(), 2, "{output:#?}");
        for request in asked {
            assert_eq!((request.stage, request.class), (ApprovalStage::Request, ToolClass::Other));
            assert!(request.input.get().contains("shelf"), "{request:?}");
        }
        let results = lab.last_request().results();
        assert!(results[0].contains("dark night"), "{results:?}");
        assert!(results[1].starts_with("not allowed"), "{results:?}");
        assert!(results[2].contains("there is no tool"), "{results:?}");
        assert!(
            !described_tools(&lab.last_request()).contains(&"mcp__files__write_file".to_owned())
        );
        assert_nothing_left(&lab).await;
    })
    .await;
}

#[tokio::test]
async fn real_calls_that_only_read_run_together_and_others_alone() {
    let lab = LoopLab::new(Api::Messages, |_| {});
    let spec = watched_spec(&lab, 0);
    let meet =
        |name: &str, other: &str| call("mcp__watched__meet", json!({"name": name, "other": other}));
    let alone = |name: &str| call("mcp__watched__alone", json!({"name": name}));
    let step = calls([meet("a", "b"), meet("b", "a"), alone("c"), alone("d"), bash("echo e")]);
    let output = lab.turn_with(&spec, [step, Reply::text("done")]).await;
    assert_eq!(output.answer(), "done", "{output:#?}");
    let results = lab.last_request().results();
    for (result, words) in
        results.iter().zip(["a met b", "b met a", "c was alone", "d was alone", "e"])
    {
        assert!(result.contains(words), "{results:?}");
    }
}

#[tokio::test]
async fn real_the_list_of_tools_stays_as_the_session_began() {
    one_api_after_another(async |lab| {
        let spec = watched_spec(&lab, 0);
        let mut session = lab.open_with(&spec).await;
        lab.server.script([
            calls([call("mcp__watched__grow", json!({}))]),
            Reply::text("first"),
            Reply::text("second"),
        ]);
        let first = session.prompt("grow").await;
        let second = session.prompt("and now").await;
        session.close().await;
        assert_eq!((first.answer(), second.answer()), ("first", "second"));
        let notices = [server_notices(&first), server_notices(&second)].concat();
        let changed: Vec<_> =
            notices.iter().filter(|(code, _)| code == "mcp_tools_changed").collect();
        assert_eq!(changed.len(), 1, "{notices:?}");
        let requests = lab.requests();
        assert!(described_tools(&requests[0]).contains(&"mcp__watched__grow".to_owned()));
        for request in &requests {
            assert_eq!(request.body["tools"].to_string(), requests[0].body["tools"].to_string());
        }
    })
    .await;
}

#[tokio::test]
async fn real_many_tools_are_found_by_a_search() {
    one_api_after_another(async |lab| {
        let spec = watched_spec(&lab, 60);
        lab.server.script([
            calls([call("tool_search", json!({"query": "number 41"}))]),
            calls([
                call(
                    "tool_call",
                    json!({"name": "mcp__watched__number_41", "arguments": {"text": "one"}}),
                ),
                // A model may take the name that it was shown for that of a tool.
                call("mcp__watched__number_41", json!({"text": "two"})),
                call("tool_call", json!({"name": "mcp__watched__number_99", "arguments": {}})),
            ]),
            Reply::text("done"),
        ]);
        let mut session = lab.open_with(&spec).await;
        let output = session.prompt("go on").await;
        session.close().await;
        assert_eq!(output.answer(), "done", "{output:#?}");
        let shown: Vec<&str> = output.tool_calls().iter().map(|call| &*call.name).collect();
        let number = "mcp__watched__number_41";
        assert_eq!(shown, ["tool_search", number, number, "tool_call"], "{output:#?}");
        // Permissions are asked about the tool, not about the way to it; a search is only reported.
        let asked: Vec<&str> =
            output.approval_requests().iter().map(|request| &*request.tool_name).collect();
        assert_eq!(asked, [number, number]);
        let results = lab.last_request().results();
        assert!(results[0].starts_with("mcp__watched__number_41: "), "{results:?}");
        assert!(results[1].contains("says one") && results[2].contains("says two"), "{results:?}");
        assert!(results[3].contains("there is no tool `mcp__watched__number_99`"), "{results:?}");
        let requests = lab.requests();
        let tools = described_tools(&requests[0]);
        assert_eq!(tools.iter().filter(|name| name.starts_with("mcp__")).count(), 0, "{tools:?}");
        assert!(tools.ends_with(&["tool_search".into(), "tool_call".into()]), "{tools:?}");
        for request in &requests {
            assert_eq!(request.body["tools"].to_string(), requests[0].body["tools"].to_string());
        }
        // The conversation has what the model wrote.
        assert!(requests[2].contains("tool_call"), "{:?}", requests[2]);
        assert_eq!(noted(&lab, "started"), 1);
    })
    .await;
}

#[tokio::test]
async fn real_a_long_result_is_cut_and_kept() {
    let lab = LoopLab::new(Api::Chat, |_| {});
    let spec = watched_spec(&lab, 0);
    let step =
        calls([call("mcp__watched__repeat", json!({"text": "0123456789\n", "times": 20_000}))]);
    lab.turn_with(&spec, [step, Reply::text("done")]).await;
    let results = lab.last_request().results();
    assert!(results[0].len() < 50_000, "{}", results[0].len());
    let (_, path) = results[0].split_once("all of it is in ").unwrap();
    let path = path.split(']').next().unwrap();
    assert!(fs::read_to_string(path).unwrap().starts_with("0123456789\n"), "{path}");
}

#[tokio::test]
async fn real_a_server_over_http_is_called_with_its_headers() {
    one_api_after_another(async |lab| {
        let folder = lab.place.isolated.root().join("notes");
        fs::create_dir(&folder).unwrap();
        let server = mcp_servers::watched_over_http(&folder).unwrap();
        let url = format!("http://{}/mcp", server.address());
        let mut spec = spec_with(
            &lab,
            "web",
            &json!({"type": "http", "url": url, "headers": {"x-test-key": "${TEST_KEY}"}}),
        );
        spec.env.insert("TEST_KEY".into(), "open".into());
        spec.mcp_servers.insert("shut".into(), crate::mcp_lab::raw(&json!({"url": url})));
        let step = calls([call("mcp__web__repeat", json!({"text": "ab", "times": 2}))]);
        let output = lab.turn_with(&spec, [step, Reply::text("done")]).await;
        assert_eq!(output.answer(), "done", "{output:#?}");
        assert!(lab.last_request().results()[0].contains("abab"));
        let notices = server_notices(&output);
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert_eq!(notices.iter().filter(|(code, _)| code == "mcp_started").count(), 1);
        let failed = notices.iter().find(|(code, _)| code == "mcp_failed").unwrap();
        assert!(failed.1.contains("`shut`") && failed.1.contains("login"), "{failed:?}");
        assert_eq!(noted(&lab, "http-DELETE"), 1, "the session was not ended");
    })
    .await;
}
