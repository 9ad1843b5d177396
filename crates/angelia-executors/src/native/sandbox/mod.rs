//! The sandbox of commands: what they may read and write, and when a person must be asked because it
//! cannot hold. The kernel's part is in [`process::confinement`](crate::process::confinement).
//!
//! - [`policy`]: settings and places to a sandbox. Pure.
//! - `toolchains`: folders of the home that compilers and interpreters need.

pub mod policy;
mod toolchains;

pub use policy::{Sandbox, SandboxError, SandboxPlaces, SandboxSettings, plan_sandbox};
