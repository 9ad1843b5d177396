//! The JSON of the app-server protocol, in both directions, known to no other module.
//!
//! - [`message`]: the ids of the app-server's requests, and the thread that a message belongs to.
//! - [`outgoing`]: the requests that Angelia sends.
//! - [`response`]: the parts of the app-server's responses that we read.
//! - `item`, `notification`, `server_request`: the parameters that the translation reads.
//! - `request_result`: the results for the app-server's requests.
//! - [`history`]: a conversation history as items of the model's API.
//! - [`schema_check`]: the names that the schema of a supported version must contain.

pub mod history;
pub(crate) mod item;
pub mod message;
pub(crate) mod notification;
pub mod outgoing;
pub(crate) mod request_result;
pub mod response;
pub mod schema_check;
pub(crate) mod server_request;
