//! The tools of the native executor on real files and with real commands.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
mod files;
mod harness;
#[expect(dead_code, reason = "shared with the tests of the executors")]
#[path = "../isolated_executor/mod.rs"]
mod isolated_executor;
mod jobs;
mod patches;
#[cfg(target_os = "linux")]
mod sandbox;
mod searches;
mod session;
mod toolkit;
