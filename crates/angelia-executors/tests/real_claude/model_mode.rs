//! Model mode: nothing of this machine, only the caller's prompt, tools and schema.

use std::fs;

use angelia_core::{
    model::{CallerTool, Content, EventKind, Mode, SessionSpec, SystemPrompt, ToolSet, TurnOrigin},
    ports::{AgentEvent, TurnControl},
};
use serde_json::json;

use crate::{
    harness::{ClaudeHarness, bash, call, on_both},
    sessions::{assert_carried, history},
};

fn model_spec(lab: &ClaudeHarness) -> SessionSpec {
    let mut spec = lab.spec();
    spec.mode = Mode::Model;
    spec.cwd = lab.place.work_dir();
    spec
}

fn raw(value: &serde_json::Value) -> angelia_core::model::RawJson {
    serde_json::value::to_raw_value(value).unwrap().into()
}

fn lookup() -> CallerTool {
    CallerTool {
        name: "lookup".into(),
        description: "finds things".into(),
        input_schema: raw(&json!({"type": "object", "properties": {"q": {"type": "string"}}})),
    }
}

#[tokio::test]
async fn real_nothing_of_the_machine_can_be_read() {
    on_both(async |lab| {
        let path = lab.place.work_dir().join("secret.txt");
        fs::write(&path, "CONTENT-OF-THE-FILE").unwrap();
        fs::write(lab.place.work_dir().join("CLAUDE.md"), "CONTENT-OF-THE-FILE").unwrap();
        let path = path.to_str().unwrap();
        let mut spec = model_spec(&lab);
        spec.trust = true;
        spec.tools = ToolSet::All;
        let mut session = lab.open(&spec).await;
        let text = |text: &str| Content::text(text);
        let mention = format!("@{path}");
        for origin in [TurnOrigin::Owner, TurnOrigin::Remote] {
            for input in [
                vec![text(&mention)],
                vec![text(&format!("ECHO:a {mention} b"))],
                vec![text(&format!("ECHO:a\n@\"{path}\""))],
                vec![text("ECHO:a"), text(&mention)],
                vec![text(&mention), text("ECHO:a")],
                vec![text("@../../work/secret.txt")],
                vec![text("/context")],
                vec![text("/init")],
            ] {
                session.turn(origin, input, Box::new(|_, _| {})).await.answer();
                let request = lab.last_request();
                assert!(!request.to_string().contains("CONTENT-OF-THE-FILE"));
                let tools = request["tools"].as_array().cloned().unwrap_or_default();
                assert!(tools.is_empty(), "{tools:?}");
            }
        }
        // A model that asks for tools that do not exist gets none.
        let read = call("Read", &json!({"file_path": path}));
        for prompt in [read, bash(&format!("cat {path}"))] {
            let heard = session.prompt(&prompt).await;
            assert!(heard.tool_results().iter().all(|result| !result.ok));
            assert!(!lab.last_request().to_string().contains("CONTENT-OF-THE-FILE"));
        }
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_the_callers_prompt_and_tools_are_all_there_is() {
    on_both(async |lab| {
        let mut spec = model_spec(&lab);
        spec.system = SystemPrompt::Replace("You are a MARKED model.".into());
        spec.caller_tools = vec![lookup()];
        let mut session = lab.open(&spec).await;
        let prompt = format!("{} ECHO:done", call("mcp__client__lookup", &json!({"q": "x"})));
        let heard = session
            .prompt_watched(&prompt, |emitted, hands| {
                if let AgentEvent::Event(EventKind::ToolCall(call)) = emitted {
                    assert_eq!(&*call.name, "lookup");
                    hands.send_control(TurnControl::ToolResult {
                        id: call.id.clone(),
                        ok: true,
                        content: vec![Content::text("FOUND-BY-THE-CALLER")],
                    });
                }
            })
            .await;
        assert_eq!(heard.answer(), "done");
        assert_eq!(heard.approval_requests().len(), 0);
        assert!(heard.tool_results()[0].output.contains("FOUND-BY-THE-CALLER"));
        let request = lab.last_request();
        assert!(request["system"].to_string().contains("You are a MARKED model."));
        assert!(request["system"].to_string().len() < 600, "{}", request["system"]);
        let tools = request["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 1, "{tools:?}");
        assert_eq!(tools[0]["description"], "finds things");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_parked_call_can_be_interrupted() {
    on_both(async |lab| {
        let mut spec = model_spec(&lab);
        spec.caller_tools = vec![lookup()];
        let mut session = lab.open(&spec).await;
        let heard = session
            .prompt_watched(&call("mcp__client__lookup", &json!({"q": "x"})), |emitted, hands| {
                if let AgentEvent::Event(EventKind::ToolCall(_)) = emitted {
                    hands.cancel.cancel();
                }
            })
            .await;
        assert_eq!(heard.outcome.status, angelia_core::model::TurnStatus::Interrupted);
        assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_history_with_tools_is_carried_into_model_mode() {
    on_both(async |lab| {
        let mut spec = model_spec(&lab);
        spec.caller_tools = vec![lookup()];
        spec.history = history();
        let mut session = lab.open(&spec).await;
        let heard = session.prompt("ECHO:new").await;
        assert_eq!(heard.answer(), "new");
        assert_carried(&lab, "mcp__client__lookup", "ECHO:new");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_schema_becomes_structured_output() {
    on_both(async |lab| {
        let mut spec = model_spec(&lab);
        spec.output_schema = Some(raw(&json!({"type": "object", "required": ["a"],
            "properties": {"a": {"type": "integer"}}})));
        let mut session = lab.open(&spec).await;
        let prompt = format!("{} ECHO:done", call("StructuredOutput", &json!({"a": 7})));
        let heard = session.prompt(&prompt).await;
        let text = heard.answer();
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        assert_eq!(value, json!({"a": 7}), "{text}");
        session.close().await;
    })
    .await;
}
