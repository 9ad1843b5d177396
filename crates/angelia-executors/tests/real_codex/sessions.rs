//! Conversations that outlive their process: resumed, copied, carried in, lost.

use std::{
    fs,
    path::{Path, PathBuf},
};

use angelia_core::{
    model::{Content, HistoryMessage, MessagePart, NativeSessionId, Role, SystemPrompt},
    ports::ConversationError,
};
use angelia_testkit::direct_session::DirectSession;
use serde_json::Value;

use crate::harness::{CodexHarness, exec};

fn request_contains(request: &Value, text: &str) -> bool {
    request.to_string().contains(text)
}

#[tokio::test]
async fn real_a_conversation_is_taken_up_by_the_next_process() {
    let lab = CodexHarness::new();
    let mut spec = lab.unattended();
    spec.system = SystemPrompt::Append("MARK-OF-THE-PROMPT".into());
    let mut session = lab.open(&spec).await;
    let first = session.prompt("ECHO:said before").await;
    assert!(!first.started().resumed);
    session.close().await;
    lab.close().await;

    let mut session = lab.resume(&spec, &first.native_session_id()).await;
    let second = session.prompt(&exec("touch still-writable")).await;
    assert_eq!(second.answer(), "done");
    assert!(second.started().resumed);
    assert_eq!(second.native_session_id(), first.native_session_id());
    assert!(second.notices().is_empty(), "{second:#?}");
    // The permissions are those of the profile, not the defaults of a resume.
    assert!(lab.path("still-writable").exists());
    let request = lab.last_request();
    assert!(
        request_contains(&request, "said before")
            && request_contains(&request, "MARK-OF-THE-PROMPT")
    );
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_copy_and_its_original_part() {
    let lab = CodexHarness::new();
    let spec = lab.spec();
    let mut session = lab.open(&spec).await;
    let native = session.prompt("ECHO:in both").await.native_session_id();
    let copy = lab.executor.fork(&spec, &native).await.unwrap();
    session.prompt("ECHO:in the original").await;
    let mut other = lab.resume(&spec, &copy).await;
    let heard = other.prompt("ECHO:in the copy").await;
    assert_eq!(heard.native_session_id(), copy);
    let request = lab.last_request();
    assert!(
        request_contains(&request, "in both") && !request_contains(&request, "in the original")
    );
    // The tokens of the original do not count for the copy.
    assert!(heard.usage().output_tokens < 200, "{:?}", heard.usage());
    session.close().await;
    other.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_history_from_elsewhere_has_its_roles() {
    let lab = CodexHarness::new();
    let mut spec = lab.spec();
    for (role, text) in [(Role::User, "carried question"), (Role::Assistant, "carried answer")] {
        let parts = vec![MessagePart::Content(Content::text(text))];
        spec.history.push(HistoryMessage { role, parts });
    }
    let mut session = lab.open(&spec).await;
    let heard = session.prompt("ECHO:new").await;
    assert_eq!(heard.answer(), "new");
    assert!(!heard.started().resumed);
    let request = lab.last_request();
    let items = request["input"].as_array().unwrap();
    let roles: Vec<(&str, String)> = items
        .iter()
        .filter(|item| item.to_string().contains("carried"))
        .map(|item| (item["role"].as_str().unwrap(), item["content"].to_string()))
        .collect();
    assert_eq!(roles.len(), 2, "{request:#}");
    assert_eq!((roles[0].0, roles[1].0), ("user", "assistant"));
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_lost_conversation_is_reported_before_anything_runs() {
    let lab = CodexHarness::new();
    let spec = lab.spec();
    let never = NativeSessionId::new("01a1e05a-e137-74e1-9150-7cac91af30f2");
    let open_error = async |native: &NativeSessionId| {
        DirectSession::open_error(&*lab.executor, &lab.spec(), native).await
    };
    assert_eq!(open_error(&never).await, ConversationError::Lost);
    assert_eq!(lab.executor.fork(&spec, &never).await.unwrap_err(), ConversationError::Lost);

    // A conversation of an earlier process, whose file somebody has removed or emptied since.
    for damage in [remove_file as fn(&Path), empty_file] {
        let mut session = lab.open(&spec).await;
        let native = session.prompt("ECHO:one").await.native_session_id();
        session.close().await;
        lab.executor.close().await;
        let asked = lab.server.model_requests().len();
        damage(&find_rollout(&lab.home, native.as_str()).unwrap());
        assert_eq!(open_error(&native).await, ConversationError::Lost);
        assert_eq!(lab.server.model_requests().len(), asked);
    }
    lab.close().await;
}

fn remove_file(path: &Path) {
    fs::remove_file(path).unwrap();
}

fn empty_file(path: &Path) {
    fs::write(path, "").unwrap();
}

fn find_rollout(folder: &Path, id: &str) -> Option<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("rollout-") && name.contains(id) {
            Some(entry.path())
        } else {
            find_rollout(&entry.path(), id)
        }
    })
}
