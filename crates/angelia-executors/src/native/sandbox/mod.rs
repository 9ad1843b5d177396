//! The sandbox of commands: what they may read and write, and when a person must be asked because
//! the sandbox cannot protect everything. The kernel's part is in
//! [`process::confinement`](crate::process::confinement).
//!
//! - [`policy`]: turns settings and places into a sandbox. Pure.
//! - `toolchains`: folders in the home that compilers and interpreters need.

pub mod policy;
mod toolchains;

pub use policy::{Sandbox, SandboxError, SandboxPlaces, SandboxSettings, plan_sandbox};
