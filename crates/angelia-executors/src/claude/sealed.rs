//! Claude Code's environment in model mode: a configuration folder of ours, while the owner's login
//! stays where it is.
//!
//! The login is a file in the owner's folder, or a key in the owner's `.claude.json`. On macOS it
//! is in the keychain, under a name that depends on `HOME`, `USER` and the folder.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::PathBuf,
};

use angelia_core::model::{Failure, SessionSpec};
use serde::Deserialize;

use super::program::ProgramEnvironment;
use crate::{host::ExecutorHost, process::ProcessMark, sealed_folder::SealedFolder};

const CONFIG_VARIABLE: &str = "CLAUDE_CONFIG_DIR";
const LOGIN_VARIABLE: &str = "CLAUDE_SECURESTORAGE_CONFIG_DIR";
const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
const LOGIN_FILE: &str = ".credentials.json";
const SETTINGS_FILE: &str = ".claude.json";

/// Variables of every process in model mode. With them, text that mentions a file does not attach
/// it, and the program does not look for instructions or memories.
const SWITCHES: [(&str, &str); 3] = [
    ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1"),
    ("CLAUDE_CODE_DISABLE_CLAUDE_MDS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
];

/// Removes the message that describes the machine to the model. The program then ignores every
/// login except an API key, so the variable is set only if there is one.
const NO_ENVIRONMENT_MESSAGE: (&str, &str) = ("CLAUDE_CODE_SIMPLE", "1");

/// Returns the environment of a process in model mode, and creates its folder.
pub(super) fn environment(
    host: &ExecutorHost,
    spec: &SessionSpec,
    mark: &ProcessMark,
) -> Result<ProgramEnvironment, Failure> {
    let owners = host.child_environment(spec, &SWITCHES, mark)?;
    let owner = OwnersFolder::of(&owners);
    let folder = SealedFolder::create(host, "claude", &owner.config)?;
    let mut variables = folder.seal(owners.clone());
    variables.insert(CONFIG_VARIABLE.into(), folder.path().into());
    variables.insert(LOGIN_VARIABLE.into(), owner.config.clone().into());
    if cfg!(target_os = "macos") {
        owner.keep_keychain_names(&owners, &mut variables);
    }
    if !has_value(&variables, KEY_VARIABLE)
        && let Some(key) = owner.stored_key()
    {
        variables.insert(KEY_VARIABLE.into(), key.into());
    }
    let mut confinement = folder.confinement(&owner.home, &variables);
    if has_value(&variables, KEY_VARIABLE) {
        let (name, value) = NO_ENVIRONMENT_MESSAGE;
        variables.insert(name.into(), value.into());
    } else {
        // The program replaces its login file by renaming. Landlock rules apply to the file that
        // existed when they were made, so the new file would not be readable unless its folder is
        // allowed.
        confinement.allow_write(&owner.config);
    }
    Ok(ProgramEnvironment { variables, confinement: Some(confinement) })
}

/// The folders in which the owner's own Claude Code keeps its files.
struct OwnersFolder {
    home: PathBuf,
    config: PathBuf,
    /// The file that holds the key of a login to the vendor's console.
    settings: PathBuf,
}

impl OwnersFolder {
    fn of(environment: &BTreeMap<OsString, OsString>) -> Self {
        let named = |name: &str| {
            environment.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let home = named("HOME").unwrap_or_else(|| "/".into());
        match named(CONFIG_VARIABLE) {
            Some(config) => Self { settings: config.join(SETTINGS_FILE), home, config },
            None => Self { settings: home.join(SETTINGS_FILE), config: home.join(".claude"), home },
        }
    }

    /// Returns the key of a login that the program keeps in its settings. The program uses that key
    /// only if there is no other login.
    fn stored_key(&self) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Settings {
            primary_api_key: Option<String>,
        }
        if self.config.join(LOGIN_FILE).exists() {
            return None;
        }
        let settings = fs::read(&self.settings).ok()?;
        let settings: Settings = serde_json::from_slice(&settings).ok()?;
        settings.primary_api_key.filter(|key| !key.is_empty())
    }

    /// Keeps the variables from which the name of the keychain entry is derived. An empty folder
    /// variable stands for the default folder.
    fn keep_keychain_names(
        &self,
        owners: &BTreeMap<OsString, OsString>,
        environment: &mut BTreeMap<OsString, OsString>,
    ) {
        for name in ["HOME", "USER"] {
            if let Some(value) = owners.get(OsStr::new(name)) {
                environment.insert(name.into(), value.clone());
            }
        }
        if self.config == self.home.join(".claude") {
            environment.insert(LOGIN_VARIABLE.into(), OsString::new());
        }
    }
}

fn has_value(environment: &BTreeMap<OsString, OsString>, name: &str) -> bool {
    environment.get(OsStr::new(name)).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_key_is_used_when_there_is_no_other_login() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path();
        let environment = |pairs: &[(&str, PathBuf)]| {
            pairs.iter().map(|(name, path)| ((*name).into(), path.into())).collect()
        };
        let owner = OwnersFolder::of(&environment(&[("HOME", home.to_owned())]));
        assert_eq!(owner.config, home.join(".claude"));
        assert_eq!(owner.stored_key(), None);
        fs::write(home.join(".claude.json"), r#"{"primaryApiKey":"key","other":1}"#).unwrap();
        assert_eq!(owner.stored_key().as_deref(), Some("key"));
        fs::create_dir(&owner.config).unwrap();
        fs::write(owner.config.join(LOGIN_FILE), "{}").unwrap();
        assert_eq!(owner.stored_key(), None);

        let config = home.join("config");
        let named = [("HOME", home.to_owned()), (CONFIG_VARIABLE, config.clone())];
        let owner = OwnersFolder::of(&environment(&named));
        assert_eq!((&owner.config, owner.settings), (&config, config.join(SETTINGS_FILE)));
    }
}
