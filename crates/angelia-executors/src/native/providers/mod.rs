//! The providers of models: who they are, how they are reached and paid, and what their models can
//! take. The bytes of their APIs are in [`provider`](super::provider).
//!
//! - [`provider`]: one provider: address, keys, quirks, models; `address`: what an address may be.
//! - [`built_in`]: the providers that need no configuration but a key.
//! - [`catalog`]: all providers by name, the owner's first.
//! - [`check`]: whether a provider can be used.
//! - [`key`]: where a key comes from, and the key itself; `command_keys`: keys that a command prints.
//! - [`model_window`]: how much models take; `short_request`: how their servers are asked.
//! - `prices`: what models cost.
//! - [`served_models`]: what a server at home has.

mod address;
pub mod built_in;
pub mod catalog;
pub mod check;
mod command_keys;
pub mod key;
pub mod model_window;
mod prices;
pub mod provider;
pub mod served_models;
mod short_request;

pub(super) use address::is_local_address;
pub use address::{AddressError, check_address};
pub use built_in::BuiltInProvider;
pub use catalog::ProviderCatalog;
pub use check::{KeyState, ProviderCheck, check_provider, provider_health};
pub use key::{KeySource, ProviderKey, forget_key, load_key};
pub use model_window::{ModelWindow, WindowSource};
pub use provider::{ModelSettings, Provider};
pub use served_models::{ServedModel, list_models};
