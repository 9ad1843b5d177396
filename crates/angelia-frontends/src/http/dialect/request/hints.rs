//! The request headers that name a session, or mark the request as a repeat of an earlier one.

use std::sync::Arc;

use angelia_core::model::SessionId;
use axum::http::{HeaderMap, HeaderValue};

use crate::http::{HttpError, idempotency::idempotency_key};

const SESSION_HEADER: &str = "x-angelia-session";

/// Sent by Claude Code, which repeats a request without streaming if the stream was unusable.
const CLAUDE_CODE_SESSION_HEADER: &str = "x-claude-code-session-id";

/// Headers in which clients name their conversation, most specific first. The name narrows the
/// search for a session, but the history still decides.
const CONVERSATION_HEADERS: [&str; 6] = [
    SESSION_HEADER,
    "x-arch-claude-cli-session",
    CLAUDE_CODE_SESSION_HEADER,
    "session-id",
    "thread-id",
    "x-openwebui-chat-id",
];

/// Longer than any key or name that clients generate. The value is stored with the turn.
const MAX_VALUE_CHARS: usize = 255;

#[derive(Clone, Debug, Default)]
pub(in crate::http) struct RequestHints {
    /// The session by its Angelia id.
    pub(in crate::http) session: Option<SessionId>,
    /// The session by a name that the caller chose.
    pub(in crate::http) session_name: Option<Arc<str>>,
    /// The first conversation name found, as `HEADER=VALUE`.
    pub(in crate::http) conversation_name: Option<Arc<str>>,
    /// A key for exactly one request; a different input under the same key is an error.
    pub(in crate::http) idempotency_key: Option<Arc<str>>,
    /// A key that identifies a request together with its input.
    pub(in crate::http) client_request_id: Option<Arc<str>>,
    /// Whether the client marks the request as a retry.
    pub(in crate::http) is_retry: bool,
    /// Whether the client may repeat a streamed request without streaming.
    pub(in crate::http) may_repeat_unstreamed: bool,
}

impl RequestHints {
    pub(in crate::http) fn from_headers(headers: &HeaderMap) -> Result<Self, HttpError> {
        let given = header_text(headers, SESSION_HEADER);
        let session = given.and_then(|name| name.parse().ok());
        let conversation_name = CONVERSATION_HEADERS.iter().find_map(|header| {
            let value = header_text(headers, header)?;
            let is_our_id = *header == SESSION_HEADER && session.is_some();
            (!is_our_id).then(|| format!("{header}={value}").into())
        });
        let retries = header_text(headers, "x-stainless-retry-count");
        Ok(Self {
            session,
            // An Angelia id already identifies the session, so it is not a name.
            session_name: given.filter(|_| session.is_none()).map(Into::into),
            conversation_name,
            idempotency_key: idempotency_key(headers)?.map(Into::into),
            client_request_id: header_text(headers, "x-client-request-id").map(Into::into),
            is_retry: retries.is_some_and(|count| count.parse::<u32>().is_ok_and(|n| n > 0)),
            may_repeat_unstreamed: header_text(headers, CLAUDE_CODE_SESSION_HEADER).is_some(),
        })
    }
}

/// Returns the trimmed value of a header. Empty, overlong and non-ASCII values count as absent.
fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name).map(HeaderValue::to_str)?.ok()?.trim();
    (!value.is_empty() && value.len() <= MAX_VALUE_CHARS).then_some(value)
}
