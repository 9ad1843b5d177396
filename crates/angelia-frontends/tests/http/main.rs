//! `/api` from the outside: an engine with a scripted agent behind it, most tests without a socket.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod approvals;
mod bodies;
mod dashboard;
mod events;
#[path = "../fixed_config/mod.rs"]
mod fixed_config;
mod guard;
mod harness;
mod health;
mod limits;
mod lists;
mod metrics;
#[path = "../no_agents/mod.rs"]
mod no_agents;
mod once;
mod openapi;
mod reach;
mod reports;
#[expect(dead_code, reason = "shared with the tests of the model APIs")]
#[path = "../router_fixture/mod.rs"]
mod router_fixture;
mod sessions;
mod sockets;
mod turns;
