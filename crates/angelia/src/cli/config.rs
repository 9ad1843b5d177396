//! `angelia config …`: the configuration file.

use std::{fs::OpenOptions, io::Write as _, path::Path};

use super::{
    args::ConfigCommand,
    error::{CommandError, Exit},
    print,
};
use crate::config::{Config, Environment, Home, initial_file, schema};

pub(crate) fn run(
    command: &ConfigCommand,
    environment: &Environment,
    file: Option<&Path>,
) -> Result<Exit, CommandError> {
    let load = || -> Result<Config, CommandError> {
        let home = Home::from_environment(environment)?;
        Ok(Config::load(environment, &home, file, &[])?)
    };
    match command {
        ConfigCommand::Init { force } => init(environment, file, *force),
        ConfigCommand::Check => print::bytes(load()?.check().as_bytes()),
        ConfigCommand::Show { origin: false } => print::bytes(load()?.show().as_bytes()),
        ConfigCommand::Show { origin: true } => print::bytes(load()?.show_origin().as_bytes()),
        ConfigCommand::Schema => print::bytes(schema().as_bytes()),
    }
}

/// Writes the initial configuration file. An existing file is replaced only with `--force`.
fn init(environment: &Environment, file: Option<&Path>, force: bool) -> Result<Exit, CommandError> {
    let home = Home::from_environment(environment)?;
    let path = if let Some(path) = file {
        // Only Angelia's own home is created below; the folder of an explicit file must exist.
        path.to_path_buf()
    } else {
        home.prepare()?;
        home.config_file()
    };
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = options.open(&path).and_then(|mut out| out.write_all(initial_file().as_bytes()));
    match written {
        Ok(()) => print::line(&format!("wrote {}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let message = format!("{} exists already", path.display());
            Err(CommandError::usage(message).with_hint("edit it, or replace it with --force"))
        }
        Err(error) => Err(CommandError::new(
            Exit::Failed,
            format!("cannot write {}: {error}", path.display()),
        )),
    }
}
