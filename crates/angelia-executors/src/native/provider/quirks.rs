//! The differences between hosts that speak the same API. This is the only file that names hosts
//! and model families; all other code reads the fields of [`Quirks`]. A host that is not listed
//! gets the smallest request that its API allows.

use serde::Deserialize;

use super::Api;

/// The deviations of a server from the API that it speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// `stop` may be reported for an answer that was cut off.
    pub stop_unreliable: bool,
    /// Tool calls may arrive as text.
    pub text_tools: bool,
    pub reasoning_echo: ReasoningEcho,
    /// The system prompt has the role `developer`.
    pub developer_role: bool,
    /// Accepts `store`, which must then be false.
    pub store: bool,
    /// Accepts `stream_options`, and reports usage only with it.
    pub stream_options: bool,
    /// Accepts `strict` on a tool, which must then be false.
    pub strict: bool,
    pub max_tokens_field: MaxTokensField,
    /// A result must name its tool.
    pub tool_result_name: bool,
    /// Content must always be a list of parts.
    pub list_content: bool,
    /// Refuses two user messages in a row.
    pub merge_user_turns: bool,
    /// Accepts cache marks on content parts.
    pub cache_marks: bool,
    /// Accepts a key by which it finds its cache.
    pub cache_key: bool,
    pub thinking: ThinkingForm,
    pub key_header: KeyHeader,
    /// Added to the first call of another issuer's answer, because the server refuses a call
    /// without it.
    pub foreign_call_extra: Option<&'static str>,
}

/// The part of its own reasoning that a server wants back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEcho {
    None,
    /// Signed blocks, unchanged.
    Signature,
    /// Sealed items, unchanged and without their ids.
    Encrypted,
    /// The text, with every answer that calls tools; never empty.
    ReasoningContent,
    /// The list of details, unchanged.
    ReasoningDetails,
}

/// The name of the field for the output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    MaxTokens,
    MaxCompletionTokens,
}

/// The header that carries the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY`.
    XApiKey,
    /// `api-key: KEY`.
    ApiKey,
}

/// How a request tells a Messages server to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingForm {
    /// The model decides; an effort guides it.
    Adaptive,
    /// A number of tokens.
    Budget,
}

/// The fields of `providers.NAME.quirks`; an absent field keeps the value from the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuirkOverrides {
    pub stop_unreliable: Option<bool>,
    pub text_tools: Option<bool>,
    pub reasoning_echo: Option<ReasoningEcho>,
    pub developer_role: Option<bool>,
    pub store: Option<bool>,
    pub stream_options: Option<bool>,
    pub strict: Option<bool>,
    pub max_tokens_field: Option<MaxTokensField>,
    pub tool_result_name: Option<bool>,
    pub list_content: Option<bool>,
    pub merge_user_turns: Option<bool>,
}

type QuirkChange = fn(&mut Quirks);

