//! Our own loop on a provider's API, without a vendor's program. The design, and which part of it
//! exists, is in `docs/design/0029-native-executor.md`; nothing in the configuration reaches this
//! code yet.
//!
//! - [`provider`]: the APIs of models: requests to bytes, and bytes to events. Pure.
//! - [`providers`]: who offers models, at which address, with which key and price.
//! - [`arguments`]: repairs the arguments and the names of tool calls. Pure.
//! - [`retry`]: what to do after a request has failed. Pure.
//! - [`answer_reader`]: reads one answer, within its clocks, and describes one that broke off.
//! - [`ending`]: whether an answer is finished. Pure.
//! - [`tools`]: what a model can do on this machine (`docs/design/0030-native-tools.md`).
//! - [`sandbox`]: the limits of the commands that a model runs.

pub mod answer_reader;
pub mod arguments;
pub mod ending;
pub mod provider;
pub mod providers;
pub mod retry;
pub mod sandbox;
pub mod tools;
