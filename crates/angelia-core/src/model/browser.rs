//! A browser that the owner has signed in with.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserRecord {
    pub id: Uuid,
    /// The hash of its token. The token itself is only in the browser.
    pub sha256: [u8; 32],
    /// The label by which a person recognises it: `Firefox on Linux`.
    pub name: Arc<str>,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    /// From then on it must sign in again.
    pub expires_at: Timestamp,
}
