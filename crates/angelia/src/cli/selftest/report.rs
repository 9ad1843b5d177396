//! The output of a self-test.

use std::{fmt::Write as _, path::PathBuf};

use angelia_core::ports::InstalledAgent;
use angelia_executors::selftest::{Check, TestedVersions, VersionPlace};
use serde::Serialize;

use super::{
    target::Target,
    trial::{Trial, TrialEnd},
};
use crate::cli::{
    error::CommandError,
    view::{Style, View},
};

/// The reason in the rows that follow an agent that did not start.
const NOT_STARTED: &str = "not tried, because the agent did not start";

#[derive(Debug, Default, Serialize)]
pub(super) struct SelftestReport {
    pub(super) agents: Vec<AgentReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct AgentReport {
    pub(super) executor: &'static str,
    pub(super) profiles: Vec<String>,
    pub(super) path: PathBuf,
    pub(super) version: String,
    #[serde(skip)]
    tested: Option<TestedVersions>,
    oldest_tested: Option<String>,
    newest_tested: Option<String>,
    pub(super) checks: Vec<CheckReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct CheckReport {
    pub(super) id: &'static str,
    title: &'static str,
    pub(super) verdict: CheckVerdict,
    pub(super) reason: Option<String>,
    seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckVerdict {
    Passed,
    Failed,
    NotApplicable,
    NotRun,
}

impl CheckVerdict {
    const fn mark(self) -> (&'static str, Style) {
        match self {
            Self::Passed => ("✓", Style::Good),
            Self::Failed => ("✗", Style::Bad),
            Self::NotApplicable | Self::NotRun => ("–", Style::Faint),
        }
    }
}

impl SelftestReport {
    pub(super) fn is_ok(&self) -> bool {
        self.agents.iter().all(|agent| agent.count(CheckVerdict::Failed) == 0)
    }

    pub(super) fn to_json(&self) -> Result<String, CommandError> {
        #[derive(Serialize)]
        struct Whole<'a> {
            ok: bool,
            #[serde(flatten)]
            report: &'a SelftestReport,
        }
        let whole = Whole { ok: self.is_ok(), report: self };
        serde_json::to_string(&whole).map_err(CommandError::internal)
    }
}

impl AgentReport {
    pub(super) fn new(target: &Target, installed: &InstalledAgent) -> Self {
        let tested = target.agent.tested_versions(&installed.version);
        Self {
            executor: target.registration.name,
            profiles: target.profiles.clone(),
            path: installed.path.clone(),
            version: installed.version.to_string(),
            oldest_tested: tested.as_ref().map(|tested| tested.oldest.clone()),
            newest_tested: tested.as_ref().map(|tested| tested.newest.clone()),
            tested,
            checks: Vec::new(),
        }
    }

    fn count(&self, verdict: CheckVerdict) -> usize {
        self.checks.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Returns the arguments that select this program again.
    pub(super) fn selector(&self) -> String {
        match self.profiles.first() {
            Some(profile) => format!("{} {profile}", self.executor),
            None => self.executor.to_owned(),
        }
    }
}

impl CheckReport {
    pub(super) fn new(check: &Check, trial: &Trial) -> Self {
        let (verdict, reason) = match &trial.end {
            TrialEnd::Passed => (CheckVerdict::Passed, None),
            TrialEnd::NotApplicable(reason) => {
                (CheckVerdict::NotApplicable, Some((*reason).to_owned()))
            }
            TrialEnd::Failed(defect) => (CheckVerdict::Failed, Some(defect.to_string())),
        };
        let seconds = (trial.took.as_secs_f64() * 1000.0).round() / 1000.0;
        Self { id: check.id, title: check.title, verdict, reason, seconds: Some(seconds) }
    }

    pub(super) fn not_run(check: &Check) -> Self {
        let reason = Some(NOT_STARTED.to_owned());
        Self {
            id: check.id,
            title: check.title,
            verdict: CheckVerdict::NotRun,
            reason,
            seconds: None,
        }
    }
}

/// Returns the lines above the rows of an agent.
pub(super) fn heading(agent: &AgentReport, view: &View) -> String {
    let mut text = String::new();
    let name = format!("{} {}", agent.executor, agent.version);
    // Writing to a string cannot fail.
    let _infallible = writeln!(
        text,
        "{}  {}",
        view.paint(Style::Bold, &name),
        view.rest(Style::Faint, &agent.path.display().to_string(), name.chars().count() + 2)
    );
    let _infallible = writeln!(text, "  {}", coverage(agent, view));
    text
}

/// Compares the version with those that Angelia itself was tested with.
fn coverage(agent: &AgentReport, view: &View) -> String {
    let Some(tested) = &agent.tested else {
        return view.paint(Style::Warning, "Angelia's own tests do not run this agent");
    };
    let range = if tested.oldest == tested.newest {
        tested.newest.clone()
    } else {
        format!("{} to {}", tested.oldest, tested.newest)
    };
    match tested.place(&agent.version) {
        VersionPlace::Within => view.paint(Style::Faint, &format!("tested versions: {range}")),
        VersionPlace::Newer => {
            view.paint(Style::Warning, &format!("newer than the tested versions: {range}"))
        }
        VersionPlace::Older => {
            view.paint(Style::Warning, &format!("older than the tested versions: {range}"))
        }
    }
}

/// Returns the line for a check, with the reason for a failure below it.
pub(super) fn row(row: &CheckReport, view: &View) -> String {
    let (mark, style) = row.verdict.mark();
    let mut text = format!("  {} {}", view.paint(style, mark), row.title);
    match (&row.reason, row.verdict) {
        (Some(reason), CheckVerdict::Failed) => {
            text.push('\n');
            for line in reason.lines() {
                let _infallible = writeln!(text, "      {}", view.rest(Style::Bad, line, 6));
            }
        }
        (Some(reason), _) => {
            let _infallible =
                writeln!(text, "{}", view.paint(Style::Faint, &format!(": {reason}")));
        }
        (None, _) => text.push('\n'),
    }
    text
}

/// Returns the line below all rows.
pub(super) fn conclusion(report: &SelftestReport, view: &View) -> String {
    let mut text = String::from("\n");
    for agent in &report.agents {
        let (passed, failed) =
            (agent.count(CheckVerdict::Passed), agent.count(CheckVerdict::Failed));
        let applied = agent.checks.len() - agent.count(CheckVerdict::NotApplicable);
        let (words, style) = match failed {
            0 => (format!("works with Angelia: {passed} of {applied} checks passed"), Style::Good),
            _ => (format!("{failed} of {applied} checks failed"), Style::Bad),
        };
        let name = format!("{} {}", agent.executor, agent.version);
        let _infallible = writeln!(text, "{name}: {}", view.paint(style, &words));
    }
    text
}
