//! A private home for one comparison: the same folder and the same variables for every way to the
//! agent program.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::ours;
use crate::isolated::Isolated;

/// Where and as whom an agent program runs.
#[derive(Debug)]
pub struct Place {
    isolated: Isolated,
    pub program: PathBuf,
    base_url: String,
}

impl Place {
    pub fn new(program: &Path, base_url: &str) -> Result<Self> {
        let isolated = Isolated::new()?;
        Ok(Self { isolated, program: program.to_owned(), base_url: base_url.to_owned() })
    }

    /// The agent program's whole environment when it is driven directly.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.isolated.agent_environment(&self.base_url)
    }

    /// Our own environment, without what is the agent's.
    pub fn bare_environment(&self) -> Vec<(OsString, OsString)> {
        self.isolated.environment()
    }

    /// What the agent program needs beyond [`Self::bare_environment`], for a profile's `env`.
    pub fn variables(&self) -> Vec<(String, String)> {
        let bare = self.bare_environment();
        self.environment()
            .into_iter()
            .filter(|(name, _)| bare.iter().all(|(known, _)| known != name))
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    pub fn work(&self) -> PathBuf {
        self.isolated.work()
    }

    pub fn home(&self) -> PathBuf {
        self.isolated.home()
    }

    /// A folder of this name for one of our own processes.
    pub fn angelia_home(&self, name: &str) -> PathBuf {
        self.isolated.root().join(name)
    }

    /// The agent program as a profile of ours, with so many processes kept waiting.
    pub fn profile(&self, warm: u32) -> Value {
        let variables = self.variables().into_iter();
        let variables: Map<_, _> = variables.map(|(name, value)| (name, value.into())).collect();
        json!({"executor": "claude", "binary": self.program, "cwd": self.work(),
            "trust": "off", "env": variables, "warm": warm})
    }

    /// Our own program in the home of this name, configured like this.
    pub fn angelia(&self, program: &str, name: &str, config: &Value) -> Result<Command> {
        let home = self.angelia_home(name);
        fs::create_dir_all(&home)?;
        // JSON is YAML.
        fs::write(home.join("config.yaml"), config.to_string())?;
        let mut command = ours(program);
        command.env_clear().envs(self.bare_environment()).env("ANGELIA_HOME", home);
        Ok(command)
    }
}
