//! A browser in which the owner has signed in.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserRecord {
    pub id: Uuid,
    /// The hash of the browser's token. Only the browser has the token itself.
    pub sha256: [u8; 32],
    /// The label by which a person recognises the browser: `Firefox on Linux`.
    pub name: Arc<str>,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    /// When the browser must sign in again.
    pub expires_at: Timestamp,
}
