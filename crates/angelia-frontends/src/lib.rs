//! The ways in: everything that turns what somebody outside says into turns of the engine, and
//! events of the engine into what they can read.
//!
//! - [`event_json`]: an event as the outside sees it, one JSON object.
//! - [`http`]: `/api` and `/healthz`, over TCP and over the Unix socket of the home.
//! - [`socket`]: who is at the other end of a Unix socket.

pub mod event_json;
pub mod http;
pub mod socket;
