//! Configuration: builds the program's settings from the environment, the home folder,
//! `config.yaml` and flags.
//!
//! - [`environment`]: the process's environment, read once.
//! - [`home`]: Angelia's own folder.
//! - [`load`]: merges the layers into a valid [`Config`], using [`file`], [`yaml`], [`node`] (a
//!   tree in which each value has its origin) and [`setting`] (reads types from the tree).
//! - [`types`]: the keys, their types, defaults and descriptions; [`unsupported`]: the keys that
//!   this version refuses.
//! - [`fallback`], [`delegates`] and [`commands`]: checks of the fallback profiles, the delegation
//!   targets and the command lines.
//! - [`providers`]: the model providers, and checks of the settings that depend on them.
//! - [`channels`]: the chat platforms.
//! - [`agent_version`]: an agent version pinned by `binary`.
//! - [`yaml_edit`]: adds and removes API keys in the owner's file.
//! - [`hermes`]: the block and the variables of Hermes.
//! - [`plano`]: the variables of Plano's bridge.
//! - [`review`]: which profiles review sessions.
//! - [`resolve`]: converts a profile and a call to a session specification, with clocks and budgets
//!   from [`limits`].
//! - [`reload`]: merges a changed file into the effective configuration, using [`reload_rules`].
//! - [`show`], [`template`], [`schema`](mod@schema): the output of `angelia config …`.

mod agent_version;
mod channels;
mod commands;
mod delegates;
mod environment;
mod fallback;
mod file;
mod hermes;
mod home;
mod limits;
mod load;
mod node;
mod owner_only;
mod plano;
mod problem;
mod providers;
mod reload;
mod reload_rules;
mod resolve;
mod review;
mod schema;
mod setting;
mod show;
mod template;
mod types;
mod unsupported;
mod yaml;
mod yaml_edit;

#[cfg(test)]
mod tests;

pub(crate) use agent_version::{AgentVersion, installable};
pub(crate) use channels::channel_settings;
pub(crate) use environment::Environment;
pub(crate) use home::{Home, HomeError, new_token};
pub(crate) use load::Config;
pub(crate) use problem::ConfigErrors;
pub(crate) use reload::Confirmation;
pub(crate) use resolve::{ResolveContext, ResolveError};
pub(crate) use schema::schema;
pub(crate) use template::initial_file;
pub(crate) use types::{
    AgentCommand, ApiKey, ChannelFields, ChannelName, DEFAULT_ENDPOINT, DesktopNotifications,
    HermesSocket, KeyFields, KeyHash, KeyProfiles, LiveAgentLimit, Period, SecretSetting,
    TemplateText, VariableName, expand_home, is_key_name,
};
pub(crate) use yaml::parse_yaml;
pub(crate) use yaml_edit::{YamlBlock, add_entry, add_key, remove_entry, remove_key};