/// Hosts, including their subdomains, and what they change.
const HOSTS: &[(&str, QuirkChange)] = &[
    ("api.anthropic.com", |quirks| quirks.thinking = ThinkingForm::Adaptive),
    ("api.openai.com", openai),
    ("openai.azure.com", azure),
    ("services.ai.azure.com", azure),
    ("openrouter.ai", |quirks| {
        quirks.reasoning_echo = ReasoningEcho::ReasoningDetails;
        quirks.list_content = true;
        quirks.cache_marks = true;
    }),
    ("api.deepseek.com", reasoning_content),
    ("api.moonshot.ai", reasoning_content),
    ("api.moonshot.cn", reasoning_content),
    ("api.kimi.com", reasoning_content),
    ("api.xiaomimimo.com", reasoning_content),
    ("generativelanguage.googleapis.com", |quirks| {
        quirks.foreign_call_extra =
            Some(r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#);
    }),
    // Answers 422 to an unknown field.
    ("api.mistral.ai", |quirks| quirks.stream_options = false),
    // Local servers: their templates often require alternating roles.
    ("localhost", local),
    ("127.0.0.1", local),
    ("::1", local),
];

/// Model families that take a thinking budget instead of an effort.
const BUDGET_MODELS: &[&str] = &[
    "claude-3",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-haiku-4",
];

fn openai(quirks: &mut Quirks) {
    quirks.developer_role = true;
    quirks.store = true;
    quirks.strict = true;
    quirks.cache_key = true;
    quirks.max_tokens_field = MaxTokensField::MaxCompletionTokens;
}

fn azure(quirks: &mut Quirks) {
    openai(quirks);
    quirks.key_header = KeyHeader::ApiKey;
}

fn reasoning_content(quirks: &mut Quirks) {
    if quirks.reasoning_echo == ReasoningEcho::None {
        quirks.reasoning_echo = ReasoningEcho::ReasoningContent;
    }
}

fn local(quirks: &mut Quirks) {
    quirks.merge_user_turns = true;
}

impl Quirks {
    /// Returns the quirks of a model on a server, by the server's API and host.
    pub fn for_endpoint(api: Api, host: &str, model: &str) -> Self {
        let mut quirks = Self::of_api(api);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        for (known, change) in HOSTS {
            let is_subdomain =
                host.strip_suffix(known).is_some_and(|rest| rest.ends_with('.') || rest.is_empty());
            if is_subdomain {
                change(&mut quirks);
            }
        }
        if BUDGET_MODELS.iter().any(|family| model.starts_with(family)) {
            quirks.thinking = ThinkingForm::Budget;
        }
        quirks
    }

    /// Returns the default quirks of an API, which every server can handle.
    fn of_api(api: Api) -> Self {
        Self {
            stop_unreliable: false,
            text_tools: false,
            reasoning_echo: match api {
                Api::Messages => ReasoningEcho::Signature,
                Api::Chat => ReasoningEcho::None,
                Api::Responses => ReasoningEcho::Encrypted,
            },
            developer_role: false,
            store: api == Api::Responses,
            stream_options: true,
            strict: false,
            max_tokens_field: MaxTokensField::MaxTokens,
            tool_result_name: false,
            list_content: false,
            merge_user_turns: false,
            cache_marks: api == Api::Messages,
            cache_key: false,
            thinking: ThinkingForm::Budget,
            key_header: match api {
                Api::Messages => KeyHeader::XApiKey,
                Api::Chat | Api::Responses => KeyHeader::Bearer,
            },
            foreign_call_extra: None,
        }
    }

    /// Returns the quirks with the owner's overrides.
    #[must_use]
    pub fn with(self, overrides: &QuirkOverrides) -> Self {
        Self {
            stop_unreliable: overrides.stop_unreliable.unwrap_or(self.stop_unreliable),
            text_tools: overrides.text_tools.unwrap_or(self.text_tools),
            reasoning_echo: overrides.reasoning_echo.unwrap_or(self.reasoning_echo),
            developer_role: overrides.developer_role.unwrap_or(self.developer_role),
            store: overrides.store.unwrap_or(self.store),
            stream_options: overrides.stream_options.unwrap_or(self.stream_options),
            strict: overrides.strict.unwrap_or(self.strict),
            max_tokens_field: overrides.max_tokens_field.unwrap_or(self.max_tokens_field),
            tool_result_name: overrides.tool_result_name.unwrap_or(self.tool_result_name),
            list_content: overrides.list_content.unwrap_or(self.list_content),
            merge_user_turns: overrides.merge_user_turns.unwrap_or(self.merge_user_turns),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_its_subdomains_have_its_quirks_and_no_other() {
        let echo = |host| Quirks::for_endpoint(Api::Chat, host, "m").reasoning_echo;
        assert_eq!(echo("openrouter.ai"), ReasoningEcho::ReasoningDetails);
        assert_eq!(echo("EU.OpenRouter.ai"), ReasoningEcho::ReasoningDetails);
        assert_eq!(echo("notopenrouter.ai"), ReasoningEcho::None);
        assert_eq!(echo("openrouter.ai.example.com"), ReasoningEcho::None);
        assert_eq!(echo("api.deepseek.com"), ReasoningEcho::ReasoningContent);
        assert!(Quirks::for_endpoint(Api::Chat, "[::1]", "m").merge_user_turns);
    }

    #[test]
    fn a_host_does_not_change_what_its_other_api_wants_back() {
        let quirks = Quirks::for_endpoint(Api::Messages, "api.deepseek.com", "m");
        assert_eq!(quirks.reasoning_echo, ReasoningEcho::Signature);
    }

    #[test]
    fn the_model_decides_how_it_is_asked_to_think() {
        let form = |model| Quirks::for_endpoint(Api::Messages, "api.anthropic.com", model).thinking;
        assert_eq!(form("claude-sonnet-4-5-20250929"), ThinkingForm::Budget);
        assert_eq!(form("claude-opus-4-6"), ThinkingForm::Adaptive);
        assert_eq!(form("claude-next"), ThinkingForm::Adaptive);
    }

    #[test]
    fn the_owner_can_correct_every_field() {
        let every = r#"{"stop_unreliable":true,"text_tools":true,"reasoning_echo":"encrypted",
            "developer_role":true,"store":true,"stream_options":false,"strict":true,
            "max_tokens_field":"max_completion_tokens","tool_result_name":true,
            "list_content":true,"merge_user_turns":true}"#;
        let overrides: QuirkOverrides = serde_json::from_str(every).unwrap();
        let quirks = Quirks::for_endpoint(Api::Chat, "example.com", "m").with(&overrides);
        let expected = Quirks {
            stop_unreliable: true,
            text_tools: true,
            reasoning_echo: ReasoningEcho::Encrypted,
            developer_role: true,
            store: true,
            stream_options: false,
            strict: true,
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            tool_result_name: true,
            list_content: true,
            merge_user_turns: true,
            ..Quirks::of_api(Api::Chat)
        };
        assert_eq!(quirks, expected);
        assert!(serde_json::from_str::<QuirkOverrides>(r#"{"stop":true}"#).is_err());
    }
}
