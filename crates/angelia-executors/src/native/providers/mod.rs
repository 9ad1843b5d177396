//! The providers of models: how they are reached and paid, and how much their models can read and
//! write. The bytes of their APIs are in [`provider`](super::provider).
//!
//! - [`provider`]: a provider: address, keys, quirks, models; `address`: which addresses are valid.
//! - [`built_in`]: the providers that need no configuration except a key.
//! - [`catalog`]: all providers by name; the owner's replace the built-in ones.
//! - [`check`]: checks whether a provider can be used.
//! - [`key`]: where a key comes from, and the key itself; `made_keys`: keys that are created on
//!   demand: `printed_key` by a command, [`entra`] by Microsoft Entra, [`oauth`] with a login.
//! - `token_request`: requests to the servers that issue tokens.
//! - [`key_pool`]: chooses among several keys; [`health`]: which keys and models work.
//! - `by_model`: what was learned about models.
//! - [`model_window`]: how much models can read and write; `short_request`: asks their servers.
//! - `prices`: what models cost.
//! - [`served_models`]: the models of a local server.

mod address;
pub mod built_in;
mod by_model;
pub mod catalog;
pub mod check;
pub mod entra;
pub mod health;
pub mod key;
pub mod key_pool;
mod made_keys;
pub mod model_window;
pub mod oauth;
mod prices;
mod printed_key;
pub mod provider;
pub mod served_models;
mod short_request;
mod token_request;

pub(super) use address::is_local_address;
pub use address::{AddressError, check_address};
pub use built_in::BuiltInProvider;
pub use catalog::ProviderCatalog;
pub use check::{KeyState, ProviderCheck, check_provider, provider_health};
pub use entra::EntraSettings;
pub use health::{Availability, KeyFault, ProviderHealth};
pub use key::{KeySource, ProviderKey, load_key};
pub use key_pool::{ChosenKey, KeyChoice, KeyRotation};
pub(super) use key_pool::{choose_key, choose_next_key};
pub use model_window::{ModelWindow, WindowSource};
pub use oauth::{LoginTarget, OAuthServer, OAuthSettings};
pub use provider::{ModelSettings, Provider};
pub use served_models::{ServedModel, list_models};
