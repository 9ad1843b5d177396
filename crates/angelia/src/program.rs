//! The program that this process runs, as a path that will also name the next version after an
//! upgrade.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    cli::{self, error::CommandError},
    config::{Environment, Home},
};

/// A command line of this program, for another program that starts it with hardly any environment.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCall {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Variables that the program needs to find Angelia's home.
    pub(crate) env: Vec<(String, String)>,
}

impl ProgramCall {
    /// Returns the command line for one of our commands, with the same home and configuration as
    /// this process.
    pub(crate) fn find(
        environment: &Environment,
        home: &Home,
        config_file: Option<&Path>,
        command: &str,
    ) -> Result<Self, CommandError> {
        let mut arguments = Vec::new();
        if let Some(file) = config_file {
            let file = std::path::absolute(file).map_err(CommandError::internal)?;
            arguments.push("--config".to_owned());
            arguments.push(file.to_string_lossy().into_owned());
        }
        arguments.push(command.to_owned());
        let variable = "ANGELIA_HOME";
        let env = environment.non_empty(variable).map(|_| {
            let home = home.dir().to_string_lossy().into_owned();
            (variable.to_owned(), home)
        });
        Ok(Self {
            program: invoked_program(environment)?,
            arguments,
            env: env.into_iter().collect(),
        })
    }
}

/// Returns the path under which this program was started, without resolving a symbolic link. Falls
/// back to the file itself if the name leads elsewhere or is an alias for one command.
pub(crate) fn invoked_program(environment: &Environment) -> Result<PathBuf, CommandError> {
    let file = std::env::current_exe()
        .map_err(|error| CommandError::internal(format!("cannot find my own program: {error}")))?;
    let named = std::env::args_os().next().filter(|_| !cli::is_started_by_alias());
    let named = named.and_then(|name| find_program(&name, environment));
    let is_ours = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|found| found == file);
    Ok(named.filter(is_ours).unwrap_or(file))
}

/// Finds a program like a shell: a name on `PATH`, or a path.
fn find_program(name: &OsStr, environment: &Environment) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(name).ok();
    }
    let path = environment.non_empty("PATH")?;
    std::env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_absolute() && candidate.is_file())
}
