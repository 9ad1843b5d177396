//! A private home for one comparison: every variant runs the agent program in the same folder with
//! the same variables.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::angelia_command;
use crate::isolated_home::IsolatedHome;

/// An isolated home for an agent program and for our own processes that run it.
#[derive(Debug)]
pub struct BenchHome {
    isolated: IsolatedHome,
    pub program: PathBuf,
    base_url: String,
}

impl BenchHome {
    pub fn new(program: &Path, base_url: &str) -> Result<Self> {
        let isolated = IsolatedHome::new()?;
        Ok(Self { isolated, program: program.to_owned(), base_url: base_url.to_owned() })
    }

    /// Returns the agent program's complete environment for driving it directly.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.isolated.agent_environment(&self.base_url)
    }

    /// Returns the environment of our own processes, without the agent's variables.
    pub fn bare_environment(&self) -> Vec<(OsString, OsString)> {
        self.isolated.environment()
    }

    /// Returns the variables that the agent program needs beyond [`Self::bare_environment`], for a
    /// profile's `env`.
    pub fn variables(&self) -> Vec<(String, String)> {
        let bare = self.bare_environment();
        self.environment()
            .into_iter()
            .filter(|(name, _)| bare.iter().all(|(known, _)| known != name))
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    pub fn work_dir(&self) -> PathBuf {
        self.isolated.work_dir()
    }

    pub fn home(&self) -> PathBuf {
        self.isolated.home()
    }

    /// Returns the `ANGELIA_HOME` with this name. Each of our own processes has its own.
    pub fn angelia_home(&self, name: &str) -> PathBuf {
        self.isolated.root().join(name)
    }

    /// Returns a profile that runs the agent program with `warm` processes in its pool.
    pub fn profile(&self, warm: u32) -> Value {
        let variables = self.variables().into_iter();
        let variables: Map<_, _> = variables.map(|(name, value)| (name, value.into())).collect();
        json!({"executor": "claude", "binary": self.program, "cwd": self.work_dir(),
            "trust": "off", "env": variables, "warm": warm})
    }

    /// Writes the configuration into the home of this name and returns the command that runs our
    /// program there.
    pub fn configured_command(&self, program: &str, name: &str, config: &Value) -> Result<Command> {
        let home = self.angelia_home(name);
        fs::create_dir_all(&home)?;
        // JSON is valid YAML.
        fs::write(home.join("config.yaml"), config.to_string())?;
        let mut command = angelia_command(program);
        command.env_clear().envs(self.bare_environment()).env("ANGELIA_HOME", home);
        Ok(command)
    }
}
