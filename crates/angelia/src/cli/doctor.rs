//! `angelia doctor`: reports which agents are installed, their versions and logins, and what to do.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::{
    model::SessionSpec,
    ports::{Executor, ExecutorHealth, LoginState},
};
use serde::Serialize;

use super::{
    args::DoctorArgs,
    error::{CommandError, Exit},
    print,
};
use crate::{
    assemble::{App, LocalEngine},
    config::ResolveContext,
    home_turns::find_daemon,
};

/// One line of the report.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    detail: String,
    hint: Option<String>,
}

pub(crate) async fn run(app: &Arc<App>, args: &DoctorArgs) -> Result<Exit, CommandError> {
    let mut findings = vec![Finding {
        what: "angelia".to_owned(),
        ok: true,
        detail: format!("{}, home {}", env!("CARGO_PKG_VERSION"), app.home.dir().display()),
        hint: None,
    }];
    for warning in app.config.warnings() {
        findings.push(Finding {
            what: "config".to_owned(),
            ok: true,
            detail: warning.to_string(),
            hint: None,
        });
    }
    findings.push(daemon_finding(app).await);
    let mut agents = 0;
    let local = LocalEngine::start(app, "doctor", false).await?;
    for executor in local.engine.executors() {
        for spec in specs_for(app, executor.name()) {
            let health = executor.probe(&spec).await;
            let finding = agent_finding(&**executor, &health);
            // The demo agent is always installed; it does not count as a ready agent.
            agents += usize::from(finding.ok && health.login != LoginState::NotNeeded);
            findings.push(finding);
        }
    }
    local.stop().await;
    if args.json {
        let text = serde_json::to_string(&findings).map_err(CommandError::internal)?;
        print::line(&text)?;
    } else {
        print::bytes(report(&findings, agents > 0).as_bytes())?;
    }
    Ok(if agents > 0 { Exit::Done } else { Exit::Failed })
}

/// Returns the spec with which the first profile of this executor would start it; the default
/// profile comes first.
pub(super) fn spec_for(app: &App, executor: &str) -> SessionSpec {
    specs_for(app, executor).swap_remove(0)
}

/// Returns the spec of the first profile of this executor, and one more for each further command
/// line that its profiles name. Never empty.
fn specs_for(app: &App, executor: &str) -> Vec<SessionSpec> {
    // A probe starts no turn, so the work folder stands in for a working directory.
    let work = app.home.work_dir();
    let call = ResolveContext {
        environment: &app.environment,
        home: &app.home,
        named_cwd: None,
        caller_cwd: Some(&work),
        at_terminal: false,
    };
    let default = app.config.default_profile();
    let others = app.config.profile_names().filter(|name| *name != default);
    let mut specs: Vec<SessionSpec> = Vec::new();
    let all = std::iter::once(default)
        .chain(others)
        .filter_map(|profile| app.config.resolve(Some(profile), &call).ok())
        .flatten()
        .filter(|spec| &*spec.executor == executor);
    for spec in all {
        if !specs.iter().any(|known| known.command == spec.command) {
            specs.push(spec);
        }
    }
    if specs.is_empty() {
        specs.push(SessionSpec::new(executor, &work));
    }
    specs
}

async fn daemon_finding(app: &Arc<App>) -> Finding {
    let running = find_daemon(app).await.is_some();
    let detail = if running { "running, used by every command" } else { "not running" };
    Finding {
        what: "daemon".to_owned(),
        ok: true,
        detail: detail.to_owned(),
        hint: (!running).then(|| "`angelia serve` keeps agents warm".to_owned()),
    }
}

fn agent_finding(executor: &dyn Executor, health: &ExecutorHealth) -> Finding {
    let login = match &health.login {
        LoginState::LoggedIn { lane: Some(lane) } => format!("logged in ({lane})"),
        LoginState::LoggedIn { lane: None } => "logged in".to_owned(),
        LoginState::LoggedOut => "not logged in".to_owned(),
        LoginState::Unknown => "login unknown".to_owned(),
        LoginState::NotNeeded => "needs no login".to_owned(),
    };
    let detail = match &health.installation {
        Some(installed) => {
            format!("{} at {}, {login}", installed.version, installed.path.display())
        }
        None => "not installed".to_owned(),
    };
    let ok = health.is_ready() && health.login != LoginState::LoggedOut;
    let problem = health.problem.as_ref();
    let hint = problem.map(|failure| match &failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message.to_string(),
    });
    Finding { what: executor.name().to_owned(), ok, detail, hint }
}

fn report(findings: &[Finding], ready: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = if finding.ok { "✓" } else { "✗" };
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{mark} {:8} {}", finding.what, finding.detail);
        if let Some(hint) = &finding.hint {
            let _infallible = writeln!(text, "           {hint}");
        }
    }
    let end = if ready {
        "Ready: `angelia run \"…\"`."
    } else {
        "No coding agent is ready; with `executor: auto`, `angelia run` uses the built-in demo agent."
    };
    text.push_str(end);
    text.push('\n');
    text
}
