//! The executor on the real Claude Code, oldest and newest version, against the scripted model:
//! private home, cleared environment, dummy key, loopback only.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod harness;
mod turns;
