//! `angelia config …`: the configuration file.

use std::{fs::OpenOptions, io::Write as _, path::Path};

use angelia_core::task::run_as_task;

use super::{
    args::ConfigCommand,
    error::{CommandError, Exit},
    print,
};
use crate::{
    client::{ClientError, DaemonClient},
    config::{Config, Environment, Home, initial_file, schema},
};

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
        ConfigCommand::Reload { json } => reload(environment, *json),
    }
}

/// Tells the running daemon to reread its file.
fn reload(environment: &Environment, json: bool) -> Result<Exit, CommandError> {
    let home = Home::from_environment(environment)?;
    // `config` runs before the runtime for other commands is started.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandError::internal)?;
    let reload = runtime.block_on(run_as_task(async move {
        let Some(daemon) = DaemonClient::connect(&home.socket()).await else {
            let message = "no daemon of this home is running";
            let hint = "every command and the next daemon read the file on their own; `angelia \
                        config check` says whether it is valid";
            return Err(CommandError::new(Exit::Unavailable, message).with_hint(hint));
        };
        daemon.reload_config().await.map_err(reload_error)
    }))?;
    if json {
        return print::line(&serde_json::to_string(&reload).map_err(CommandError::internal)?);
    }
    let mut lines = vec![match reload.applied.as_slice() {
        [] => "everything that can take effect without a restart is already in force".to_owned(),
        applied => format!("in force for new sessions: {}", applied.join(", ")),
    }];
    if !reload.waiting.is_empty() {
        lines.push(format!("waits for a restart of the daemon: {}", reload.waiting.join(", ")));
    }
    print::line(&lines.join("\n"))
}

/// Converts the error. A file that the daemon cannot use is an invalid configuration, not an
/// invalid request.
fn reload_error(error: ClientError) -> CommandError {
    match error {
        ClientError::Refused(detail) if detail.kind == "invalid" => {
            let error = CommandError::new(Exit::Config, detail.message);
            match detail.hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        }
        other => other.into(),
    }
}

/// Writes the initial configuration file. Replaces an existing file only with `--force`.
fn init(environment: &Environment, file: Option<&Path>, force: bool) -> Result<Exit, CommandError> {
    let home = Home::from_environment(environment)?;
    let path = if let Some(path) = file {
        // Only Angelia's own home is created below; the folder of an explicitly named file must
        // exist.
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
