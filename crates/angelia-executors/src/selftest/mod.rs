//! Checks whether an installed agent behaves as Angelia expects, against a scripted model on
//! loopback: `angelia selftest`, and the first part of the conformance suite of every executor
//! (`docs/design/0027-selftest.md`).
//!
//! - [`CHECKS`]: every check, in the order of the report. A check returns the defect; it does not
//!   panic, because it runs in the program of a person.
//! - [`CheckedAgent`]: the agent that a check drives; [`ScriptedFixture`] is one with a scripted
//!   model.
//! - [`ScriptedAgent`]: the setup of an agent for a scripted model, implemented in the folder of
//!   each executor.
//! - [`private_home`]: the folders in which the agent runs.
//! - `session`: an open agent and its turns. [`TurnTrace`]: the output of an agent during a turn.
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
