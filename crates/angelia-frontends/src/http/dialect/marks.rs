//! What the headers of a request say about the session it belongs to, and about requests that it
//! repeats.

use std::sync::Arc;

use angelia_core::model::SessionId;
use axum::http::{HeaderMap, HeaderValue};

use super::{DialectError, ErrorKind};

pub(super) const SESSION: &str = "x-angelia-session";

/// Sent by a client that asks again without a stream when a stream displeased it.
const FLIPPING: &str = "x-claude-code-session-id";

/// Names that clients give to conversations, the most particular first. They narrow the search for
/// a session; the history decides.
const NARROWING: [&str; 6] = [
    SESSION,
    "x-arch-claude-cli-session",
    FLIPPING,
    "session-id",
    "thread-id",
    "x-openwebui-chat-id",
];

/// Longer than any key that somebody makes up for a request; it is kept with the turn.
const LONGEST: usize = 255;

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// A session by our id.
    pub(super) session: Option<SessionId>,
    /// A session by a name of the caller's.
    pub(super) name: Option<Arc<str>>,
    /// The first of the names, with the header that gave it.
    pub(super) narrowed: Option<Arc<str>>,
    /// A key that means one request; another input under it is an error.
    pub(super) idempotency: Option<Arc<str>>,
    /// A key that means one request together with its input.
    pub(super) client_request: Option<Arc<str>>,
    /// The client says that it has asked before.
    pub(super) is_retry: bool,
    /// The client may ask again without a stream.
    pub(super) flips: bool,
}

impl Marks {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, DialectError> {
        let named = text(headers, SESSION);
        let session = named.and_then(|name| name.parse().ok());
        // What our own id means is known without a name.
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

/// What names a conversation is at most so long; anything else is not a name.
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
