//! Tests of the configuration as a whole: text in; configuration, error or specification out.

mod commands;
mod config_docs;
mod defaults;
mod errors;
mod fallback;
mod hermes;
mod home;
mod http;
mod layers;
mod limits;
mod period;
mod providers;
mod reload;
mod resolve;
mod show;

use std::{ffi::OsString, fs, path::PathBuf};

use tempfile::TempDir;

use super::{Config, ConfigErrors, Environment, Home, ResolveContext};

/// A temporary home, and an environment that has nothing else.
struct TestHome {
    folder: TempDir,
    vars: Vec<(String, String)>,
}

impl TestHome {
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
        Home::from_environment(&self.environment()).unwrap()
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        Config::load(&self.environment(), &self.home(), None, &[])
    }

    fn config(&self) -> Config {
        self.load().unwrap()
    }

    /// Returns the error message for an invalid file.
    fn load_error(&self) -> String {
        self.load().unwrap_err().to_string()
    }

    fn with_context<T>(&self, use_it: impl FnOnce(&ResolveContext<'_>) -> T) -> T {
        let environment = self.environment();
        let home = self.home();
        use_it(&ResolveContext {
            environment: &environment,
            home: &home,
            named_cwd: None,
            caller_cwd: Some(self.folder.path()),
            at_terminal: false,
        })
    }
}

fn load_error(text: &str) -> String {
    TestHome::with_file(text).load_error()
}
