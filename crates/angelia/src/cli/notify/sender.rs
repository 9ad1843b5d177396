//! Determines the sender's name: `--from`, else the tmux session, mapped through `role_map`.

use std::{fs, path::Path};

use angelia_core::engine::rules::Roles;
use angelia_frontends::bus_rules::{file, rules_paths};

use super::tmux;
use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::Environment,
};

/// Reads `role_map` from the rules. A file named by the caller must be readable; the default file
/// need not be.
pub(super) fn load_roles(
    environment: &Environment,
    named: Option<&Path>,
) -> Result<Roles, CommandError> {
    if let Some(path) = named {
        let failed = |why: String| {
            let what = format!("cannot read the names in {}: {why}", path.display());
            CommandError::new(Exit::Failed, what).with_hint("correct the file, or leave it out")
        };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let reading = file::parse(&text).map_err(|remark| failed(remark.to_string()))?;
        return Ok(reading.rules.roles);
    }
    let Some(home) = environment.angelia_home() else {
        return Ok(Roles::default());
    };
    let paths = rules_paths(home, environment.hermes_home());
    let found = paths.iter().find_map(|path| Some((path, fs::read_to_string(path).ok()?)));
    let Some((path, text)) = found else {
        return Ok(Roles::default());
    };
    match file::parse(&text) {
        Ok(reading) => Ok(reading.rules.roles),
        Err(remark) => {
            print::note(&format!("{}: {remark}; names are sent as given", path.display()));
            Ok(Roles::default())
        }
    }
}

pub(super) async fn resolve_name(
    environment: &Environment,
    roles: &Roles,
    said: Option<&str>,
) -> Option<String> {
    let key = match said {
        Some(name) => Some(name.to_owned()),
        None => tmux::own_session(environment).await,
    };
    key.map(|key| roles.name(&key).to_owned())
}
