//! Removes a version of an agent.

use std::fs;

use uuid::Uuid;

use super::{install::TEMPORARY_PREFIX, pinned_by, unknown_agent};
use crate::{
    assemble::App,
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::AgentVersion,
};

pub(super) fn run(app: &App, text: &str) -> Result<Exit, CommandError> {
    let version = AgentVersion::parse(text).ok_or_else(|| unknown_agent(text))?;
    app.home.prepare()?;
    let folder = version.folder(&app.home);
    if !folder.is_dir() {
        return Err(CommandError::new(Exit::Failed, format!("{version} is not installed"))
            .with_hint("`angelia agents list` shows what is"));
    }
    let profiles = pinned_by(app, &version);
    if !profiles.is_empty() {
        let names = profiles.join(", ");
        return Err(CommandError::new(Exit::Failed, format!("{version} is used by: {names}"))
            .with_hint("change `binary` of these profiles first"));
    }
    // Rename the folder first, because a half-removed version would look like an installed one.
    let draft = folder.with_file_name(format!("{TEMPORARY_PREFIX}{}", Uuid::new_v4().simple()));
    let removed = fs::rename(&folder, &draft).and_then(|()| fs::remove_dir_all(&draft));
    removed.map_err(|error| {
        CommandError::new(Exit::Failed, format!("cannot remove {}: {error}", folder.display()))
            .with_hint("check the permissions of its files")
    })?;
    print::line(&format!("removed {version}"))
}
