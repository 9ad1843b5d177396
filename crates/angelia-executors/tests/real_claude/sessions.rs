//! Conversations that outlive their process: resumed, lost, carried in, copied, forgotten.

use angelia_core::{
    model::{Content, HistoryMessage, MessagePart, NativeSessionId, Role, SystemPrompt, ToolId},
    ports::ConversationError,
};
use serde_json::{Value, json};

use crate::harness::{ClaudeHarness, on_both};

/// Returns the roles and texts of a model request, without the program's own additions.
fn roles_and_words(request: &Value) -> Vec<(String, String)> {
    let mut said = Vec::new();
    for message in request["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap().to_owned();
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            blocks => blocks.as_array().unwrap().clone(),
        };
        for block in blocks {
            let words = match block["type"].as_str().unwrap() {
                "text" => block["text"].as_str().unwrap().to_owned(),
                "tool_use" => format!("use {} {}", block["name"], block["input"]),
                "tool_result" => format!("result {}", block["content"]),
                other => other.to_owned(),
            };
            if role != "system" && !words.contains("<system-reminder>") {
                said.push((role.clone(), words));
            }
        }
    }
    said
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(role, words)| ((*role).to_owned(), (*words).to_owned())).collect()
}

#[tokio::test]
async fn real_a_conversation_resumes_with_everything_it_had() {
    on_both(async |lab| {
        let mut spec = lab.spec();
        spec.system = SystemPrompt::Append("MARK-OF-THE-PROMPT".into());
        let mut session = lab.open(&spec).await;
        let first = session.prompt("ECHO:one").await;
        let before = lab.last_request();
        session.close().await;

        let mut session = lab.resume(&spec, &first.native_session_id()).await;
        let second = session.prompt("ECHO:two").await;
        assert_eq!(second.answer(), "two");
        assert!(second.started().resumed);
        assert_eq!(second.native_session_id(), first.native_session_id());
        let after = lab.last_request();
        assert_eq!(after["model"], before["model"]);
        assert_eq!(after["tools"], before["tools"]);
        assert!(after["system"].to_string().contains("MARK-OF-THE-PROMPT"));
        assert_eq!(
            roles_and_words(&after),
            pairs(&[("user", "ECHO:one"), ("assistant", "one"), ("user", "ECHO:two")])
        );
        assert_eq!(second.usage().prefix_sha256, first.usage().prefix_sha256);
        assert!(second.usage().input_tokens < 100, "not the first turn's again");
        session.close().await;

        // With resuming switched off, every process starts a new conversation.
        spec.resume = false;
        let mut session = lab.resume(&spec, &first.native_session_id()).await;
        let third = session.prompt("ECHO:three").await;
        assert_ne!(third.native_session_id(), first.native_session_id());
        assert!(!third.started().resumed);
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_new_sessions_have_ids_of_their_own() {
    on_both(async |lab| {
        let mut seen: Vec<NativeSessionId> = Vec::new();
        for _ in 0..2 {
            let mut session = lab.open(&lab.spec()).await;
            let native = session.prompt("hello").await.native_session_id();
            assert!(!seen.contains(&native));
            seen.push(native);
            session.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn real_a_lost_conversation_is_reported_before_anything_runs() {
    on_both(async |lab| {
        let spec = lab.spec();
        let mut session = lab.open(&spec).await;
        let native = session.prompt("ECHO:one").await.native_session_id();
        session.close().await;

        // The file is there, but the program finds no conversation in it.
        let name = format!("{native}.jsonl");
        let transcript = find_file(&lab.place.home().join(".claude"), &name).unwrap();
        std::fs::write(&transcript, "").unwrap();
        let before = lab.server.model_requests().len();
        assert_eq!(lab.open_error(&spec, &native).await, ConversationError::Lost);

        lab.executor.delete_conversation(&spec, &native).await.unwrap();
        let left = walk(&lab.place.home().join(".claude"), native.as_str());
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(lab.open_error(&spec, &native).await, ConversationError::Lost);
        let copied = lab.executor.fork(&spec, &native).await;
        assert_eq!(copied.unwrap_err(), ConversationError::Lost);
        assert_eq!(lab.server.model_requests().len(), before);
    })
    .await;
}

fn find_file(folder: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().find_map(|entry| {
        if entry.file_name() == name { Some(entry.path()) } else { find_file(&entry.path(), name) }
    })
}

/// Returns every file or folder below `folder` with `text` in its name.
fn walk(folder: &std::path::Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(text) {
            found.push(name);
        }
        found.extend(walk(&entry.path(), text));
    }
    found
}

#[tokio::test]
async fn real_a_copied_conversation_goes_its_own_way() {
    on_both(async |lab| {
        let spec = lab.spec();
        let mut session = lab.open(&spec).await;
        let native = session.prompt("ECHO:one").await.native_session_id();
        let copy = lab.executor.fork(&spec, &native).await.unwrap();
        assert_ne!(copy, native);
        session.prompt("ECHO:only in the first").await;
        session.close().await;

        let mut session = lab.resume(&spec, &copy).await;
        let heard = session.prompt("ECHO:only in the copy").await;
        assert_eq!(heard.native_session_id(), copy);
        assert_eq!(
            roles_and_words(&lab.last_request()),
            pairs(&[("user", "ECHO:one"), ("assistant", "one"), ("user", "ECHO:only in the copy")])
        );
        session.close().await;

        let mut session = lab.resume(&spec, &native).await;
        session.prompt("ECHO:three").await;
        let said = roles_and_words(&lab.last_request());
        assert!(said.iter().any(|(_, words)| words == "only in the first"));
        assert!(!said.iter().any(|(_, words)| words == "only in the copy"));
        session.close().await;
        let unknown = NativeSessionId::new("00000000-0000-4000-8000-000000000000");
        assert!(lab.executor.fork(&spec, &unknown).await.is_err());
    })
    .await;
}

pub(crate) fn history() -> Vec<HistoryMessage> {
    let text = |text: &str| MessagePart::Content(Content::text(text));
    let message = |role, parts| HistoryMessage { role, parts };
    let input = serde_json::value::to_raw_value(&json!({"q": "x"})).unwrap();
    vec![
        message(Role::User, vec![text("carried one")]),
        message(
            Role::Assistant,
            vec![
                text("carried two"),
                MessagePart::ToolUse {
                    id: ToolId::new("toolu_carried"),
                    name: "lookup".into(),
                    input: input.into(),
                },
            ],
        ),
        message(
            Role::User,
            vec![MessagePart::ToolResult {
                id: ToolId::new("toolu_carried"),
                ok: true,
                content: vec![Content::text("carried three")],
            }],
        ),
        message(Role::Assistant, vec![text("carried four")]),
    ]
}

/// `tool` is the name under which the model knows the tool of [`history`].
pub(crate) fn assert_carried(lab: &ClaudeHarness, tool: &str, new: &str) {
    let said = roles_and_words(&lab.last_request());
    assert_eq!(
        said,
        pairs(&[
            ("user", "carried one"),
            ("assistant", "carried two"),
            ("assistant", &format!(r#"use "{tool}" {{"q":"x"}}"#)),
            ("user", r#"result [{"type":"text","text":"carried three"}]"#),
            ("assistant", "carried four"),
            ("user", new),
        ])
    );
}

#[tokio::test]
async fn real_a_carried_history_arrives_with_its_true_roles() {
    on_both(async |lab| {
        let mut spec = lab.spec();
        spec.history = history();
        let mut session = lab.open(&spec).await;
        let heard = session.prompt("ECHO:new").await;
        assert_eq!(heard.answer(), "new");
        assert!(heard.notices().is_empty(), "{heard:#?}");
        assert!(!heard.started().resumed);
        assert_carried(&lab, "lookup", "ECHO:new");
        let native = heard.native_session_id();
        session.close().await;

        // From then on the conversation behaves like any other.
        let mut session = lab.resume(&spec, &native).await;
        session.prompt("ECHO:newer").await.answer();
        let said = roles_and_words(&lab.last_request());
        assert_eq!(said.len(), 8, "{said:#?}");
        session.close().await;
    })
    .await;
}
