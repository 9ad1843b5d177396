//! `angelia schedule …`: turns that start on their own.
//!
//! - [`add`]: builds a new schedule.
//! - [`view`]: prints schedules for people.

mod add;
mod view;

use std::sync::Arc;

use clap::Subcommand;
use jiff::{Timestamp, tz::TimeZone};

use super::{
    error::{CommandError, Exit},
    print,
};
use crate::{assemble::App, records::Records, resolve};

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Add a schedule: `schedule add "0 9 * * 1-5" PROMPT`, or with --at, --every or --watch.
    Add(Box<add::AddArgs>),
    /// List the schedules, oldest first.
    List {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show a schedule and its last results.
    Show {
        /// The id, the start of it, or `last`.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Pause a schedule; a running turn continues.
    Pause { id: String },
    /// Resume a schedule; times that came due in the meantime are skipped.
    Resume { id: String },
    /// Remove a schedule and its results; its sessions stay.
    Remove { id: String },
}

pub(crate) async fn run(app: &Arc<App>, command: ScheduleCommand) -> Result<Exit, CommandError> {
    let records = Records::open(app).await?;
    let (now, zone) = (Timestamp::now(), TimeZone::system());
    match command {
        ScheduleCommand::Add(args) => add::run(app, &records, *args).await,
        ScheduleCommand::List { json } => {
            let schedules = records.schedules().await?;
            if schedules.is_empty() && !json {
                print::note("there are no schedules; `angelia schedule add` makes one");
                return Ok(Exit::Done);
            }
            if !json {
                return print::bytes(&view::table(&schedules, now, &zone).render());
            }
            let mut out = Vec::new();
            for schedule in &schedules {
                print::json_line(schedule, &mut out)?;
            }
            print::bytes(&out)
        }
        ScheduleCommand::Show { id, json } => {
            let schedule = records.schedule(resolve::schedule(&records, &id).await?).await?;
            if !json {
                return print::bytes(view::page(&schedule, now, &zone).as_bytes());
            }
            let mut out = Vec::new();
            print::json_line(&schedule, &mut out)?;
            print::bytes(&out)
        }
        ScheduleCommand::Pause { id } => {
            let id = resolve::schedule(&records, &id).await?;
            let paused = records.set_schedule_paused(id, true).await?;
            print::line(&format!("paused {}", view::short(&paused)))
        }
        ScheduleCommand::Resume { id } => {
            let id = resolve::schedule(&records, &id).await?;
            let resumed = records.set_schedule_paused(id, false).await?;
            let next = view::next(&resumed, now, &zone);
            print::line(&format!("resumed {}; {next}", view::short(&resumed)))
        }
        ScheduleCommand::Remove { id } => {
            let schedule = records.schedule(resolve::schedule(&records, &id).await?).await?;
            records.remove_schedule(schedule.id).await?;
            print::line(&format!("removed {}", view::short(&schedule)))
        }
    }
}
