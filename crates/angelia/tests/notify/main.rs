//! The senders as programs: `notify-hermes` against a bus that the test controls, `notify-agent`
//! against the real tmux.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod fake_bus;
mod hermes;
mod notify_fixture;
mod serve;
