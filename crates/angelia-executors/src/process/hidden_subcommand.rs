//! The hidden subcommand with which Angelia executes itself for work that must happen in another
//! process. The first argument names the job.

use std::{ffi::OsString, process::ExitCode};

use super::{confinement, marked_parent, owner_watch};

/// The hidden subcommand.
pub const NAME: &str = "__process";

/// Runs the job of a helper process. Called before anything else is initialised, so that the helper
/// starts fast and stays small.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let job = args.next().unwrap_or_default();
    match job.to_str() {
        Some(confinement::JOB) => confinement::main(args),
        Some(marked_parent::JOB) => marked_parent::main(args),
        Some(owner_watch::JOB) => owner_watch::main(args),
        _ => ExitCode::from(2),
    }
}
