//! The engine: one actor per session, one running turn per actor, every event recorded.
//!
//! ```text
//! submit ──▶ session actor ──▶ turn runner ──▶ recorder ──▶ store
//!              queue, agent      agent.run()     numbers  └─▶ turn log ──▶ any number of watchers
//! ```
//!
//! - [`Engine`] in `facade`: the interface for frontends; its session methods are in `sessions`.
//! - `drain`: stops accepting work, waits for running turns, and leaves queued ones to the next process.
//! - `engine_state`: state shared by the engine and its actors: actors, turn logs, approvals.
//! - `session_actor`: the actor that owns a session's lease, queue and live agent.
//! - `session_command`: the commands that the actor accepts; `turn_admission`: accepts a new turn.
//! - `turn_runner`: runs one turn from its first event to its outcome, in one or more segments.
//! - `agent_opening`: opens an agent for a turn; passes it the recorded conversation if it lost its own.
//! - `segment_runner`: runs one segment: drives the agent and records its events.
//! - `watchdog`: the state of a turn and its timeouts; `budget`: its budgets.
//! - `changes`: announces changes to viewers; `turn_activity`: the clock and the latest words of a
//!   running turn.
//! - `approvals`: permission rules, pending approvals and their decisions.
//! - `browsers`: the browsers in which the owner has signed in.
//! - `audit`: records decisions, changes, deletions and exposures.
//! - `recorder`: numbers events, and commits events before showing them where that is required.
//! - `event_writer`: keeps every event until its commit is confirmed; `unwritten_end`: turn ends that
//!   wait until the store can be written; `text_cut`: cuts texts that are too long.
//! - `text_saver`: saves the text of open blocks against a crash; `output_limit`: limits the output.
//! - `transcript`: the answer so far, and the blocks and tool calls that are still open.
//! - `turn_log`: the events of running turns in memory, and how viewers follow them.
//! - `idempotency`: the key under which a request runs at most once.
//! - `quota`: fallback and parking when a quota is exhausted; `history`: the conversation as messages,
//!   for an agent that does not have it.
//! - `compaction`: has an agent shorten its conversation.
//! - `adoption`: turns a conversation from an agent's own program into a session.
//! - [`short_id`]: ids as shown in lists.
//! - `reports`: usage, quotas and search over all records; `search_upkeep`: completes the search index
//!   while no turn runs.
//! - `respec`: changes to the specification of a session.
//! - `review`: reviews a session in the background; `review_digest`: the conversation as text for
//!   another model; `review_report`: the notice about a review.
//! - [`Gauges`]: current load for metrics; `turn_statistics`: usage and latency by executor;
//!   `turn_span`: a trace of each turn; `live_agents`: the agents of this process.
//! - `spend`: reserves money for turns of callers with a spending limit.
//! - `agent_slots`: limits the number of live agents and evicts idle ones.
//! - [`rules`]: decides what happens to a bus message on arrival.
//! - `schedules`: turns that start on their own: decides which are due, and records them.
//! - `recovery`: closes turns that a killed process left behind; removes stale sessions.

mod adoption;
mod agent_opening;
mod agent_slots;
mod approvals;
mod audit;
mod browsers;
mod budget;
mod changes;
mod compaction;
mod drain;
mod engine_state;
mod event_writer;
mod facade;
mod gauges;
mod history;
mod idempotency;
mod live_agents;
mod output_limit;
mod quota;
mod recorder;
mod recovery;
mod reports;
mod respec;
mod review;
mod review_digest;
mod review_report;
pub mod rules;
mod schedules;
mod search_upkeep;
mod segment_runner;
mod session_actor;
mod session_command;
mod sessions;
mod short_ids;
mod spend;
mod text_cut;
mod text_saver;
mod transcript;
mod turn_activity;
mod turn_admission;
mod turn_approvals;
mod turn_log;
mod turn_runner;
mod turn_span;
mod turn_statistics;
mod unasked_edits;
mod unwritten_end;
mod watchdog;

pub use adoption::ADOPTED_REASON;
pub use agent_opening::{HISTORY_CARRIED_NOTICE, RESUME_LOST_NOTICE};
pub use changes::EngineChange;
pub use compaction::CompactionReport;
pub use facade::{
    Engine, EngineError, EngineLimits, EngineParts, NewSession, SteerOutcome, Submission,
    SubmittedTurn,
};
pub use gauges::{AgentCounts, Gauges, TurnCounts};
pub use idempotency::RequestKey;
pub use live_agents::LiveAgentStatus;
pub use quota::PARKED_NOTICE;
pub use recovery::lost_turn_failure;
pub use schedules::{DueOccurrence, ScheduleStep, WatchedFiles, next_after_resume, next_step};
pub use segment_runner::AWAITING_TOOL_RESULT_NOTICE;
pub use sessions::{NewestTurn, TurnStage};
pub use short_ids::short_id;
pub use spend::SpendLimit;
pub use transcript::TurnTranscript;
pub use turn_activity::{TurnActivity, TurnClock};
pub use turn_log::{EventBatch, TurnWatch};
pub use turn_runner::SHUTDOWN_REASON;
pub use turn_span::TURN_SPAN_TARGET;
pub use turn_statistics::{ExecutorTotals, LATENCY_BOUNDS, LatencyHistogram};
pub use watchdog::{STATE_TABLE, StateLimit, StateRow};
