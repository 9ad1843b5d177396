//! At most once: the key under which a request is known, and what was asked under it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::{
    model::{Content, SessionId},
    ports::Claim,
};

/// Who asks, and under which key: an equal request is run once.
#[derive(Clone, Debug)]
pub struct RequestKey {
    /// Two callers never share a key.
    pub caller: Arc<str>,
    pub key: Arc<str>,
    /// What was asked, hashed, where that is more than the turn's session and input.
    pub input: Option<[u8; 32]>,
    /// How long the key is remembered.
    pub window: Duration,
}

impl RequestKey {
    pub(super) fn claim(self, now: Timestamp, session: SessionId, input: &[Content]) -> Claim {
        Claim {
            caller: self.caller,
            key: self.key,
            input: self.input.unwrap_or_else(|| input_hash(session, input)),
            since: now.checked_sub(self.window).unwrap_or(Timestamp::MIN),
        }
    }
}

/// What is asked of which session, as one hash.
fn input_hash(session: SessionId, input: &[Content]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(session.as_uuid());
    for content in input {
        let (kind, bytes): (&[u8], &[u8]) = match content {
            Content::Text(text) => (b"text", text.as_bytes()),
            Content::Image { media_type, data } => (media_type.as_bytes(), data),
        };
        for part in [kind, bytes] {
            // The length goes first, so that no two inputs look alike.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().into()
}
