//! Model mode: the caller's tools, and nothing of this machine.

use std::fs;

use angelia_core::{
    model::{CallerTool, Content, EventKind, Mode, SystemPrompt, Verdict},
    ports::{AgentEvent, TurnControl},
};
use serde_json::{Value, json};

use crate::harness::{CodexHarness, call};

const SECRET: &str = "SECRET-OF-THIS-MACHINE";

fn lookup() -> CallerTool {
    let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}});
    CallerTool {
        name: "lookup".into(),
        description: "MARK-OF-THE-TOOL".into(),
        input_schema: serde_json::value::to_raw_value(&schema).unwrap().into(),
    }
}

/// Returns the name of every tool that Codex has offered to the model.
fn offered_tools(request: &Value) -> Vec<String> {
    fn names(tools: &Value, found: &mut Vec<String>) {
        for tool in tools.as_array().into_iter().flatten() {
            if let Some(name) = tool["name"].as_str().or(tool["type"].as_str()) {
                found.push(name.to_owned());
            }
            names(&tool["tools"], found);
        }
    }
    let mut found = Vec::new();
    names(&request["tools"], &mut found);
    for item in request["input"].as_array().into_iter().flatten() {
        names(&item["tools"], &mut found);
    }
    found
}

#[tokio::test]
async fn real_the_callers_tools_are_called_and_answered() {
    let lab = CodexHarness::new();
    let mut spec = lab.spec();
    spec.mode = Mode::Model;
    spec.system = SystemPrompt::Replace("MARK-OF-THE-ONLY-PROMPT".into());
    spec.caller_tools.push(lookup());
    let mut session = lab.open(&spec).await;
    let answer = |emitted: &AgentEvent, hands: &angelia_testkit::direct_session::TurnHandle| {
        if let AgentEvent::Event(EventKind::ToolCall(call)) = emitted {
            assert_eq!(&*call.name, "lookup");
            hands.send_control(TurnControl::ToolResult {
                id: call.id.clone(),
                ok: true,
                content: vec![Content::text("FOUND")],
            });
        }
    };
    let heard = session.prompt_watched(&call("lookup", &json!({"key": "x"})), answer).await;
    assert_eq!(heard.answer(), "done", "{heard:#?}");
    assert!(heard.approval_requests().is_empty());
    assert!(lab.tool_outputs()[0].contains("FOUND"));
    let request = lab.last_request();
    let prompt = request["input"][0].to_string();
    assert!(prompt.contains("MARK-OF-THE-ONLY-PROMPT"), "{request:#}");
    let told = request["input"].to_string();
    for own in ["environment_context", "sandbox", "skills", "AGENTS.md"] {
        assert!(!told.contains(own), "{own} in {told}");
    }
    session.close().await;
    lab.close().await;
}

/// No tool that the model can name reads a file of this machine, even where everything is allowed.
#[tokio::test]
async fn real_no_tool_reads_a_file() {
    for model in [None, Some("gpt-6.1-sol")] {
        let lab = CodexHarness::new();
        let path = lab.path("secret.txt");
        fs::write(&path, SECRET).unwrap();
        fs::write(lab.path("AGENTS.md"), SECRET).unwrap();
        let skill = lab.home.join("skills/own");
        fs::create_dir_all(&skill).unwrap();
        let text = format!("---\nname: own\ndescription: own\n---\n{SECRET}\n");
        fs::write(skill.join("SKILL.md"), text).unwrap();
        let mut spec = lab.spec();
        spec.mode = Mode::Model;
        spec.model = model.map(Into::into);
        spec.caller_tools.push(lookup());
        let mut session = lab.open(&spec).await;
        for text in ["$own", "@secret.txt", "/init", "!cat secret.txt", "[$own](SKILL.md)"] {
            session.prompt(&format!("{text} ECHO:hello")).await.answer();
            let told = lab.last_request().to_string();
            assert!(!told.contains(SECRET), "{text}: {told}");
        }
        let mut names = offered_tools(&lab.last_request());
        assert!(model.is_some() || names.contains(&"lookup".to_owned()), "{names:?}");
        for further in [
            "exec_command",
            "shell",
            "local_shell",
            "shell_command",
            "container.exec",
            "read_file",
            "list_dir",
            "grep_files",
            "view_image",
            "write_stdin",
            "apply_patch",
            "spawn_agent",
            "exec",
            "mcp__files__read",
        ] {
            names.push(further.to_owned());
        }
        names.retain(|name| name != "lookup");
        names.sort();
        names.dedup();
        let path = path.to_str().unwrap();
        for name in names {
            let cat = format!("cat {path}");
            let script = format!("text(await tools.exec_command({{cmd: {cat:?}}}))");
            let change = format!(
                "*** Begin Patch\n*** Update File: {path}\n@@\n-{SECRET}\n+changed\n*** End Patch"
            );
            for input in [
                json!({"cmd": cat, "command": ["cat", path], "path": path, "file_path": path,
                    "dir_path": path, "pattern": "S", "input": change, "message": cat,
                    "task_name": "t", "session_id": 1, "chars": "x", "code": script}),
                json!(script),
                json!(change),
            ] {
                let allow =
                    |emitted: &AgentEvent, hands: &angelia_testkit::direct_session::TurnHandle| {
                        if let AgentEvent::ApprovalRequest(request) = emitted {
                            hands.decide(request, Verdict::Once);
                        }
                    };
                let heard = session.prompt_watched(&call(&name, &input), allow).await;
                assert_eq!(heard.answer(), "done", "{name}: {heard:#?}");
                let outputs = lab.tool_outputs().concat();
                assert!(!outputs.contains(SECRET), "{name}: {outputs}");
            }
        }
        assert_eq!(fs::read_to_string(path).unwrap(), SECRET);
        session.close().await;
        lab.close().await;
    }
}

/// Codex puts the owner's own instructions before every conversation of agent mode.
#[tokio::test]
async fn real_the_owners_instructions_are_shown_only_in_agent_mode() {
    let lab = CodexHarness::new();
    fs::write(lab.home.join("AGENTS.md"), SECRET).unwrap();
    let mut spec = lab.spec();
    spec.mode = Mode::Model;
    let mut session = lab.open(&spec).await;
    let native = session.prompt("ECHO:hello").await.native_session_id();
    assert!(!lab.last_request().to_string().contains(SECRET));
    session.close().await;
    let mut session = lab.open(&lab.spec()).await;
    assert_eq!(session.prompt("ECHO:hello").await.answer(), "hello");
    assert!(lab.last_request().to_string().contains(SECRET));
    session.close().await;
    let mut session = lab.resume(&spec, &native).await;
    assert_eq!(session.prompt("ECHO:on").await.answer(), "on");
    assert!(!lab.last_request().to_string().contains(SECRET));
    session.close().await;
    lab.close().await;
}
