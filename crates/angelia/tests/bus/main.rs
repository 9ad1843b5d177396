//! The bus as a program: its commands, its death, and the clients of hermes-bus.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bus_machine;
mod killed;
mod listening;
mod listening_at_a_terminal;
mod own_names;
mod real_hermes;
mod replies;
mod service;
mod serving;
mod stopping;
mod takeover;
