//! Rules, schedules and channels: reading the rules file, acting on a message or at its time, and
//! delivering a text to its channel.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod context;
mod courier;
mod fakes;
mod file;
#[path = "../fixed_config/mod.rs"]
mod fixed_config;
mod http;
mod live;
#[path = "../no_agents/mod.rs"]
mod no_agents;
mod react;
mod schedule_harness;
mod schedules;
mod watched_files;
mod webhook;
