//! Builds the results of the app-server's requests.

use std::collections::BTreeMap;

use angelia_core::model::{Content, Verdict};
use serde_json::{Map, Value, json, value::RawValue};

use super::outgoing::data_url;

pub(crate) const COMMAND_APPROVAL: &str = "item/commandExecution/requestApproval";
pub(crate) const PATCH_APPROVAL: &str = "item/fileChange/requestApproval";
pub(crate) const PERMISSIONS_APPROVAL: &str = "item/permissions/requestApproval";
pub(crate) const USER_INPUT: &str = "item/tool/requestUserInput";
pub(crate) const ELICITATION: &str = "mcpServer/elicitation/request";
pub(crate) const TOOL_CALL: &str = "item/tool/call";

/// Returns the decision on a command or a patch. Never uses decisions that Codex would remember.
pub(crate) fn decision(verdict: Verdict) -> Box<RawValue> {
    let decision = match verdict {
        Verdict::Once | Verdict::Session | Verdict::Always => "accept",
        Verdict::Deny => "decline",
        Verdict::Stop => "cancel",
    };
    raw(&json!({"decision": decision}))
}

/// Grants all requested permissions, or none.
pub(crate) fn permissions(wanted: &RawValue, verdict: Verdict) -> Box<RawValue> {
    let granted: Value = if verdict.allows() {
        serde_json::from_str(wanted.get()).unwrap_or_else(|_| json!({}))
    } else {
        json!({})
    };
    raw(&json!({"permissions": granted, "scope": "turn"}))
}

/// Returns the answers to a user-input request, by the ids of its questions.
pub(crate) fn user_input(answers: &BTreeMap<&str, &str>) -> Box<RawValue> {
    let answers: Map<String, Value> = answers
        .iter()
        .map(|(id, answer)| ((*id).to_owned(), json!({"answers": [answer]})))
        .collect();
    raw(&json!({"answers": answers}))
}

pub(crate) fn accept_elicitation(content: &Map<String, Value>) -> Box<RawValue> {
    raw(&json!({"action": "accept", "content": content}))
}

/// Declines or cancels an elicitation.
pub(crate) fn decline_elicitation(verdict: Verdict) -> Box<RawValue> {
    let action = match verdict {
        Verdict::Stop => "cancel",
        _ => "decline",
    };
    raw(&json!({"action": action, "content": null}))
}

/// Returns the result of a caller's tool.
pub(crate) fn tool_result(ok: bool, content: &[Content]) -> Box<RawValue> {
    let items: Vec<Value> = content
        .iter()
        .map(|content| match content {
            Content::Text(text) => json!({"type": "inputText", "text": &**text}),
            Content::Image { media_type, data } => {
                json!({"type": "inputImage", "imageUrl": data_url(media_type, data)})
            }
        })
        .collect();
    raw(&json!({"contentItems": items, "success": ok}))
}

/// Returns the result that declines a request, or `None` if the method is unknown.
pub(crate) fn decline(method: &str) -> Option<Box<RawValue>> {
    Some(match method {
        COMMAND_APPROVAL | PATCH_APPROVAL => decision(Verdict::Deny),
        PERMISSIONS_APPROVAL => permissions(RawValue::NULL, Verdict::Deny),
        USER_INPUT => user_input(&BTreeMap::new()),
        ELICITATION => decline_elicitation(Verdict::Deny),
        TOOL_CALL => tool_result(false, &[Content::text("nobody is there to run this tool")]),
        _ => return None,
    })
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
