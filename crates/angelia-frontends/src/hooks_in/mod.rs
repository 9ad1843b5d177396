//! Webhooks in: `POST /hooks/NAME` with a signed request begins a turn, and its answer goes to a channel or
//! to an endpoint of the bus.
//!
//! - [`HooksIn`]: what happens to a request; answers that an earlier process left are taken up.
//! - [`HookScheme`]: whose signature it is, and what names the request. Pure.
//! - `template`: the prompt and the session's name, made from the request. Pure.

mod receiver;
mod scheme;
mod template;

pub use receiver::{HookIn, HookOutcome, HookRefusal, HooksIn, HooksInParts};
pub use scheme::{HookRequest, HookScheme};
pub use template::check_template;
