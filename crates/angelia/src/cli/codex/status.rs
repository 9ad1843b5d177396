//! `angelia codex status`: reports the installed Codex, the enabled entries, and the changes that
//! `enable` would make.

use std::{fmt::Write as _, path::Path, sync::Arc};

use angelia_core::ports::{ExecutorHealth, LoginState};
use angelia_executors::codex::{
    REGISTRATION,
    user_config::{ConfigEdit, PartState, with_angelia_config, without_angelia_config},
};
use serde::Serialize;

use super::{CodexHome, EnableArgs, broken_config_error, change::part_notes, desired_config};
use crate::{
    assemble::{App, LocalEngine},
    cli::{
        doctor,
        error::{CommandError, Exit},
        print,
        user_file::UserFile,
    },
};

#[derive(Debug, Serialize)]
struct Findings {
    program: Option<String>,
    version: Option<String>,
    login: &'static str,
    lane: Option<String>,
    problem: Option<String>,
    config: String,
    /// Whether the configuration contains at least one of our entries.
    enabled: bool,
    /// Whether the entries are those that `enable` would write now.
    current: bool,
    parts: Vec<PartFinding>,
}

#[derive(Debug, Serialize)]
struct PartFinding {
    name: String,
    state: &'static str,
    notes: Vec<String>,
}

pub(super) async fn probe_health(app: &Arc<App>, local: &LocalEngine) -> ExecutorHealth {
    let mut executors = local.engine.executors().iter();
    match executors.find(|executor| executor.name() == REGISTRATION.name) {
        Some(codex) => codex.probe(&doctor::spec_for(app, codex.name())).await,
        None => ExecutorHealth { installation: None, login: LoginState::Unknown, problem: None },
    }
}

/// Prints the report. Exits with 0 if Codex can be used and its configuration is what `enable`
/// would write.
pub(super) async fn status(
    app: &Arc<App>,
    file: Option<&Path>,
    home: &CodexHome,
    json: bool,
) -> Result<Exit, CommandError> {
    let text = if home.dir.is_dir() { UserFile::open(&home.config_path())?.read()? } else { None };
    let before = text.as_deref().map(without_angelia_config).transpose();
    let before = before.map_err(|error| broken_config_error(home, &error))?.flatten();
    let enabled = text != before;
    let (plan, current) = find_matching_plan(app, file, home, text.as_deref())?;
    let local = LocalEngine::start(app, "codex", false).await?;
    let health = probe_health(app, &local).await;
    local.stop().await;
    let findings = Findings {
        program: health.installation.as_ref().map(|found| found.path.display().to_string()),
        version: health.installation.as_ref().map(|found| found.version.to_string()),
        login: match &health.login {
            LoginState::LoggedIn { .. } => "in",
            LoginState::LoggedOut => "out",
            LoginState::NotNeeded => "not needed",
            LoginState::Unknown => "unknown",
        },
        lane: match &health.login {
            LoginState::LoggedIn { lane } => lane.as_deref().map(str::to_owned),
            _ => None,
        },
        problem: health.problem.as_ref().map(|problem| match &problem.hint {
            Some(hint) => format!("{}; {hint}", problem.message),
            None => problem.message.to_string(),
        }),
        config: home.config_path().display().to_string(),
        enabled,
        current: enabled && current,
        parts: part_findings(&plan, before.as_deref(), text.as_deref()),
    };
    if json {
        let text = serde_json::to_string(&findings).map_err(CommandError::internal)?;
        print::line(&text)?;
    } else {
        print::bytes(report(&findings).as_bytes())?;
    }
    let is_fine = health.is_ready() && health.login != LoginState::LoggedOut && findings.current;
    Ok(if is_fine { Exit::Done } else { Exit::Failed })
}

/// Returns the plan of `enable` with flags under which it would change nothing, and `true`. If no
/// flags achieve that, returns the plan without flags, and `false`.
fn find_matching_plan(
    app: &App,
    file: Option<&Path>,
    home: &CodexHome,
    text: Option<&str>,
) -> Result<(ConfigEdit, bool), CommandError> {
    // `status` does not know the flags that `enable` was run with, so it tries all eight
    // combinations.
    let mut first = None;
    for flags in 0..8_u8 {
        let args = EnableArgs {
            dry_run: true,
            no_permissions: flags & 1 != 0,
            no_plugins: flags & 2 != 0,
            no_tools: flags & 4 != 0,
        };
        let wished = desired_config::collect_desired(app, file, home, &args)?;
        let plan = with_angelia_config(text, &wished.config)
            .map_err(|error| broken_config_error(home, &error))?;
        if Some(plan.text.as_str()) == text {
            return Ok((plan, true));
        }
        first.get_or_insert(plan);
    }
    let plan = first.ok_or_else(|| CommandError::internal("there is no plan"))?;
    Ok((plan, false))
}

fn part_findings(plan: &ConfigEdit, before: Option<&str>, text: Option<&str>) -> Vec<PartFinding> {
    let is_there = |name: &str| {
        let count = |text: Option<&str>| text.map_or(0, |text| text.matches(name).count());
        count(text) > count(before)
    };
    let found = |part: &angelia_executors::codex::user_config::ConfigPart| PartFinding {
        name: part.name.clone(),
        state: match &part.state {
            PartState::Written if is_there(&part.name) => "enabled",
            PartState::Written => "missing",
            PartState::Kept(_) => "yours",
            PartState::Failed(_) => "failed",
        },
        notes: part_notes(part),
    };
    plan.parts.iter().map(found).collect()
}

fn report(findings: &Findings) -> String {
    let mut text = String::new();
    let mut line = |mark: Option<bool>, what: &str, words: &str| {
        let mark = match mark {
            Some(true) => "✓",
            Some(false) => "✗",
            None => "?",
        };
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{mark} {what:8} {words}");
    };
    match (&findings.program, &findings.version) {
        (Some(program), Some(version)) => {
            line(Some(true), "codex", &format!("{version} at {program}"));
        }
        _ => line(Some(false), "codex", "not found, or not usable"),
    }
    let login = match (&findings.lane, findings.login) {
        (Some(who), _) => format!("logged in ({who})"),
        (None, "in") => "logged in".to_owned(),
        (None, "out") => "not logged in".to_owned(),
        (None, other) => other.to_owned(),
    };
    let is_in = match findings.login {
        "in" | "not needed" => Some(true),
        "out" => Some(false),
        _ => None,
    };
    line(is_in, "login", &login);
    let state = match (findings.enabled, findings.current) {
        (false, _) => "not enabled; run `angelia codex enable`",
        (true, true) => "enabled, up to date",
        (true, false) => {
            "enabled, but not as it would be now; `angelia codex enable --dry-run` shows the difference"
        }
    };
    let config = format!("{state} ({})", findings.config);
    line(Some(findings.current), "config", &config);
    for part in &findings.parts {
        let _infallible = writeln!(text, "    {:8} {}", part.state, part.name);
        for note in &part.notes {
            let _infallible = writeln!(text, "             {note}");
        }
    }
    if let Some(problem) = &findings.problem {
        let _infallible = writeln!(text, "{problem}");
    }
    text
}
