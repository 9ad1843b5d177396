//! Runs schedules (`docs/design/0028-schedules.md`).
//!
//! ```text
//!  time ────▶ next_step ────┐
//!                           ├──▶ claim (store) ──▶ turn ──▶ result ──▶ channel or endpoint
//!  files ───▶ WatchedFiles ─┘         ▲                        │
//!                                     └── the next one ◀── end ┘
//! ```
//!
//! - [`Scheduler`]: claims what is due by time, and takes up what was left.
//! - `file_loop`: claims what is due by changed files.
//! - `occurrence_run`: runs the turn of a claimed occurrence, and records its end.
//! - [`ResultDelivery`]: sends the result; `check_result_target` says whether one could be sent.
//! - `changed_names`: tells the agent which files have changed. Pure.

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
