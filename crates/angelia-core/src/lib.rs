//! The heart of Angelia: what a turn is, how it is run and recorded, and what it asks of the
//! outside world.
//!
//! This crate names no vendor, does no I/O and reads neither clock nor environment; everything it
//! needs comes through the traits in [`ports`].
//!
//! - [`model`]: the words — session, turn, event, tool, approval, usage, failure.
//! - [`ports`]: what executors, stores and clocks must offer.
//! - [`engine`]: sessions as actors, one running turn each, recorded before it is shown.
//! - [`redact`]: secrets out of text that leaves for logs and errors.
//! - [`task`]: the only place where tasks are born.

pub mod engine;
pub mod model;
pub mod ports;
pub mod redact;
pub mod task;
