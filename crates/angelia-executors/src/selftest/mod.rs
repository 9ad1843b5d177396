//! Checks whether an installed agent behaves as Angelia expects, using a scripted model on
//! loopback. Used by `angelia selftest`, and as the first part of every executor's conformance
//! suite (`docs/design/0027-selftest.md`).
//!
//! - [`CHECKS`]: every check, in the order of the report. A check returns a defect instead of
//!   panicking, because it runs inside a user's program.
//! - [`CheckedAgent`]: the agent that a check drives; [`ScriptedFixture`] is one with a scripted
//!   model.
//! - [`ScriptedAgent`]: how to set up an agent for a scripted model, implemented in each executor's
//!   folder.
//! - [`private_home`]: the folders in which the agent runs.
//! - `session`: an open agent and its turns. [`TurnTrace`]: what an agent emits during a turn.
//! - [`stream`]: the invariants of a turn's events, checked after every turn.

mod agent;
pub mod checks;
mod defect;
mod fixture;
pub mod private_home;
mod session;
pub mod stream;
mod turn_trace;

pub use self::{
    agent::{CheckedAgent, ScriptedAgent, TestedVersions, VersionPlace},
    checks::{CHECKS, Check},
    defect::{CheckOutcome, CheckResult, Defect},
    fixture::{AgentProgram, ScriptedFixture},
    private_home::{PrivateFolders, PrivateHome},
    turn_trace::TurnTrace,
};
