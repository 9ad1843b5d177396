//! The parts of the app-server's responses that we read.

use std::sync::Arc;

use angelia_core::ports::LoginState;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// The beginning of the warning about a broken `config.toml`. The app-server then continues with
/// default settings, which may mean another provider and another account.
const DEFAULTS_WARNING_PREFIX: &str = "Invalid configuration; using defaults";

/// The built-in provider, to which `codex login` applies.
pub const OPENAI_PROVIDER: &str = "openai";

/// The response to `thread/start`, `thread/resume` and `thread/fork`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    pub thread: Arc<str>,
    pub model: Option<Arc<str>>,
    pub provider: Option<Arc<str>>,
    /// The permission profile in effect.
    pub permissions: Option<Arc<str>>,
    /// Files on this machine whose content precedes the conversation.
    pub instruction_files: Vec<Arc<str>>,
}

impl ThreadInfo {
    /// Parses a response. Returns `None` if it has the thread's id in none of the known spellings.
    pub fn of(result: &RawValue) -> Option<Self> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct ThreadResponse<'a> {
            thread: Lenient<Thread<'a>>,
            thread_id: Lenient<BorrowedStr<'a>>,
            conversation_id: Lenient<BorrowedStr<'a>>,
            session_id: Lenient<BorrowedStr<'a>>,
            id: Lenient<BorrowedStr<'a>>,
            model: Lenient<BorrowedStr<'a>>,
            model_provider: Lenient<BorrowedStr<'a>>,
            active_permission_profile: Lenient<Profile<'a>>,
            instruction_sources: Lenient<Vec<BorrowedStr<'a>>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct Thread<'a> {
            id: Lenient<BorrowedStr<'a>>,
            session_id: Lenient<BorrowedStr<'a>>,
            model: Lenient<BorrowedStr<'a>>,
            model_provider: Lenient<BorrowedStr<'a>>,
        }
        #[derive(Deserialize)]
        struct Profile<'a> {
            #[serde(borrow, default)]
            id: Lenient<BorrowedStr<'a>>,
        }
        let body: ThreadResponse<'_> = serde_json::from_str(result.get()).ok()?;
        let thread = body.thread.0.unwrap_or_default();
        let first = |all: &[&Lenient<BorrowedStr<'_>>]| -> Option<Arc<str>> {
            let mut found = all.iter().filter_map(|text| text.as_str());
            found.find(|text| !text.is_empty()).map(Into::into)
        };
        let id = first(&[
            &thread.id,
            &body.thread_id,
            &body.conversation_id,
            &thread.session_id,
            &body.session_id,
            &body.id,
        ]);
        let instructions = body.instruction_sources.0.unwrap_or_default();
        Some(Self {
            instruction_files: instructions.iter().map(|path| (*path.0).into()).collect(),
            thread: id?,
            model: first(&[&body.model, &thread.model]),
            provider: first(&[&body.model_provider, &thread.model_provider]),
            permissions: (body.active_permission_profile.0.as_ref())
                .and_then(|profile| profile.id.as_str().map(Into::into)),
        })
    }
}

/// Returns the id of the running turn from the response to `turn/start` or `turn/steer`.
pub fn parse_turn_id(result: &RawValue) -> Option<Arc<str>> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct TurnResponse<'a> {
        turn: Lenient<Turn<'a>>,
        turn_id: Lenient<BorrowedStr<'a>>,
    }
    #[derive(Deserialize)]
    struct Turn<'a> {
        #[serde(borrow, default)]
        id: Lenient<BorrowedStr<'a>>,
    }
    let body: TurnResponse<'_> = serde_json::from_str(result.get()).ok()?;
    let id = (body.turn.0.as_ref()).and_then(|turn| turn.id.as_str());
    id.or(body.turn_id.as_str()).map(Into::into)
}

/// Parses the response to `account/read`. An error response means that the login is unknown.
pub fn parse_login(result: &RawValue) -> LoginState {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct AccountResponse<'a> {
        account: Lenient<Account<'a>>,
        requires_openai_auth: Lenient<bool>,
    }
    #[derive(Deserialize)]
    struct Account<'a> {
        #[serde(rename = "type", borrow, default)]
        kind: Lenient<BorrowedStr<'a>>,
    }
    let Ok(body) = serde_json::from_str::<AccountResponse<'_>>(result.get()) else {
        return LoginState::Unknown;
    };
    let kind = (body.account.0.as_ref()).map(|account| account.kind.as_str());
    match (kind, body.requires_openai_auth.get()) {
        (Some(kind), _) => LoginState::LoggedIn { lane: kind.map(billing_lane) },
        (None, Some(true)) => LoginState::LoggedOut,
        (None, Some(false)) => LoginState::NotNeeded,
        (None, None) => LoginState::Unknown,
    }
}

