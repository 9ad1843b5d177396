//! Events as ACP updates: golden lines of every kind, and the invariants for any events.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod event_builders;
mod golden;
mod invariants;
mod meter;
