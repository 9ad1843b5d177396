//! Configuration: from the environment, the home folder, `config.yaml` and flags to what the rest
//! of the program is given.
//!
//! - [`environment`]: the process's environment, read once.
//! - [`home`]: Angelia's own folder.
//! - [`load`]: the layers, from text to a valid [`Config`], by way of [`file`], [`yaml`],
//!   [`node`] (a tree that knows where each value came from) and [`setting`] (how types are read
//!   from it).
//! - [`types`]: the keys, their types, defaults and descriptions; [`later`]: the keys that are
//!   refused for now.
//! - [`fallback`]: which profile takes over from which; [`delegates`]: which hands work to which;
//!   [`commands`]: which have a command line.
//! - [`edit`]: keys, written into the file its owner keeps.
//! - [`hermes`]: the block and the variables that people bring from there.
//! - [`plano`]: the variables of its bridge.
//! - [`resolve`]: profile and call → launch specification, its clocks and budgets by [`limits`].
//! - [`show`], [`template`], [`schema`](mod@schema): what `angelia config …` prints.

mod commands;
mod delegates;
mod edit;
mod environment;
mod fallback;
mod file;
mod hermes;
mod home;
mod later;
mod limits;
mod load;
mod node;
mod owner_only;
mod plano;
mod problem;
mod resolve;
mod schema;
mod setting;
mod show;
mod template;
mod types;
mod yaml;

#[cfg(test)]
mod tests;

pub(crate) use edit::{with_key, without_key};
pub(crate) use environment::Environment;
pub(crate) use home::{Home, HomeError, new_token};
pub(crate) use load::Config;
pub(crate) use problem::ConfigErrors;
pub(crate) use resolve::{Call, ResolveError};
pub(crate) use schema::schema;
pub(crate) use template::initial_file;
pub(crate) use types::{ApiKey, KeyFields, KeyHash, KeyProfiles, Period, is_key_name};
