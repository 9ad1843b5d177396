//! `angelia selftest`: runs the executors' checks on the installed agents, against a scripted model on
//! loopback, and prints which versions work (`docs/design/0027-selftest.md`).
//!
//! - `target`: finds the programs to test.
//! - `trial`: one check of one program, in private folders.
//! - `report`: the table and the JSON.
//! - `recording`: the redacted messages, for a bug report.

mod recording;
mod report;
mod target;
mod trial;

use std::path::PathBuf;

use angelia_core::model::Failure;
use angelia_executors::selftest::CHECKS;
use clap::Args;

use self::{
    recording::Recording,
    report::{AgentReport, CheckReport, CheckVerdict, SelftestReport},
    target::Target,
    trial::{TrialEnd, TrialRunner},
};
use super::{
    error::{CommandError, Exit},
    print,
    view::View,
};
use crate::assemble::App;

#[derive(Debug, Args)]
pub(crate) struct SelftestArgs {
    /// The agent to test: `claude`, `codex` or `acp`; by default all installed ones.
    pub(crate) executor: Option<String>,

    /// Test only the program of this profile.
    #[arg(requires = "executor")]
    pub(crate) profile: Option<String>,

    /// Write what Angelia and the agents said to each other to this new file, for a bug report.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, args: &SelftestArgs) -> Result<Exit, CommandError> {
    // The profiles are resolved in folders of the home.
    app.home.prepare()?;
    let targets = target::find(app, args.executor.as_deref(), args.profile.as_deref())?;
    let mut recording = match &args.record {
        Some(path) => Some(Recording::create(path, app)?),
        None => None,
    };
    let mut runner = TrialRunner::new(app, recording.is_some())?;
    let mut printer = Printer::new(app, args);
    let mut report = SelftestReport::default();
    let mut missing = None;
    for target in &targets {
        let tested = test_agent(&mut runner, target, &mut recording, &mut printer).await?;
        match tested {
            Ok(agent) => report.agents.push(agent),
            Err(failure) => missing = missing.or(Some(failure)),
        }
    }
    if report.agents.is_empty() {
        return Err(none_installed(args, missing));
    }
    if let Some(recording) = recording {
        recording.finish()?;
    }
    printer.finish(&report)?;
    Ok(if report.is_ok() { Exit::Done } else { Exit::Failed })
}

/// Runs every check on a program. Returns `Ok(Err(…))` if it is not installed.
async fn test_agent(
    runner: &mut TrialRunner,
    target: &Target,
    recording: &mut Option<Recording>,
    printer: &mut Printer,
) -> Result<Result<AgentReport, Failure>, CommandError> {
    let installed = match runner.find_program(target).await? {
        Ok(installed) => installed,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut agent = AgentReport::new(target, &installed);
    printer.begin_agent(&agent)?;
    if let Some(recording) = recording {
        recording.begin_agent(&agent)?;
    }
    let mut has_started = true;
    for check in &CHECKS {
        let row = if has_started {
            let trial = runner.run(target, check).await?;
            has_started = !matches!(&trial.end, TrialEnd::Failed(defect) if defect.is_start());
            let row = CheckReport::new(check, &trial);
            if let Some(recording) = recording {
                recording.add(&row, &trial)?;
            }
            row
        } else {
            CheckReport::not_run(check)
        };
        printer.add_check(&row)?;
        agent.checks.push(row);
    }
    Ok(Ok(agent))
}

fn none_installed(args: &SelftestArgs, missing: Option<Failure>) -> CommandError {
    if let (Some(_), Some(failure)) = (&args.executor, missing) {
        let error = CommandError::new(Exit::Unavailable, failure.message.to_string());
        return match failure.hint {
            Some(hint) => error.with_hint(hint.to_string()),
            None => error,
        };
    }
    CommandError::new(Exit::Unavailable, "no agent that can be tested is installed")
        .with_hint("install one, for example with `angelia agents install claude`")
}

/// Prints the table while the checks run, or JSON at the end.
struct Printer {
    view: View,
    is_json: bool,
    record: Option<PathBuf>,
    is_first: bool,
}

impl Printer {
    fn new(app: &App, args: &SelftestArgs) -> Self {
        Self {
            view: View::of_stdout(&app.environment),
            is_json: args.json,
            record: args.record.clone(),
            is_first: true,
        }
    }

    fn begin_agent(&mut self, agent: &AgentReport) -> Result<(), CommandError> {
        if self.is_json {
            return Ok(());
        }
        let gap = if std::mem::take(&mut self.is_first) { "" } else { "\n" };
        print::styled(&format!("{gap}{}", report::heading(agent, &self.view)))?;
        Ok(())
    }

    fn add_check(&self, row: &CheckReport) -> Result<(), CommandError> {
        if !self.is_json {
            print::styled(&report::row(row, &self.view))?;
        }
        Ok(())
    }

    fn finish(&self, report: &SelftestReport) -> Result<(), CommandError> {
        if self.is_json {
            print::line(&report.to_json()?)?;
            return Ok(());
        }
        print::styled(&report::conclusion(report, &self.view))?;
        let failed = |agent: &&AgentReport| {
            agent.checks.iter().any(|row| row.verdict == CheckVerdict::Failed)
        };
        match (&self.record, report.agents.iter().find(failed)) {
            (Some(path), _) => print::note(&format!("recorded in {}", path.display())),
            (None, Some(agent)) => print::note(&format!(
                "  hint: `angelia selftest {} --record wire.jsonl` writes what was said, for a bug report",
                agent.selector()
            )),
            (None, None) => {}
        }
        Ok(())
    }
}
