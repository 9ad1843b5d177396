//! `angelia keys`: keys that let others use the model APIs. The configuration stores only their
//! hashes; a key itself is printed once, when it is created.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use angelia_core::model::AuditAction;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{
    args::KeysCommand,
    error::{CommandError, Exit},
    print,
};
use crate::assemble::HomeStore;
use crate::config::{
    Config, Environment, Home, KeyFields, KeyHash, KeyProfiles, add_key, is_key_name, new_token,
    remove_key,
};

const RELOAD_NOTE: &str = "a running `angelia serve` picks it up in a moment";

pub(crate) fn run(
    command: &KeysCommand,
    environment: &Environment,
    file: Option<&Path>,
) -> Result<Exit, CommandError> {
    let home = Home::from_environment(environment)?;
    let config = Config::load(environment, &home, file, &[])?;
    let file = KeysFile {
        path: file.map_or_else(|| home.config_file(), Path::to_path_buf),
        home,
        environment,
        explicit_path: file,
    };
    match command {
        KeysCommand::List { json } => list(&config, *json),
        KeysCommand::Add { name, profiles, agent_mode, max_cost_usd_per_day } => {
            let wish = KeySpec {
                name,
                profiles,
                agent_mode: *agent_mode,
                max_cost_usd_per_day: *max_cost_usd_per_day,
            };
            add(&config, &file, &wish)
        }
        KeysCommand::Revoke { name } => revoke(&file, name),
    }
}

struct KeySpec<'a> {
    name: &'a str,
    profiles: &'a [String],
    agent_mode: bool,
    max_cost_usd_per_day: Option<f64>,
}

fn add(config: &Config, file: &KeysFile<'_>, wish: &KeySpec<'_>) -> Result<Exit, CommandError> {
    if !is_key_name(wish.name) {
        let message = format!("`{}` cannot be the name of a key", wish.name);
        return Err(CommandError::usage(message).with_hint("use letters, digits, `_`, `-` and `.`"));
    }
    if find_key(config, wish.name).is_some() {
        let message = format!("there is a key `{}` already", wish.name);
        return Err(CommandError::usage(message)
            .with_hint("choose another name, or revoke the old one first"));
    }
    let key = format!("angelia-{}", new_token());
    let hash = KeyHash(Sha256::digest(key.as_bytes()).into());
    let mut item = vec![format!("name: {}", wish.name), format!("sha256: \"{}\"", hash.to_hex())];
    if !wish.profiles.is_empty() {
        let quoted = wish.profiles.iter().map(|name| format!("{name:?}"));
        let quoted: Vec<String> = quoted.collect();
        item.push(format!("profiles: [{}]", quoted.join(", ")));
    }
    if wish.agent_mode {
        item.push("agent_mode: true".to_owned());
    }
    if let Some(limit) = wish.max_cost_usd_per_day {
        item.push(format!("max_cost_usd_per_day: {limit}"));
    }
    let hint = format!(
        "write the file with `http:` and `keys:` on lines of their own; the key would be\n  - {}",
        item.join("\n    ")
    );
    let changed = add_key(&file.read()?, &item)
        .map_err(|error| CommandError::new(Exit::Config, error.to_string()).with_hint(&*hint))?;
    let has_key =
        |config: &Config| find_key(config, wish.name).is_some_and(|key| key.sha256 == hash);
    file.write(&changed, has_key, &hint)?;
    if wish.agent_mode && !config.http().agent_mode {
        print::note("agents that act on this machine stay off until `http.agent_mode: true`");
    }
    file.record_audit(format!("added `{}`", wish.name));
    print::note(&format!("the key `{}`, printed only once; {RELOAD_NOTE}:", wish.name));
    print::line(&key)
}

fn revoke(file: &KeysFile<'_>, name: &str) -> Result<Exit, CommandError> {
    let text = file.read()?;
    let changed = remove_key(&text, name).map_err(|error| {
        CommandError::new(Exit::Config, error.to_string())
            .with_hint("remove the key from the file yourself")
    })?;
    let Some(changed) = changed else {
        let message = format!("there is no key `{name}`");
        return Err(CommandError::usage(message).with_hint("`angelia keys list` shows them"));
    };
    let hint = "remove the key from the file yourself";
    file.write(&changed, |config| find_key(config, name).is_none(), hint)?;
    file.record_audit(format!("revoked `{name}`"));
    print::note("a running `angelia serve` refuses it in a moment");
    print::line(&format!("revoked `{name}`"))
}

fn list(config: &Config, json: bool) -> Result<Exit, CommandError> {
    #[derive(Serialize)]
    struct KeyRow<'a> {
        name: &'a str,
        profiles: &'a KeyProfiles,
        agent_mode: bool,
        max_cost_usd_per_day: Option<f64>,
    }
    let mut out = Vec::new();
    for key in &config.http().keys {
        let key = &key.0;
        let row = KeyRow {
            name: &key.name,
            profiles: &key.profiles,
            agent_mode: key.agent_mode,
            max_cost_usd_per_day: key.max_cost_usd_per_day.map(|limit| limit.0),
        };
        if json {
            print::json_line(&row, &mut out)?;
            continue;
        }
        let profiles = match &key.profiles {
            KeyProfiles::All => "everything".to_owned(),
            KeyProfiles::Only(names) => names.join(", "),
        };
        let agents = match (key.agent_mode, config.http().agent_mode) {
            (true, true) => "agents too",
            (true, false) => "agents too, once http.agent_mode allows it",
            (false, _) => "models only",
        };
        let ceiling = row.max_cost_usd_per_day.map(|limit| format!(", at most ${limit} a day"));
        let ceiling = ceiling.unwrap_or_default();
        out.extend(format!("{}  {profiles}; {agents}{ceiling}\n", key.name).bytes());
    }
    if out.is_empty() && !json {
        print::note("there are no keys; `angelia keys add NAME` makes one");
    }
    print::bytes(&out)
}

fn find_key<'a>(config: &'a Config, name: &str) -> Option<&'a KeyFields> {
    let keys = config.http().keys.iter().map(|key| &key.0);
    keys.into_iter().find(|key| key.name == name)
}

/// The configuration file that `keys` edits.
struct KeysFile<'a> {
    path: PathBuf,
    home: Home,
    environment: &'a Environment,
    explicit_path: Option<&'a Path>,
}

impl KeysFile<'_> {
    fn read(&self) -> Result<String, CommandError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.io_error("read", &error)),
        }
    }

    /// Replaces the file atomically, after the new text has been loaded as a configuration for
    /// which `has` returns true. The old text could be loaded, so if the new one cannot, the file is
    /// written in a style that cannot be edited line by line, and the owner gets `hint`.
    fn write(
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

    fn record_audit(&self, subject: String) {
        // `keys` runs before the runtime of other commands is started.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => {
                runtime.block_on(HomeStore::record_audit(&self.home, AuditAction::Key, subject));
            }
            Err(error) => print::note(&format!("this is missing in the audit: {error}")),
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
