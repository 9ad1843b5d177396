//! Sessions as actors, one running turn each, recorded before it is shown.
//!
//! ```text
//! submit ──▶ session actor ──▶ running turn ──▶ recorder ──▶ store
//!              queue, agent      agent.run()      numbers  └─▶ turn log ──▶ any number of watchers
//! ```
//!
//! - [`Engine`]: what frontends call; sessions in `conversations`, turns in `facade`.
//! - `shared`: who runs what, and where to find it.
//! - `session`: the actor that owns a session's queue and its live agent.
//! - `running`: one turn from its first event to its outcome, in one segment or several.
//! - `drive`: one segment: the agent runs and the record is kept.
//! - `watchdog`: which state a turn is in, and when which clock rings; `budget`: what is enough.
//! - `approvals`: what the rules say, what people are asked, and their answers.
//! - `new_turn`: how a turn comes into the store.
//! - `recorder`: numbers events, commits what must be committed before it is seen.
//! - `said`: the answer so far, and what is still open.
//! - `log`: the events of a running turn in memory, and how viewers follow them.
//! - `once`: the key under which a request is run once.
//! - `quota`: what happens when one is used up; `history`: what another agent is told then.
//! - `known`: what need not be asked of the store, because it is owned here.
//! - [`Gauges`]: how much is going on.
//! - `live`: how many agents may be alive, and whose turn it is to go.
//! - [`rules`]: what happens to a message of the bus when it arrives.
//! - `recovery`: turns that a killed process left behind; sessions whose time is over.

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
