//! The channel `webhook:NAME`: each text is one signed HTTP request to the owner's own program.
//!
//! ```text
//! POST <url>
//! x-angelia-delivery: <id, the same at every attempt>
//! x-angelia-timestamp: <unix seconds>
//! x-angelia-signature-256: sha256=<hex of HMAC-SHA256(secret, "<timestamp>.<body>")>
//!
//! {"id":…,"channel":"webhook:NAME","chat":"NAME","text":…,"may_repeat":false,"buttons":[]}
//! ```

mod adapter;
mod sign;

pub use adapter::{PLATFORM, Webhook, WebhookError};
pub use sign::{hmac_sha256, signature};
