//! Codex's environment in model mode: a `CODEX_HOME` of ours, in which `auth.json` is a link to the
//! owner's login and `config.toml` holds the connection to the model.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use angelia_core::model::{Failure, FailureKind};
use toml_edit::DocumentMut;

use super::{
    launch::{self, CODEX_HOME},
    sealed_config,
};
use crate::{host::ExecutorHost, process::confinement::Confinement, sealed_folder::SealedFolder};

pub(super) const LOGIN_FILE: &str = "auth.json";
const CONFIG_FILE: &str = "config.toml";

/// A file that marks a program from the vendor's package; it is in the folder above `bin`.
const PACKAGE_FILE: &str = "codex-package.json";

/// Returns the environment and the confinement of a process in model mode, and creates its folder.
/// `owners` is the environment of the owner's own Codex.
pub(super) fn environment(
    host: &ExecutorHost,
    owners: BTreeMap<OsString, OsString>,
    program: &Path,
) -> Result<(BTreeMap<OsString, OsString>, Confinement), Failure> {
    let owners_home = owners.get(OsStr::new("HOME")).map_or_else(|| "/".into(), PathBuf::from);
    let owners_folder = launch::codex_home(&owners).unwrap_or_else(|| owners_home.join(".codex"));
    let folder = SealedFolder::create(host, "codex", &owners_folder)?;
    let config = sealed_config(&owners_folder.join(CONFIG_FILE))?;
    folder.write(CONFIG_FILE, &config)?;
    let login = owners_folder.join(LOGIN_FILE);
    folder.link(LOGIN_FILE, &login)?;

    let mut environment = folder.seal(owners);
    environment.insert(CODEX_HOME.into(), folder.path().into());
    let mut confinement = folder.confinement(&owners_home, &environment);
    // Codex writes a refreshed login to the same file.
    confinement.allow_write(login);
    if let Some(package) = package_folder(program) {
        confinement.allow_read(package);
    }
    if let Some(catalogue) = catalogue_file(&config) {
        confinement.allow_read(catalogue);
    }
    Ok((environment, confinement))
}

fn sealed_config(path: &Path) -> Result<String, Failure> {
    let invalid = |problem: String| {
        let message = format!("the configuration of Codex is broken: {problem}");
        Failure::new(FailureKind::Invalid, message)
            .with_hint(format!("correct {}, then try again", path.display()))
    };
    let owners = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(invalid(error.to_string())),
    };
    sealed_config::seal(&owners).map_err(invalid)
}

/// Returns the vendor's package that the program belongs to, including its helper programs.
fn package_folder(program: &Path) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    let package = program.parent()?.parent()?;
    package.join(PACKAGE_FILE).is_file().then(|| package.to_owned())
}

fn catalogue_file(config: &str) -> Option<PathBuf> {
    let config: DocumentMut = config.parse().ok()?;
    config.get("model_catalog_json")?.as_str().map(PathBuf::from)
}
