//! Tests of the configuration as a whole: text in; configuration, error or specification out.

mod commands;
mod config_docs;
mod defaults;
mod errors;
mod hermes;
mod home;
mod http;
mod layers;
mod limits;
mod period;
mod resolve;
mod show;

use std::{ffi::OsString, fs, path::PathBuf};

use tempfile::TempDir;

use super::{Call, Config, ConfigErrors, Environment, Home};

/// A temporary home, and an environment that has nothing else.
struct Place {
    folder: TempDir,
    vars: Vec<(String, String)>,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), vars: Vec::new() }
    }

    fn with_file(text: &str) -> Self {
        let place = Self::new();
        place.write(text);
        place
    }

    fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    fn write(&self, text: impl AsRef<[u8]>) {
        fs::write(self.home().config_file(), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn environment(&self) -> Environment {
        let own = [
            ("HOME", self.folder.path().as_os_str().to_owned()),
            ("ANGELIA_HOME", self.folder.path().as_os_str().to_owned()),
        ];
        let own = own.map(|(name, value)| (OsString::from(name), value));
        let more = self.vars.iter().map(|(name, value)| (name.into(), value.into()));
        own.into_iter().chain(more).collect()
    }

    fn home(&self) -> Home {
        Home::of(&self.environment()).unwrap()
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        Config::load(&self.environment(), &self.home(), None, &[])
    }

    fn config(&self) -> Config {
        self.load().unwrap()
    }

    /// Returns the error message for an invalid file.
    fn complaint(&self) -> String {
        self.load().unwrap_err().to_string()
    }

    fn with_call<T>(&self, use_it: impl FnOnce(&Call<'_>) -> T) -> T {
        let environment = self.environment();
        let home = self.home();
        use_it(&Call {
            environment: &environment,
            home: &home,
            named_cwd: None,
            caller_cwd: Some(self.folder.path()),
            at_terminal: false,
        })
    }
}

fn complaint(text: &str) -> String {
    Place::with_file(text).complaint()
}
