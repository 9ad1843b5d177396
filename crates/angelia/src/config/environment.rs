//! The process's environment, read once at startup. All other code gets it by reference, so that a
//! command depends only on its arguments, and tests need not touch the real environment.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
};

use angelia_executors::process::mark::MARK_VARIABLE;

/// The prefixes of the variables that configure Angelia.
const SETTING_PREFIXES: [&str; 3] = ["ANGELIA_", "HERMES_", "CLAUDE_CLI_"];

/// Names the folder of Hermes' bus.
const HERMES_BUS_VARIABLE: &str = "HERMES_BUS_ROOT";

#[derive(Clone, Default)]
pub(crate) struct Environment {
    vars: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Reads the environment of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the environment"
    )]
    pub(crate) fn capture() -> Self {
        std::env::vars_os().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns a variable's value. An empty value counts as unset.
    pub(crate) fn non_empty(&self, name: &str) -> Option<&OsStr> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Sets a variable for this process. Programs that it starts do not see it.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.vars.insert(name.into(), value.into());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    pub(crate) const fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.vars
    }

    /// Returns the environment without the variables that configure Angelia, except those that name
    /// its home and its bus.
    pub(crate) fn without_settings(mut self) -> Self {
        let kept = ["ANGELIA_HOME", MARK_VARIABLE, "ANGELIA_LOG", HERMES_BUS_VARIABLE];
        self.vars.retain(|name, _| {
            let name = name.to_string_lossy();
            let configures = SETTING_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            !configures || kept.contains(&&*name)
        });
        self
    }

    /// Returns the mark of an agent in our own environment, unchanged.
    pub(crate) fn own_mark(&self) -> Option<&str> {
        self.non_empty(MARK_VARIABLE).and_then(OsStr::to_str)
    }

    /// Returns the owner's home folder.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.non_empty("HOME").map(PathBuf::from)
    }

    /// Returns `$HERMES_HOME`, or else `~/.hermes`, where Hermes' rules and hooks may already
    /// exist.
    pub(crate) fn hermes_home(&self) -> Option<PathBuf> {
        self.folder("HERMES_HOME", ".hermes")
    }

    /// Returns the socket that hermes-bus clients use, in `$HERMES_BUS_ROOT` or else in
    /// `~/.hermes`.
    pub(crate) fn hermes_bus_socket(&self) -> Option<PathBuf> {
        Some(self.folder(HERMES_BUS_VARIABLE, ".hermes")?.join("hermes-bus.sock"))
    }

    /// Returns whether Hermes is used here, in which case its programs look for their bus.
    pub(crate) fn uses_hermes_bus(&self) -> bool {
        self.names_hermes_bus() || self.home().is_some_and(|home| home.join(".hermes").is_dir())
    }

    /// Returns whether the environment names the folder of Hermes' bus.
    pub(crate) fn names_hermes_bus(&self) -> bool {
        self.non_empty(HERMES_BUS_VARIABLE).is_some()
    }

    /// Returns the environment of a program that was started under one of Hermes' names. It uses
    /// the bus where Hermes' own programs look for it.
    #[must_use]
    pub(crate) fn with_hermes_bus(mut self) -> Self {
        if !self.names_hermes_bus()
            && let Some(home) = self.home()
        {
            self.vars.insert(HERMES_BUS_VARIABLE.into(), home.join(".hermes").into());
        }
        self
    }

    /// Returns the folder that the variable names, or else a folder in the owner's home.
    fn folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        match self.non_empty(variable) {
            Some(dir) => Some(PathBuf::from(dir)),
            None => self.home().map(|home| home.join(below_home)),
        }
    }

    /// Returns `$ANGELIA_HOME`, or else `~/.angelia`.
    pub(crate) fn angelia_home(&self) -> Option<PathBuf> {
        self.folder("ANGELIA_HOME", ".angelia")
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(vars: I) -> Self {
        let vars = vars.into_iter().collect();
        Self { vars }
    }
}

/// Prints only names, because values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.vars.keys()).finish()
    }
}
