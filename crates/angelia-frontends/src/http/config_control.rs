//! The daemon's configuration for `/api`: the types that clients see, and the interface through
//! which the HTTP frontend shows and reloads it.

use std::collections::BTreeMap;

use angelia_core::ports::BoxFuture;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::As;

use crate::event_json::time::Rfc3339;

/// The state of the configuration file, without its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ConfigState")]
pub struct ConfigState {
    /// The file that the daemon follows.
    pub path: String,
    /// The time at which the file was last read without an error.
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub loaded_at: Timestamp,
    /// The settings of the file that are not in force yet: they wait for `angelia config reload`
    /// or for a restart.
    pub waiting: Vec<String>,
    /// The reason why the present file is not used; the last good one stays in force.
    pub error: Option<String>,
}

/// The state of the file, and the settings in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Config")]
pub struct ConfigResource {
    #[serde(flatten)]
    pub state: ConfigState,
    /// Every setting with the value that is in force; the values of variables are masked.
    pub settings: Map<String, Value>,
    /// The origin of each setting by its path: `default`, a file and line, a variable or a flag.
    #[serde(default)]
    pub origins: BTreeMap<String, String>,
}

/// The changes that a reload has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ConfigReload")]
pub struct ConfigReload {
    /// The settings that took effect now.
    pub applied: Vec<String>,
    /// The settings that only a restart changes.
    pub waiting: Vec<String>,
}

/// The configuration of the daemon that serves these requests.
pub trait ConfigControl: Send + Sync + 'static {
    fn state(&self) -> ConfigState;

    /// Returns the settings in force.
    fn settings(&self) -> Map<String, Value>;

    /// Returns the origin of each setting by its path.
    fn origins(&self) -> BTreeMap<String, String>;

    /// Reads the file if it has changed. This also happens periodically.
    fn refresh(&self) -> BoxFuture<'_, ()>;

    /// Rereads the file on behalf of the owner: settings that waited for a confirmation take
    /// effect. The error tells why the file is unusable.
    fn reload(&self) -> BoxFuture<'_, Result<ConfigReload, String>>;
}
