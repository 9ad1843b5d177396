//! The description of a client: its files, and how each of them is edited.
//!
//! An edit is two functions from text to text. The second undoes the first byte for byte, whatever
//! else has changed in the file in between.

use std::path::PathBuf;

use crate::{
    cli::error::{CommandError, Exit},
    config::Environment,
    program::ProgramCall,
};

/// A program that can be connected to Angelia.
pub(super) struct Client {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Whether the client uses the model APIs, for which it gets its own key.
    pub(super) has_key: bool,
    /// Its files, in the order in which they are written.
    pub(super) files: fn(&Folders<'_>) -> Result<Vec<ClientFile>, CommandError>,
    /// Returns what to do after the files are written.
    pub(super) usage: fn(&Folders<'_>) -> String,
}

impl Client {
    pub(super) fn key_name(&self) -> String {
        format!("setup-{}", self.name)
    }
}

/// One file of a client.
pub(super) struct ClientFile {
    pub(super) path: PathBuf,
    /// Whether the file contains the key.
    pub(super) holds_key: bool,
    /// Returns the text with Angelia's part, which replaces an older version of it.
    pub(super) with: fn(&FileState<'_>, &Connection) -> Result<String, EditRefusal>,
    /// Returns the text without Angelia's part.
    pub(super) without: fn(&str) -> Result<Removal, EditRefusal>,
}

/// The current state of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileState<'a> {
    /// `None` if there is no file.
    pub(super) text: Option<&'a str>,
    /// The file's permissions, if others may read it, so that a key would not be safe there.
    pub(super) wide_mode: Option<u32>,
}

/// A file without Angelia's part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Removal {
    /// `None` if Angelia created the file.
    pub(super) text: Option<String>,
    /// The file's earlier permissions, if Angelia has narrowed them.
    pub(super) mode: Option<u32>,
}

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditRefusal {
    /// The owner has conflicting settings, which are kept. Names the settings.
    Own(String),
    /// The file cannot be edited in its present form. States the reason.
    Unreadable(String),
}

/// The data that a client needs to reach Angelia.
#[derive(Debug)]
pub(super) struct Connection {
    /// The address of Angelia without `/v1`, or the API address of a model server.
    pub(super) url: String,
    pub(super) key: String,
    pub(super) model: String,
    /// Whether the model calls tools.
    pub(super) calls_tools: bool,
    /// The file that contains the key, for a client that reads it from a file.
    pub(super) key_file: PathBuf,
    /// The command line of `angelia acp`.
    pub(super) acp: ProgramCall,
}

impl Connection {
    /// Returns the address including `/v1`.
    pub(super) fn v1_url(&self) -> String {
        format!("{}/v1", self.url)
    }
}

/// The folders of the clients' files.
pub(super) struct Folders<'a> {
    pub(super) environment: &'a Environment,
    /// The owner's home.
    pub(super) home: PathBuf,
    /// Our own files for clients, in Angelia's home.
    pub(super) clients: PathBuf,
    /// Angelia's own configuration.
    pub(super) config_file: PathBuf,
}

impl<'a> Folders<'a> {
    pub(super) fn new(
        environment: &'a Environment,
        clients: PathBuf,
        config_file: PathBuf,
    ) -> Result<Self, CommandError> {
        let home = environment.home().ok_or_else(|| {
            CommandError::new(Exit::Config, "cannot find the files of clients: HOME is not set")
                .with_hint("set HOME")
        })?;
        Ok(Self { environment, home, clients, config_file })
    }

    /// Returns `$XDG_CONFIG_HOME`, or else `~/.config`.
    pub(super) fn config(&self) -> PathBuf {
        let named = self.environment.non_empty("XDG_CONFIG_HOME").map(PathBuf::from);
        named.filter(|path| path.is_absolute()).unwrap_or_else(|| self.home.join(".config"))
    }
}

/// Quotes a text so that JSON, YAML and Lua read it alike.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
impl Connection {
    /// Returns a connection for tests, with a key that no user has.
    pub(super) fn for_tests() -> Self {
        Self {
            url: "http://127.0.0.1:4376".to_owned(),
            key: format!("angelia-{}", "0".repeat(64)),
            model: "claude/sonnet".to_owned(),
            calls_tools: true,
            key_file: "/home/you/.angelia/clients/codex.key".into(),
            acp: ProgramCall {
                program: "/usr/bin/angelia".into(),
                arguments: vec!["acp".to_owned()],
                env: Vec::new(),
            },
        }
    }
}
