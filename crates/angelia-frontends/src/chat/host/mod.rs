//! Receives events from chat platforms and runs turns for them.
//!
//! ```text
//! adapter ──▶ inbox ──▶ store ──▶ acknowledged
//!               └──▶ lane of the chat ──▶ access ──▶ command, press, or conversation ──▶ turn
//!                              delivery queue ◀── answer ◀── turn view ◀───────────────────┘
//! ```
//!
//! An event is stored before the adapter acknowledges it, and it is finished when its answer is in the
//! delivery ledger. The next start finds the events that a killed process left unfinished: if the turn of
//! an event had begun, the event finds it by its request key; otherwise the event runs now.
//!
//! - [`ChatHost`]: starts everything; `connection`: keeps a connection up.
//! - `lane`: handles the events of one chat in order; `access`: who may talk, and pairing codes.
//! - `conversation`: the session of a chat, and messages that arrive while a turn runs.
//! - `turn_view`: shows a running turn and sends its answer; `live_answer`: the preview of the answer.
//! - `approval_card`: approvals and questions with buttons. Pure.
//! - `command`: parses commands. Pure; `command_runner`: runs them.
//! - `session_files`: files that people send to an agent, and files that it sends to them.

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
