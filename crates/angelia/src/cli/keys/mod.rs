//! `angelia keys`: keys that let others use the model APIs. The configuration stores only their
//! hashes; a key itself is printed once, when it is created.
//!
//! - [`keys_file`]: adds and revokes keys in the configuration file.

pub(crate) mod keys_file;

use std::path::Path;

use serde::Serialize;

use self::keys_file::{KeySpec, KeysFile};
use super::{
    args::KeysCommand,
    error::{CommandError, Exit},
    print,
};
use crate::config::{Config, Environment, KeyProfiles};

const RELOAD_NOTE: &str = "a running `angelia serve` accepts it at once";

pub(crate) fn run(
    command: &KeysCommand,
    environment: &Environment,
    file: Option<&Path>,
) -> Result<Exit, CommandError> {
    let (file, config) = KeysFile::open(environment, file)?;
    match command {
        KeysCommand::List { json } => list(&config, *json),
        KeysCommand::Add { name, profiles, providers, agent_mode, max_cost_usd_per_day } => {
            let wish = KeySpec {
                name,
                profiles,
                providers,
                agent_mode: *agent_mode,
                max_cost_usd_per_day: *max_cost_usd_per_day,
            };
            add(&config, &file, &wish)
        }
        KeysCommand::Revoke { name } => revoke(&file, name),
    }
}

fn add(config: &Config, file: &KeysFile<'_>, wish: &KeySpec<'_>) -> Result<Exit, CommandError> {
    let key = file.add(config, wish)?;
    if wish.agent_mode && !config.http().agent_mode {
        print::note("agents that act on this machine stay off until `http.agent_mode: true`");
    }
    print::note(&format!("the key `{}`, printed only once; {RELOAD_NOTE}:", wish.name));
    print::line(&key)
}

fn revoke(file: &KeysFile<'_>, name: &str) -> Result<Exit, CommandError> {
    if !file.revoke(name)? {
        let message = format!("there is no key `{name}`");
        return Err(CommandError::usage(message).with_hint("`angelia keys list` shows them"));
    }
    print::note("a running `angelia serve` refuses it in a moment");
    print::line(&format!("revoked `{name}`"))
}

fn list(config: &Config, json: bool) -> Result<Exit, CommandError> {
    #[derive(Serialize)]
    struct KeyRow<'a> {
        name: &'a str,
        profiles: &'a KeyProfiles,
        providers: &'a [String],
        agent_mode: bool,
        max_cost_usd_per_day: Option<f64>,
    }
    let mut out = Vec::new();
    for key in &config.http().keys {
        let key = &key.0;
        let row = KeyRow {
            name: &key.name,
            profiles: &key.profiles,
            providers: &key.providers,
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
        let providers = match key.providers.as_slice() {
            [] => String::new(),
            names => format!(", with the providers {}", names.join(", ")),
        };
        let ceiling = row.max_cost_usd_per_day.map(|limit| format!(", at most ${limit} a day"));
        let ceiling = ceiling.unwrap_or_default();
        out.extend(format!("{}  {profiles}; {agents}{providers}{ceiling}\n", key.name).bytes());
    }
    if out.is_empty() && !json {
        print::note("there are no keys; `angelia keys add NAME` makes one");
    }
    print::bytes(&out)
}
