//! Receives events of chat platforms and runs turns for them.
//!
//! ```text
//! adapter ──▶ inbox ──▶ store ──▶ acknowledged
//!               └──▶ lane of the chat ──▶ access ──▶ command, press, or conversation ──▶ turn
//!                              delivery queue ◀── answer ◀── turn view ◀───────────────────┘
//! ```
//!
//! An event is stored before the adapter acknowledges it, and it ends in the store when its answer is in
//! the ledger of deliveries. Events that a killed process left are found at the next start: an event whose
//! turn has not begun is run, one whose turn has begun finds that turn by its request key.
//!
//! - [`ChatHost`]: starts everything; `connection`: keeps a connection up.
//! - `lane`: the events of one chat, in order; `access`: who may talk, and pairing codes.
//! - `conversation`: the session of a chat, and its messages while a turn runs.
//! - `turn_view`: shows a turn while it runs, and sends its answer; `live_answer`: the preview of it.
//! - `approval_card`: approvals and questions with buttons. Pure.
//! - `command`: commands as text. Pure; `command_runner`: runs them.
//! - `session_files`: files that people send, and files for them.

mod access;
mod approval_card;
mod chat_host;
mod command;
mod command_runner;
mod connection;
mod conversation;
mod decisions;
mod lane;
mod live_answer;
mod prompt;
mod session_files;
mod settings;
mod turn_view;

pub use access::PAIRING_LIFETIME;
pub use chat_host::{ChatHost, ChatHostParts};
pub use connection::{ChannelStatus, ConnectionState};
pub use settings::{BusyPolicy, ChannelSettings, ChatPlace, EVERY_GROUP};
