//! Finds this crate's own programs (`fake-agent`, `fake-cli`, `acp-fake`, `model-server`) for the
//! tests of other crates, and builds them if they are missing or older than their source.
//!
//! Cargo builds a package's programs only for that package's own tests, so a test in another crate
//! cannot rely on them being built.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("cannot tell where programs are built, next to {0}")]
    UnknownFolder(PathBuf),
    #[error("cannot look for {program}: {source}")]
    Io { program: &'static str, source: io::Error },
    #[error("building {program} failed; run `cargo build -p angelia-testkit --bin {program}`")]
    Build { program: &'static str },
}

/// Returns the root of the workspace.
pub fn workspace_root() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).unwrap_or(crate_folder).to_owned()
}

/// Returns a child process that misbehaves according to its arguments.
pub fn fake_agent() -> Result<PathBuf, ProgramError> {
    find("fake-agent", &["src/bin/fake-agent"])
}

/// Returns the instant stand-in for the Claude Code CLI.
pub fn fake_cli() -> Result<PathBuf, ProgramError> {
    find("fake-cli", &["src/bin/fake-cli", "../angelia-executors/src/scripted_claude"])
}

/// Returns an ACP agent that follows the instructions in its prompts.
pub fn acp_fake() -> Result<PathBuf, ProgramError> {
    find("acp-fake", &["src/bin/acp-fake.rs"])
}

/// Returns the scripted model server as a program.
pub fn model_server() -> Result<PathBuf, ProgramError> {
    find("model-server", &["src/bin/model-server.rs", "../angelia-executors/src/scripted_model"])
}

fn find(program: &'static str, sources: &[&str]) -> Result<PathBuf, ProgramError> {
    let look = |source| ProgramError::Io { program, source };
    let test = std::env::current_exe().map_err(look)?;
    // A test runs as target/<profile>/deps/<name>, a benchmark's driver as target/<profile>/<name>.
    let folder = test
        .ancestors()
        .skip(1)
        .find(|folder| !folder.ends_with("deps") && !folder.ends_with("examples"))
        .ok_or_else(|| ProgramError::UnknownFolder(test.clone()))?;
    let path = folder.join(program);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut newest = SystemTime::UNIX_EPOCH;
    for part in sources {
        newest = newest.max(newest_change(&source.join(part)).map_err(look)?);
    }
    let built = path.metadata().and_then(|metadata| metadata.modified()).ok();
    if built.is_none_or(|built| built < newest) {
        build(program, folder)?;
    }
    Ok(path)
}

#[expect(clippy::disallowed_methods, reason = "building the fakes is this module's purpose")]
fn build(program: &'static str, folder: &Path) -> Result<(), ProgramError> {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(profile) => profile,
        None => return Err(ProgramError::UnknownFolder(folder.to_owned())),
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "angelia-testkit", "--bin", program])
        .args(["--profile", profile])
        .current_dir(workspace_root())
        .status()
        .map_err(|source| ProgramError::Io { program, source })?;
    if status.success() { Ok(()) } else { Err(ProgramError::Build { program }) }
}

fn newest_change(path: &Path) -> io::Result<SystemTime> {
    let metadata = path.metadata()?;
    if metadata.is_file() {
        return metadata.modified();
    }
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in path.read_dir()? {
        newest = newest.max(newest_change(&entry?.path())?);
    }
    Ok(newest)
}
