//! The configuration of the daemon as clients of `/api` see it, and what the HTTP frontend needs to
//! show and reload it.

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
    /// When the file was last read without an error.
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub loaded_at: Timestamp,
    /// The settings of the file that are not in force yet: they wait for `angelia config reload`
    /// or for a restart.
    pub waiting: Vec<String>,
    /// Why the file as it is now is not used; the last good one stays in force.
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
}

/// What a reload has changed.
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

    /// Reads the file again on behalf of the owner: what waited for a confirmation takes effect.
    /// `Err` says why the file cannot be used.
    fn reload(&self) -> BoxFuture<'_, Result<ConfigReload, String>>;
}
