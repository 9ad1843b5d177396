//! Idempotency: the key under which a request runs at most once, and the hash of its input.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::{
    model::{Content, SessionId},
    ports::RequestClaim,
};

/// Identifies a request. Equal requests from one caller run only once.
#[derive(Clone, Debug)]
pub struct RequestKey {
    /// Each caller has its own set of keys.
    pub caller: Arc<str>,
    pub key: Arc<str>,
    /// Hash of the request, if the request is more than the turn's session and input.
    pub input: Option<[u8; 32]>,
    /// How long the key is remembered.
    pub window: Duration,
}

impl RequestKey {
    pub(super) fn into_claim(
        self,
        now: Timestamp,
        session: SessionId,
        input: &[Content],
    ) -> RequestClaim {
        RequestClaim {
            caller: self.caller,
            key: self.key,
            input: self.input.unwrap_or_else(|| input_hash(session, input)),
            since: now.checked_sub(self.window).unwrap_or(Timestamp::MIN),
        }
    }
}

/// Hashes the session and the input.
fn input_hash(session: SessionId, input: &[Content]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(session.as_uuid());
    for content in input {
        let (kind, bytes): (&[u8], &[u8]) = match content {
            Content::Text(text) => (b"text", text.as_bytes()),
            Content::Image { media_type, data } => (media_type.as_bytes(), data),
        };
        for part in [kind, bytes] {
            // Prefix each part with its length, so that different inputs cannot produce the same
            // bytes.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().into()
}
