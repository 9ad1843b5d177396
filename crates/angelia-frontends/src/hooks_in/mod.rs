//! Incoming webhooks: a signed request to `POST /hooks/NAME` starts a turn, and the answer goes to a
//! channel or a bus endpoint.
//!
//! - [`HooksIn`]: handles requests, and resumes the answers that an earlier process left unsent.
//! - [`HookScheme`]: verifies signatures and identifies requests. Pure.
//! - `template`: builds the prompt and the session's name from the request. Pure.

mod receiver;
mod scheme;
mod template;

pub use receiver::{HookIn, HookOutcome, HookRefusal, HooksIn, HooksInParts};
pub use scheme::{HookRequest, HookScheme};
pub use template::check_template;
