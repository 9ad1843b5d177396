//! The model APIs in front of an engine with an agent that the test controls: the choice of session
//! and turn, and the answer. The encoding of each dialect is tested in `anthropic` and `openai`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod demands;
mod endings;
#[path = "../fixed_config/mod.rs"]
mod fixed_config;
mod harness;
mod keys;
mod matching;
mod models;
#[path = "../no_agents/mod.rs"]
mod no_agents;
mod once;
#[path = "../router_fixture/mod.rs"]
mod router_fixture;
mod tools;
