//! The engine: one actor per session, one running turn per actor, every event recorded.
//!
//! ```text
//! submit ──▶ session actor ──▶ turn runner ──▶ recorder ──▶ store
//!              queue, agent      agent.run()     numbers  └─▶ turn log ──▶ any number of watchers
//! ```
//!
//! - [`Engine`] in `facade`: the interface for frontends; its session methods are in `sessions`.
//! - `engine_state`: state shared by the engine and its actors: actors, turn logs, approvals.
//! - `session_actor`: the actor that owns a session's lease, queue and live agent.
//! - `turn_runner`: runs one turn from its first event to its outcome, in one or more segments.
//! - `segment_runner`: runs one segment: drives the agent and records its events.
//! - `watchdog`: the state of a turn and its timeouts; `budget`: its budgets.
//! - `approvals`: permission rules, pending approvals and their decisions.
//! - `new_turn`: writes a new turn to the store.
//! - `recorder`: numbers events, and commits those that must be committed before they are shown.
//! - `transcript`: the answer so far, and the blocks and tool calls that are still open.
//! - `turn_log`: the events of running turns in memory, and how viewers follow them.
//! - `idempotency`: the key under which a request runs at most once.
//! - `quota`: fallback and parking when a quota is exhausted; `history`: the conversation as
//!   messages for the agent that takes over.
//! - `respec`: changes to the specification of a session.
//! - `session_cache`: answers about sessions owned by this process without asking the store.
//! - [`Gauges`]: current numbers for metrics.
//! - `agent_slots`: limits the number of live agents and evicts idle ones.
//! - [`rules`]: decides what happens to a bus message on arrival.
//! - `recovery`: closes turns that a killed process left behind; removes stale sessions.
//! - `unwind`: turns a panic of a future into a value.

mod approvals;
mod budget;
mod change;
mod conversations;
mod drive;
mod facade;
mod gauges;
mod history;
mod known;
mod live;
mod log;
mod new_turn;
mod once;
mod quota;
mod recorder;
mod recovery;
pub mod rules;
mod running;
mod said;
mod session;
mod shared;
mod unwind;
mod watchdog;

pub use drive::AWAITING_TOOL_RESULT;
pub use facade::{Engine, EngineError, Limits, NewSession, Parts, Steering, Submission, Submitted};
pub use gauges::{AgentCounts, Gauges, TurnCounts};
pub use known::{Newest, Stage};
pub use log::{EventBatch, Watch};
pub use once::RequestKey;
pub use quota::PARKED;
pub use watchdog::{Lasts, STATES, StateRow};
