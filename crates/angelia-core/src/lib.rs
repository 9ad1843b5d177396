//! The core of Angelia: the model of sessions and turns, the engine that runs and records turns,
//! and the traits (ports) through which it reaches the outside world.
//!
//! This crate names no vendor, does no I/O and reads neither clock nor environment; everything it
//! needs comes through the traits in [`ports`].
//!
//! - [`model`]: plain data: session, turn, event, tool, approval, usage, failure.
//! - [`permission`]: decides what an agent may do: levels, patterns, protected paths, grants.
//! - [`ports`]: traits that executors, stores, channels and clocks implement.
//! - [`engine`]: one actor per session, one running turn per actor, every event recorded.
//! - [`redact`]: masks secrets in text for logs and errors.
//! - [`task`]: the only place that spawns tasks.

pub mod engine;
pub mod model;
pub mod permission;
pub mod ports;
pub mod redact;
pub mod task;
