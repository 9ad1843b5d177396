//! MCP servers that fail, end, hang or leave something behind: the turn goes on, and nothing is left.

use angelia_core::model::{Mode, NoticeLevel};
use angelia_executors::{native::provider::Api, scripted_model::Reply};
use angelia_testkit::{direct_session::wait_until, mcp_servers, process_table::find_marked};
use serde_json::json;

use crate::{
    interrupts::interrupt_session_when,
    loop_lab::{LoopLab, call, calls},
    mcp_lab::{
        assert_nothing_left, described_tools, noted, one_api_after_another, raw, server_notices,
        spec_with, watched_spec,
    },
};

#[tokio::test]
async fn real_servers_that_do_not_start_are_reported_and_the_others_work() {
    let lab = LoopLab::new(Api::Messages, |_| {});
    let mut spec = spec_with(&lab, "good", &mcp_servers::everything().unwrap());
    let bad = [
        ("missing", json!({"command": "no-such-program-here"})),
        ("broken", json!({"command": "sh", "args": ["-c", "echo 'the key is wrong' >&2; exit 3"]})),
        ("silent", json!({"command": "sleep", "args": ["600"]})),
        (
            "noise",
            json!({"command": "sh", "args": ["-c", "echo hello; echo '[]'; cat >/dev/null"]}),
        ),
        ("nowhere", json!({"url": "http://127.0.0.1:1/mcp"})),
        ("sse", json!({"type": "sse", "url": "http://127.0.0.1:1/mcp"})),
    ];
    for (name, definition) in &bad {
        spec.mcp_servers.insert((*name).into(), raw(definition));
    }
    let step = calls([call("mcp__good__echo", json!({"message": "still here"}))]);
    let output = lab.turn_with(&spec, [step, Reply::text("done")]).await;
    assert_eq!(output.answer(), "done", "{output:#?}");
    assert!(lab.last_request().results()[0].contains("still here"));
    let mut notices = server_notices(&output);
    // This server tells of a change whenever it has started.
    notices.retain(|(code, _)| code != "mcp_tools_changed");
    assert_eq!(notices.len(), bad.len() + 1, "{notices:#?}");
    let words = [
        ("missing", "does not exist"),
        ("broken", "exit status: 3; the key is wrong"),
        ("silent", "did not answer within 10 seconds"),
        ("noise", "did not answer within 10 seconds"),
        ("nowhere", "error"),
        ("sse", "speaks SSE"),
    ];
    for (name, words) in words {
        let is_about = |(code, text): &&(String, String)| {
            code == "mcp_failed" && text.contains(&format!("`{name}`"))
        };
        let (_, text) =
            notices.iter().find(is_about).unwrap_or_else(|| panic!("{name}: {notices:#?}"));
        assert!(text.contains(words), "{text}");
    }
    assert_nothing_left(&lab).await;
}

#[tokio::test]
async fn real_an_interrupt_cancels_the_call_at_the_server() {
    one_api_after_another(async |lab| {
        let spec = watched_spec(&lab, 0);
        let step = calls([call("mcp__watched__wait", json!({}))]);
        let output =
            interrupt_session_when(&lab, &spec, step, |lab| noted(lab, "waiting") == 1).await;
        assert!(!output.tool_results()[0].ok, "{output:#?}");
        wait_until("the server was told", || noted(&lab, "cancelled") == 1).await;
        // The session went on with the same server.
        assert_eq!(noted(&lab, "started"), 1);
        assert_nothing_left(&lab).await;
    })
    .await;
}

