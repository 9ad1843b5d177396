//! Adds and revokes keys in the configuration file, which its owner may also edit. Other commands that change
//! the file write it in the same way.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use angelia_core::model::AuditAction;
use sha2::{Digest as _, Sha256};

use crate::{
    assemble::HomeStore,
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::{
        Config, Environment, Home, KeyFields, KeyHash, add_key, is_key_name, new_token, remove_key,
    },
    record_location::RecordLocation,
};

/// The prefix of every key, by which people and scanners recognise it. 64 hexadecimal digits follow.
pub(crate) const KEY_PREFIX: &str = "angelia-";

pub(crate) fn hash_key(key: &str) -> KeyHash {
    KeyHash(Sha256::digest(key.as_bytes()).into())
}

pub(crate) fn find_key<'a>(config: &'a Config, name: &str) -> Option<&'a KeyFields> {
    let keys = config.http().keys.iter().map(|key| &key.0);
    keys.into_iter().find(|key| key.name == name)
}

impl KeySpec<'_> {
    fn yaml_lines(&self, hash: KeyHash) -> Vec<String> {
        let mut lines =
            vec![format!("name: {}", self.name), format!("sha256: \"{}\"", hash.to_hex())];
        for (key, names) in [("profiles", self.profiles), ("providers", self.providers)] {
            if !names.is_empty() {
                let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                lines.push(format!("{key}: [{}]", quoted.join(", ")));
            }
        }
        if self.agent_mode {
            lines.push("agent_mode: true".to_owned());
        }
        if let Some(limit) = self.max_cost_usd_per_day {
            lines.push(format!("max_cost_usd_per_day: {limit}"));
        }
        lines
    }
}

/// The configuration file, as far as its keys are concerned.
pub(crate) struct KeysFile<'a> {
    path: PathBuf,
    home: Home,
    environment: &'a Environment,
    explicit_path: Option<&'a Path>,
}

/// A key to create.
pub(crate) struct KeySpec<'a> {
    pub(crate) name: &'a str,
    /// Empty for all profiles.
    pub(crate) profiles: &'a [String],
    /// Empty for no providers.
    pub(crate) providers: &'a [String],
    pub(crate) agent_mode: bool,
    pub(crate) max_cost_usd_per_day: Option<f64>,
}

impl<'a> KeysFile<'a> {
    /// Opens the file and loads it as a configuration.
    pub(crate) fn open(
        environment: &'a Environment,
        explicit_path: Option<&'a Path>,
    ) -> Result<(Self, Config), CommandError> {
        let home = Home::from_environment(environment)?;
        let config = Config::load(environment, &home, explicit_path, &[])?;
        let path = explicit_path.map_or_else(|| home.config_file(), Path::to_path_buf);
        Ok((Self { path, home, environment, explicit_path }, config))
    }
}

impl KeysFile<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path if the file was named on the command line.
    pub(crate) fn explicit_path(&self) -> Option<&Path> {
        self.explicit_path
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Creates a key and returns it.
    pub(crate) fn add(&self, config: &Config, wish: &KeySpec<'_>) -> Result<String, CommandError> {
        if !is_key_name(wish.name) {
            let message = format!("`{}` cannot be the name of a key", wish.name);
            return Err(
                CommandError::usage(message).with_hint("use letters, digits, `_`, `-` and `.`")
            );
        }
        if find_key(config, wish.name).is_some() {
            let message = format!("there is a key `{}` already", wish.name);
            return Err(CommandError::usage(message)
                .with_hint("choose another name, or revoke the old one first"));
        }
        let key = format!("{KEY_PREFIX}{}", new_token());
        let hash = hash_key(&key);
        let item = wish.yaml_lines(hash);
        let hint = format!(
            "write the file with `http:` and `keys:` on lines of their own; the key would be\n  - {}",
            item.join("\n    ")
        );
        let changed = add_key(&self.read()?, &item).map_err(|error| {
            CommandError::new(Exit::Config, error.to_string()).with_hint(&*hint)
        })?;
        let has_key =
            |config: &Config| find_key(config, wish.name).is_some_and(|key| key.sha256 == hash);
        self.write(&changed, has_key, &hint)?;
        self.record_audit(AuditAction::Key, format!("added `{}`", wish.name));
        Ok(key)
    }

    /// Revokes a key. Returns `false` if there is no key with this name.
    pub(crate) fn revoke(&self, name: &str) -> Result<bool, CommandError> {
        let text = self.read()?;
        let hint = "remove the key from the file yourself";
        let changed = remove_key(&text, name)
            .map_err(|error| CommandError::new(Exit::Config, error.to_string()).with_hint(hint))?;
        let Some(changed) = changed else { return Ok(false) };
        self.write(&changed, |config| find_key(config, name).is_none(), hint)?;
        self.record_audit(AuditAction::Key, format!("revoked `{name}`"));
        Ok(true)
    }

    pub(crate) fn read(&self) -> Result<String, CommandError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.io_error("read", &error)),
        }
    }

    /// Replaces the file atomically, after loading the new text as a configuration for which `has` returns
    /// true. The old text could be loaded, so if the new one cannot, the file's style does not allow editing
    /// line by line, and the owner gets `hint`.
    pub(crate) fn write(
        &self,
        text: &str,
        has: impl Fn(&Config) -> bool,
        hint: &str,
    ) -> Result<(), CommandError> {
        if self.explicit_path.is_none() {
            self.home.prepare()?;
        }
        // The draft is next to the file, so that the rename stays on one file system.
        let draft = self.path.with_extension(format!("yaml.{}", std::process::id()));
        let written = write_draft(&draft, text, &self.path);
        let checked = written
            .map_err(|error| self.io_error("write", &error))
            .and_then(|()| {
                let config = Config::load(self.environment, &self.home, Some(&draft), &[]);
                if config.is_ok_and(|config| has(&config)) {
                    return Ok(());
                }
                let message = format!(
                    "{} is written in a style that cannot be edited by a program; nothing was changed",
                    self.path.display()
                );
                Err(CommandError::new(Exit::Config, message).with_hint(hint))
            })
            .and_then(|()| {
                fs::rename(&draft, &self.path).map_err(|error| self.io_error("replace", &error))
            });
        if checked.is_err() {
            let _left_behind = fs::remove_file(&draft);
        }
        checked
    }

    /// Records a change by the owner in the audit log.
    pub(crate) fn record_audit(&self, action: AuditAction, subject: String) {
        // These commands run before the runtime for other commands is started.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => {
                let config = Config::load(self.environment, &self.home, self.explicit_path, &[]);
                let place = config.map_err(CommandError::from);
                let place = place
                    .and_then(|config| RecordLocation::new(self.environment, &self.home, &config));
                runtime.block_on(HomeStore::record_audit(&self.home, place, action, subject));
            }
            Err(error) => print::note(&format!("this is missing from the audit log: {error}")),
        }
    }

    fn io_error(&self, what: &str, error: &io::Error) -> CommandError {
        let message = format!("cannot {what} {}: {error}", self.path.display());
        CommandError::new(Exit::Failed, message)
    }
}

/// Writes the draft with the permissions of the file it replaces, or 0600 if there is no old file.
fn write_draft(draft: &Path, text: &str, old: &Path) -> io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mode = match fs::metadata(old) {
        Ok(old) => old.permissions().mode() & 0o777,
        Err(_none) => 0o600,
    };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
