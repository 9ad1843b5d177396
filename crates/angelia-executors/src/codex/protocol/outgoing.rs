//! The requests that Angelia sends to the app-server.
//!
//! A request is a struct that holds its parameters; [`Call::METHOD`] is its name. Parameters that
//! are `None` or empty are left out, which the app-server reads as "unchanged" or "as configured".

use std::{collections::BTreeMap, path::Path};

use angelia_core::model::{CallerTool, Content};
use base64::Engine as _;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

/// A request that Angelia sends.
pub trait Call: Serialize {
    const METHOD: &'static str;
}

macro_rules! calls {
    ($($method:literal => $name:ident $(<$life:lifetime>)?,)*) => {
        $(impl $(<$life>)? Call for $name $(<$life>)? {
            const METHOD: &'static str = $method;
        })*

        /// The methods of all calls in this module.
        pub const METHODS: &[&str] = &[$($method),*];
    };
}

calls! {
    "initialize" => Initialize<'a>,
    "thread/start" => ThreadStart<'a>,
    "thread/resume" => ThreadResume<'a>,
    "thread/fork" => ThreadFork<'a>,
    "thread/inject_items" => ThreadInjectItems<'a>,
    "thread/unsubscribe" => Unsubscribe<'a>,
    "thread/delete" => Delete<'a>,
    "thread/backgroundTerminals/clean" => CleanTerminals<'a>,
    "turn/start" => TurnStart<'a>,
    "turn/steer" => TurnSteer<'a>,
    "turn/interrupt" => TurnInterrupt<'a>,
    "account/read" => AccountRead,
}

/// The first request. Permission profiles need `experimental_api`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialize<'a> {
    pub client_info: ClientInfo<'a>,
    pub capabilities: InitializeCapabilities<'a>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ClientInfo<'a> {
    pub name: &'a str,
    pub title: &'a str,
    pub version: &'a str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeCapabilities<'a> {
    pub experimental_api: bool,
    /// Exact names of notifications that the app-server must not send.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub opt_out_notification_methods: &'a [&'a str],
}

/// The settings of a thread. They are sent again when it is resumed, because Codex forgets some.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettings<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<&'a str>,
    /// The name of a permission profile: `:read-only`, `:workspace`. (A `sandbox` setting would not
    /// survive a resume.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    /// Keys of `config.toml`, dotted or nested.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, Value>,
    /// Replaces Codex's own prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<&'a str>,
    /// Follows Codex's own prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Codex asks about every command that is not known to be harmless.
    Untrusted,
    /// Codex asks if the model wants to leave the sandbox.
    OnRequest,
    Never,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStart<'a> {
    #[serde(flatten)]
    pub settings: ThreadSettings<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dynamic_tools: Vec<DynamicTool<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ephemeral: bool,
}

/// A tool that the caller runs; its calls arrive as `item/tool/call`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

impl<'a> From<&'a CallerTool> for DynamicTool<'a> {
    fn from(tool: &'a CallerTool) -> Self {
        Self {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResume<'a> {
    pub thread_id: &'a str,
    /// Leaves the history out of the response, where it is deprecated and may be long.
    pub exclude_turns: bool,
    #[serde(flatten)]
    pub settings: ThreadSettings<'a>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadFork<'a> {
    pub thread_id: &'a str,
    pub exclude_turns: bool,
    #[serde(flatten)]
    pub settings: ThreadSettings<'a>,
}

/// Appends items of the model's API to the model's history; see [`history`](super::history).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadInjectItems<'a> {
    pub thread_id: &'a str,
    pub items: Vec<Value>,
}

macro_rules! of_thread {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name<'a> {
            pub thread_id: &'a str,
        })*
    };
}

of_thread! {
    /// Ends the subscription to a thread, so that it may be unloaded.
    Unsubscribe,
    /// Deletes a thread with its transcript.
    Delete,
    /// Ends the commands that outlive a turn.
    CleanTerminals,
}

/// Starts a turn. Never sent during an active turn, because Codex would treat it as steering.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart<'a> {
    pub thread_id: &'a str,
    pub input: Vec<UserInput<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_user_message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<&'a RawValue>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteer<'a> {
    pub thread_id: &'a str,
    pub expected_turn_id: &'a str,
    pub input: Vec<UserInput<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_user_message_id: Option<&'a str>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterrupt<'a> {
    pub thread_id: &'a str,
    pub turn_id: &'a str,
}

/// Reads the login on this machine. Contacts no host unless `refresh_token` is set.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountRead {
    pub refresh_token: bool,
}

/// One part of a user's message.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum UserInput<'a> {
    Text { text: &'a str },
    Image { url: String },
}

pub fn to_user_input(content: &[Content]) -> Vec<UserInput<'_>> {
    (content.iter())
        .map(|content| match content {
            Content::Text(text) => UserInput::Text { text },
            Content::Image { media_type, data } => {
                UserInput::Image { url: data_url(media_type, data) }
            }
        })
        .collect()
}

pub(crate) fn data_url(media_type: &str, data: &[u8]) -> String {
    let data = base64::engine::general_purpose::STANDARD.encode(data);
    format!("data:{media_type};base64,{data}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(call: &impl Call) -> Value {
        serde_json::to_value(call).unwrap()
    }

    #[test]
    fn what_is_not_set_is_not_sent() {
        let start = ThreadStart {
            settings: ThreadSettings {
                cwd: Some(Path::new("/w")),
                permissions: Some(":workspace"),
                approval_policy: Some(ApprovalPolicy::OnRequest),
                ..ThreadSettings::default()
            },
            ..ThreadStart::default()
        };
        assert_eq!(
            params(&start),
            json!({"cwd": "/w", "permissions": ":workspace", "approvalPolicy": "on-request"})
        );
    }

    #[test]
    fn words_and_pictures_are_spelled_as_input() {
        let content = [
            Content::text("a\nb"),
            Content::Image { media_type: "image/png".into(), data: (*b"x").into() },
        ];
        let turn = TurnStart {
            thread_id: "t",
            input: to_user_input(&content),
            client_user_message_id: Some("u"),
            model: None,
            effort: None,
            output_schema: None,
        };
        assert_eq!(
            params(&turn),
            json!({"threadId": "t", "clientUserMessageId": "u", "input": [
                {"type": "text", "text": "a\nb"},
                {"type": "image", "url": "data:image/png;base64,eA=="}]})
        );
    }

    #[test]
    fn a_callers_tool_keeps_the_bytes_of_its_schema() {
        let tool = CallerTool {
            name: "look".into(),
            description: "d".into(),
            input_schema: RawValue::from_string(r#"{"z":1,"a":2}"#.to_owned()).unwrap().into(),
        };
        let start =
            ThreadStart { dynamic_tools: vec![DynamicTool::from(&tool)], ..ThreadStart::default() };
        let line = serde_json::to_string(&start).unwrap();
        assert!(line.contains(r#""inputSchema":{"z":1,"a":2}"#), "{line}");
        assert!(line.contains(r#""type":"function""#), "{line}");
    }
}