#[tokio::test]
async fn real_a_server_that_ended_is_started_again_once() {
    one_api_after_another(async |lab| {
        let spec = watched_spec(&lab, 0);
        let die = || calls([call("mcp__watched__die", json!({}))]);
        let repeat = || calls([call("mcp__watched__repeat", json!({"text": "ok", "times": 1}))]);
        let replies = [die(), repeat(), die(), die(), repeat(), Reply::text("done")];
        let output = lab.turn_with(&spec, replies).await;
        assert_eq!(output.answer(), "done", "{output:#?}");
        let results = lab.last_request().results();
        assert!(results[0].contains("did not finish the call"), "{results:?}");
        // It works again, so it may be started again once more, but not twice in a row.
        assert!(results[1].contains("ok"), "{results:?}");
        assert!(results[3].contains("did not finish the call"), "{results:?}");
        assert!(results[4].contains("also after it was started again"), "{results:?}");
        assert_eq!((noted(&lab, "started"), noted(&lab, "died")), (3, 3));
        assert_eq!(noted(&lab, "listed"), 1, "the session keeps the tools that it began with");
        let restarted = output.notices().into_iter().filter(|one| &*one.code == "mcp_restarted");
        assert_eq!(restarted.filter(|one| one.level == NoticeLevel::Warning).count(), 2);
        assert_nothing_left(&lab).await;
    })
    .await;
}

#[tokio::test]
async fn real_what_a_server_leaves_running_ends_with_the_session() {
    let lab = LoopLab::new(Api::Responses, |_| {});
    let spec = watched_spec(&lab, 0);
    lab.server.script([calls([call("mcp__watched__leave", json!({}))]), Reply::text("done")]);
    let mut session = lab.open_with(&spec).await;
    assert_eq!(session.prompt("go on").await.answer(), "done");
    assert_eq!(find_marked(&lab.place.mark).len(), 2, "the server and what it left");
    session.close().await;
    assert_nothing_left(&lab).await;
    // A session that nobody closes, as after a panic.
    lab.server.script([calls([call("mcp__watched__leave", json!({}))]), Reply::text("done")]);
    let mut session = lab.open_with(&spec).await;
    assert_eq!(session.prompt("go on").await.answer(), "done");
    drop(session);
    assert_nothing_left(&lab).await;
}

#[tokio::test]
async fn servers_of_a_project_need_trust_and_model_mode_has_none() {
    let lab = LoopLab::new(Api::Messages, |_| {});
    let touch =
        |name: &str| json!({"command": "sh", "args": ["-c", format!("touch {name}; exit 1")]});
    let file = json!({"mcpServers": {"own": touch("by-project"), "mine": touch("wrong-one")}});
    lab.write(".mcp.json", &file.to_string());
    let mut spec = spec_with(&lab, "mine", &touch("by-owner"));
    let started = |name: &str| lab.place.isolated.work_dir().join(name).exists();
    spec.mode = Mode::Model;
    let output = lab.turn_with(&spec, [Reply::text("done")]).await;
    assert!(server_notices(&output).is_empty() && !started("by-owner"), "{output:#?}");
    spec.mode = Mode::Agent;
    let output = lab.turn_with(&spec, [Reply::text("done")]).await;
    assert_eq!(server_notices(&output).len(), 1, "{output:#?}");
    assert!(started("by-owner") && !started("by-project"));
    spec.trust = true;
    let output = lab.turn_with(&spec, [Reply::text("done")]).await;
    assert_eq!(server_notices(&output).len(), 2, "{output:#?}");
    // A server of the owner hides that of the project with the same name.
    assert!(started("by-project") && !started("wrong-one"));
    lab.write(".mcp.json", "{");
    let output = lab.turn_with(&spec, [Reply::text("done")]).await;
    let notices = server_notices(&output);
    assert!(notices.iter().any(|(_, text)| text.contains(".mcp.json")), "{notices:?}");
    assert!(described_tools(&lab.last_request()).iter().all(|name| !name.starts_with("mcp__")));
    assert_nothing_left(&lab).await;
}

#[tokio::test]
async fn an_interrupt_while_servers_start_ends_them() {
    let lab = LoopLab::new(Api::Messages, |_| {});
    let spec = spec_with(&lab, "silent", &json!({"command": "sleep", "args": ["600"]}));
    let opening = lab.open_with(&spec);
    let started = async {
        wait_until("the server runs", || !find_marked(&lab.place.mark).is_empty()).await;
    };
    tokio::select! {
        _ = opening => panic!("a server that says nothing was opened at once"),
        () = started => {}
    }
    assert_nothing_left(&lab).await;
}
