//! The model providers for `executor: native`.

use std::{collections::BTreeMap, sync::Arc};

use angelia_executors::native::{
    provider::{
        Api, QuirkOverrides,
        quirks::{MaxTokensField, ReasoningEcho},
    },
    providers::{KeyRotation, check_address},
};
use serde::Serialize;

use super::{
    BoundedCount, KeySetting, ModelId, ModelPrice, ProfileName, SecretValue,
    choices::{ApiName, EchoName, MaxTokensName, RotationName},
};
use crate::config::{
    schema::inline_schema,
    setting::{Setting, TextSetting, ValueCursor, settings},
};

settings! {
    /// A model provider.
    ProviderFields {
        /// The API that it speaks. `null`: the API of the built-in provider of this name; required for any
        /// other name.
        api: Option<ApiName> = None,
        /// Its address, as the vendor's own library takes it: without `/v1` for `messages`, with it for
        /// the others. `null`: that of the built-in provider of this name.
        base_url: Option<BaseUrl> = None,
        /// The sources of its keys: `{env: NAME}`, `{file: PATH}`, `{command: [PROGRAM, …]}`, which
        /// prints the key, or JSON with `token` and `expires_on`, `{entra: {…}}` or `{oauth: {…}}`.
        /// `rotate` chooses among several; `[]`: requests carry no key. `null`: the variable of the
        /// built-in provider of this name.
        keys: Option<Vec<KeySetting>> = None,
        /// The choice among several keys at the start of a turn: `fill_first` takes the first usable key,
        /// `round_robin` each in turn, `least_used` the one with the fewest requests. A key that is
        /// refused or limited gives way to the next.
        rotate: RotationName = RotationName::FillFirst,
        /// Sent with every request; the values are never printed.
        headers: BTreeMap<HeaderName, SecretValue> = BTreeMap::new(),
        /// Deviations of the server from its API, where the built-in table of hosts is wrong or
        /// incomplete.
        quirks: QuirkSettings = QuirkSettings::default(),
        /// Facts about its models, by their ids. A model that is not listed can be used too.
        models: BTreeMap<ModelId, ModelFields> = BTreeMap::new(),
        /// Whether the last request of a failed turn is written to a file of its session, with the known
        /// secrets masked; the five newest are kept. This helps to find out why a server refuses requests.
        dump_failed_requests: bool = false,
    }
}

settings! {
    /// Facts about a model.
    ModelFields {
        /// Tokens of the prompt and the answer together. `null`: the server is asked.
        context: Option<TokenCount> = None,
        /// Tokens of one answer.
        output: Option<TokenCount> = None,
        /// Whether it takes images. `null`: they are tried.
        images: Option<bool> = None,
        /// Whether it calls tools. `null`: they are offered.
        tools: Option<bool> = None,
        /// Whether it can be told how much to think. `null`: it is tried.
        reasoning: Option<bool> = None,
        /// The price of its tokens; overrides `prices` and the built-in table.
        price: Option<ModelPrice> = None,
    }
}

settings! {
    /// Deviations of a server from its API; `null` keeps the facts of the built-in table.
    QuirkSettings {
        /// `stop` may be reported for an answer that was cut off.
        stop_unreliable: Option<bool> = None,
        /// Tool calls may come as text.
        text_tools: Option<bool> = None,
        /// The part of its own reasoning that the server wants back.
        reasoning_echo: Option<EchoName> = None,
        /// The system prompt has the role `developer`.
        developer_role: Option<bool> = None,
        /// Accepts `store`.
        store: Option<bool> = None,
        /// Accepts `stream_options`.
        stream_options: Option<bool> = None,
        /// Accepts `strict` on a tool.
        strict: Option<bool> = None,
        /// The name of the output limit.
        max_tokens_field: Option<MaxTokensName> = None,
        /// The result of a tool must name the tool.
        tool_result_name: Option<bool> = None,
        /// Content is always a list of parts.
        list_content: Option<bool> = None,
        /// Refuses two user messages in a row.
        merge_user_turns: Option<bool> = None,
    }
}

/// A number of tokens.
pub(crate) type TokenCount = BoundedCount<1, 100_000_000>;

impl From<&QuirkSettings> for QuirkOverrides {
    fn from(settings: &QuirkSettings) -> Self {
        Self {
            stop_unreliable: settings.stop_unreliable,
            text_tools: settings.text_tools,
            reasoning_echo: settings.reasoning_echo.map(ReasoningEcho::from),
            developer_role: settings.developer_role,
            store: settings.store,
            stream_options: settings.stream_options,
            strict: settings.strict,
            max_tokens_field: settings.max_tokens_field.map(MaxTokensField::from),
            tool_result_name: settings.tool_result_name,
            list_content: settings.list_content,
            merge_user_turns: settings.merge_user_turns,
        }
    }
}

impl From<ApiName> for Api {
    fn from(name: ApiName) -> Self {
        match name {
            ApiName::Messages => Self::Messages,
            ApiName::Chat => Self::Chat,
            ApiName::Responses => Self::Responses,
        }
    }
}

impl From<RotationName> for KeyRotation {
    fn from(name: RotationName) -> Self {
        match name {
            RotationName::FillFirst => Self::FillFirst,
            RotationName::RoundRobin => Self::RoundRobin,
            RotationName::LeastUsed => Self::LeastUsed,
        }
    }
}

impl From<EchoName> for ReasoningEcho {
    fn from(name: EchoName) -> Self {
        match name {
            EchoName::None => Self::None,
            EchoName::Signature => Self::Signature,
            EchoName::Encrypted => Self::Encrypted,
            EchoName::ReasoningContent => Self::ReasoningContent,
            EchoName::ReasoningDetails => Self::ReasoningDetails,
        }
    }
}

impl From<MaxTokensName> for MaxTokensField {
    fn from(name: MaxTokensName) -> Self {
        match name {
            MaxTokensName::MaxTokens => Self::MaxTokens,
            MaxTokensName::MaxCompletionTokens => Self::MaxCompletionTokens,
        }
    }
}

/// The name of a provider, which precedes the `/` in a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct ProviderName(pub(crate) Arc<str>);

inline_schema!(ProviderName, {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"});

impl TextSetting for ProviderName {
    const EXPECTS: &'static str = ProfileName::EXPECTS;

    fn parse(text: &str) -> Option<Self> {
        ProfileName::parse(text).map(|name| Self(name.0))
    }
}

/// The address of a provider, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BaseUrl(pub(crate) Arc<str>);

inline_schema!(BaseUrl, {"type": "string", "pattern": "^https?://"});

impl Setting for BaseUrl {
    fn expects() -> String {
        "an address such as https://api.example.com/v1".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let Some(text) = place.text() else { return place.mismatch(&Self::expects()) };
        match check_address(text) {
            Ok(()) => Some(Self(text.trim_end_matches('/').into())),
            Err(error) => place.reject(&error.to_string()),
        }
    }
}

/// The name of a header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct HeaderName(pub(crate) Arc<str>);

inline_schema!(HeaderName, {"type": "string", "pattern": "^[A-Za-z0-9-]+$"});

impl TextSetting for HeaderName {
    const EXPECTS: &'static str = "the name of a header: letters, digits and `-`";

    fn parse(text: &str) -> Option<Self> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (!text.is_empty() && text.chars().all(is_name))
            .then(|| Self(text.to_ascii_lowercase().into()))
    }
}
