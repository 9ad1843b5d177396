//! The headers of a request that name its session, or mark it as a repeat of an earlier request.

use std::sync::Arc;

use angelia_core::model::SessionId;
use axum::http::{HeaderMap, HeaderValue};

use super::{DialectError, ErrorKind};

pub(super) const SESSION: &str = "x-angelia-session";

/// Sent by Claude Code, which repeats a request without streaming if the stream was unusable.
const FLIPPING: &str = "x-claude-code-session-id";

/// Headers in which clients name their conversation, the most specific first. The name narrows the
/// search for a session; the history still decides.
const NARROWING: [&str; 6] = [
    SESSION,
    "x-arch-claude-cli-session",
    FLIPPING,
    "session-id",
    "thread-id",
    "x-openwebui-chat-id",
];

/// Longer than any key or name that a client generates. The value is stored with the turn.
const LONGEST: usize = 255;

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// The session by its Angelia id.
    pub(super) session: Option<SessionId>,
    /// The session by a name that the caller chose.
    pub(super) name: Option<Arc<str>>,
    /// The first conversation name found, as `HEADER=VALUE`.
    pub(super) narrowed: Option<Arc<str>>,
    /// A key for exactly one request; a different input under the same key is an error.
    pub(super) idempotency: Option<Arc<str>>,
    /// A key that identifies a request together with its input.
    pub(super) client_request: Option<Arc<str>>,
    /// The client marks the request as a retry.
    pub(super) is_retry: bool,
    /// The client may repeat a streamed request without streaming.
    pub(super) flips: bool,
}

impl Marks {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, DialectError> {
        let named = text(headers, SESSION);
        let session = named.and_then(|name| name.parse().ok());
        // An Angelia id identifies the session by itself, so it is no name.
        let name = named.filter(|_| session.is_none());
        let narrowed = NARROWING.iter().find_map(|header| {
            let value = text(headers, header)?;
            let ours = *header == SESSION && session.is_some();
            (!ours).then(|| format!("{header}={value}").into())
        });
        let retries = text(headers, "x-stainless-retry-count");
        Ok(Self {
            session,
            name: name.map(Into::into),
            narrowed,
            idempotency: idempotency(headers)?,
            client_request: text(headers, "x-client-request-id").map(Into::into),
            is_retry: retries.is_some_and(|count| count.parse::<u32>().is_ok_and(|n| n > 0)),
            flips: text(headers, FLIPPING).is_some(),
        })
    }
}

/// Returns the trimmed value of a header. Empty, overlong and non-ASCII values count as absent.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name).map(HeaderValue::to_str)?.ok()?.trim();
    (!value.is_empty() && value.len() <= LONGEST).then_some(value)
}

fn idempotency(headers: &HeaderMap) -> Result<Option<Arc<str>>, DialectError> {
    const HEADER: &str = "idempotency-key";
    if !headers.contains_key(HEADER) {
        return Ok(None);
    }
    let one = headers.get_all(HEADER).iter().count() == 1;
    match text(headers, HEADER).filter(|_| one) {
        Some(key) => Ok(Some(key.into())),
        None => Err(DialectError::new(
            ErrorKind::Refused,
            format!(
                "Idempotency-Key: there must be one, of printable ASCII and at most {LONGEST} characters"
            ),
        )
        .with_hint("make up a new key for each request, for example a UUID")),
    }
}
