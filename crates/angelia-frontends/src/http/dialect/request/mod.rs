//! The caller's request to a model API, from its decoded body to everything that must be known
//! before a session is chosen.
//!
//! - [`ModelRequest`]: the output of every decoder. [`content`], [`json`], [`check_stop_words`]:
//!   used by the decoders.
//! - [`LiveModels`]: the settings of the model APIs.
//! - [`ResolvedRequest`]: the request with everything derived from it, through `hints` (the headers
//!   that name a session or mark a repeat), `conversation` (history and new messages), `target`
//!   (the profile or agent that the model id names, and the check that the caller may use it) and
//!   `session_spec` (the session to launch).

/// Images, and content that becomes marked text.
pub mod content;
mod conversation;
mod hints;
/// JSON parsing with errors that name the field.
pub mod json;
mod live_models;
mod model_request;
mod resolved;
mod session_spec;
mod target;

pub(super) use conversation::{RequestConversation, render_history};
pub(super) use hints::RequestHints;
pub use live_models::LiveModels;
pub use model_request::{InvalidRequest, ModelRequest, OutputFormat, check_stop_words};
pub(super) use resolved::ResolvedRequest;
pub(super) use session_spec::output_schema;
pub use target::{ModelFamily, ModelSettings};
pub(in crate::http) use target::{granted_mode, unknown_model_error};
