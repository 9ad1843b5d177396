//! Starts other programs, always in the workspace's root and never with our stdin.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is the one place xtask starts programs")]
    let mut command = Command::new(program);
    command.current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// Returns the same cargo that runs xtask, without the variables that `cargo run` set for xtask.
///
/// The build script of `ring` watches those variables. With them, alternating between `cargo xtask
/// test` and a plain `cargo build` would each time rebuild `ring` and everything that depends on
/// it.
#[expect(clippy::disallowed_methods, reason = "xtask reads the environment only in this file")]
pub(crate) fn cargo() -> Command {
    let mut command = command(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let is_of_xtask = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_of_xtask {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the command, showing its output, and fails unless it succeeds.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs the command and returns its output without the final newline, or `None` if there is no such
/// program or it fails.
pub(crate) fn output(command: &mut Command) -> Result<Option<String>> {
    match command.stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            Ok(Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot start `{}`", show(command))),
    }
}

/// Returns PATH.
#[expect(clippy::disallowed_methods, reason = "this is the one place xtask reads it")]
pub(crate) fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Returns the first file of this name on PATH, in `/usr/sbin` or in `/sbin`.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = search_path();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the command as a user would type it.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
