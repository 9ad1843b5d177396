//! Shared support for the tests and benchmarks of every crate: a scripted model server, the real
//! agent programs in an isolated environment, and small fake ones. A dev-dependency only.

pub mod acp_agents;
pub mod bus_peer;
pub mod by_hand;
pub mod clock;
pub mod codex_home;
pub mod conformance;
pub mod isolated;
pub mod marked;
pub mod measure;
pub mod model_server;
pub mod programs;
pub mod puppet;
pub mod real;
pub mod stream_json;