fn billing_lane(kind: &str) -> Arc<str> {
    match kind {
        "chatgpt" => "subscription",
        "apiKey" => "api_key",
        other => other,
    }
    .into()
}

/// Returns the version after the slash in the `userAgent` of the response to `initialize`.
pub fn parse_version(result: &RawValue) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InitializeResult<'a> {
        #[serde(borrow, default)]
        user_agent: Lenient<BorrowedStr<'a>>,
    }
    let body: InitializeResult<'_> = serde_json::from_str(result.get()).ok()?;
    let (_, rest) = body.user_agent.as_str()?.split_once('/')?;
    rest.split_whitespace().next().map(Into::into)
}

/// The parameters of `configWarning`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    pub summary: String,
    pub details: Option<String>,
    pub path: Option<String>,
}

impl ConfigWarning {
    pub fn of(params: &RawValue) -> Option<Self> {
        #[derive(Default, Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        struct ConfigWarningParams<'a> {
            summary: Lenient<BorrowedStr<'a>>,
            details: Lenient<BorrowedStr<'a>>,
            path: Lenient<BorrowedStr<'a>>,
        }
        let body: ConfigWarningParams<'_> = serde_json::from_str(params.get()).ok()?;
        Some(Self {
            summary: body.summary.as_str()?.to_owned(),
            details: body.details.as_str().map(str::to_owned),
            path: body.path.as_str().map(str::to_owned),
        })
    }

    /// Reports whether the app-server continues without the user's configuration.
    pub fn is_fatal(&self) -> bool {
        self.summary.starts_with(DEFAULTS_WARNING_PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_threads_id_is_found_in_every_known_shape() {
        let id = |json| ThreadInfo::of(&raw(json)).map(|opened| opened.thread.to_string());
        for json in [
            r#"{"thread":{"id":"t","sessionId":"s"}}"#,
            r#"{"threadId":"t"}"#,
            r#"{"conversationId":"t"}"#,
            r#"{"thread":{"sessionId":"t"}}"#,
            r#"{"sessionId":"t"}"#,
            r#"{"thread":{"id":""},"id":"t"}"#,
        ] {
            assert_eq!(id(json).as_deref(), Some("t"), "{json}");
        }
        assert_eq!(id(r#"{"thread":7}"#), None);
        let whole = r#"{"thread":{"id":"t"},"model":"m","modelProvider":"openai",
            "activePermissionProfile":{"id":":workspace"}}"#;
        let opened = ThreadInfo::of(&raw(whole)).unwrap();
        assert_eq!(opened.model.as_deref(), Some("m"));
        assert_eq!(opened.provider.as_deref(), Some(OPENAI_PROVIDER));
        assert_eq!(opened.permissions.as_deref(), Some(":workspace"));
    }

    #[test]
    fn logins_are_read_as_far_as_they_say_something() {
        let lane = |lane: &str| LoginState::LoggedIn { lane: Some(lane.into()) };
        let cases = [
            (r#"{"account":null,"requiresOpenaiAuth":true}"#, LoginState::LoggedOut),
            (r#"{"account":null,"requiresOpenaiAuth":false}"#, LoginState::NotNeeded),
            (r#"{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}"#, lane("api_key")),
            (r#"{"account":{"type":"chatgpt","email":"e"}}"#, lane("subscription")),
            (r#"{"account":{"type":"gcp"}}"#, lane("gcp")),
            ("{}", LoginState::Unknown),
            ("7", LoginState::Unknown),
        ];
        for (json, expected) in cases {
            assert_eq!(parse_login(&raw(json)), expected, "{json}");
        }
    }

    #[test]
    fn a_broken_configuration_is_fatal_and_nothing_else_is() {
        let fatal = |json| ConfigWarning::of(&raw(json)).map(|warning| warning.is_fatal());
        assert_eq!(fatal(r#"{"summary":"Invalid configuration; using defaults."}"#), Some(true));
        assert_eq!(fatal(r#"{"summary":"Codex could not find bubblewrap on PATH."}"#), Some(false));
        assert_eq!(fatal("{}"), None);
    }

    #[test]
    fn versions_are_in_the_user_agent() {
        let agent = raw(r#"{"userAgent":"angelia/0.166.0 (Linux; x86_64) unknown (angelia; 1)"}"#);
        assert_eq!(parse_version(&agent).as_deref(), Some("0.166.0"));
    }
}
