//! Runs schedules (`docs/design/0028-schedules.md`).
//!
//! ```text
//!  time ────▶ next_step ────┐
//!                           ├──▶ claim (store) ──▶ turn ──▶ result ──▶ channel or endpoint
//!  files ───▶ WatchedFiles ─┘         ▲                        │
//!                                     └── the next one ◀── end ┘
//! ```
//!
//! - [`Scheduler`]: claims occurrences that are due by time, and resumes those that a killed
//!   process left open.
//! - `file_loop`: claims occurrences that are due by changed files.
//! - `occurrence_run`: runs the turn of a claimed occurrence and records its end.
//! - [`ResultDelivery`]: sends the result; `check_result_target` checks whether one could be sent.
//! - `changed_names`: lists the changed files for the agent. Pure.

mod changed_names;
mod file_loop;
mod occurrence_run;
mod result_delivery;
mod scheduler;

pub(crate) use self::result_delivery::check_result_target;
pub use self::{
    changed_names::prompt_with_names,
    result_delivery::ResultDelivery,
    scheduler::{Scheduler, SchedulerParts},
};
