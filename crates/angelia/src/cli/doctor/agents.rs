//! The agents that `doctor` inspects: each program that a profile can start, once, with the profiles that can
//! start it.

use std::sync::Arc;

use angelia_core::{
    model::SessionSpec,
    ports::{Executor, ExecutorHealth, LoginState},
};

use super::{Finding, FindingState};
use crate::{assemble::App, config::ResolveContext, profiles::is_same_program};

/// A program, and the profiles that use it.
struct AgentProgram {
    spec: SessionSpec,
    /// The profiles that can use the program.
    profiles: Vec<String>,
    /// Whether one of the profiles can use no other program.
    is_required: bool,
}

/// The findings about all agents.
pub(super) struct AgentReport {
    pub(super) findings: Vec<Finding>,
    /// The profiles that are ready, each with the executor that it uses; the default profile comes first.
    pub(super) ready: Vec<(String, &'static str)>,
    pub(super) is_default_ready: bool,
}

/// Returns the specification with which the first profile of this executor would start it. The default
/// profile comes first.
pub(in crate::cli) fn spec_for(app: &App, executor: &str) -> SessionSpec {
    programs(app, executor).swap_remove(0).spec
}

/// Returns the specification of each program of this executor, and the profiles that can use it.
pub(in crate::cli) fn programs_of(app: &App, executor: &str) -> Vec<(SessionSpec, Vec<String>)> {
    let programs = programs(app, executor).into_iter();
    programs.map(|program| (program.spec, program.profiles)).collect()
}

/// Inspects the agents. With `deep`, also starts those whose state only a start can show.
pub(super) async fn examine(app: &App, executors: &[Arc<dyn Executor>], deep: bool) -> AgentReport {
    let mut findings = Vec::new();
    let mut ready_on: Vec<(String, &'static str)> = Vec::new();
    for executor in executors {
        for program in programs(app, executor.name()) {
            let health = if deep {
                executor.probe(&program.spec).await
            } else {
                executor.inspect(&program.spec).await
            };
            // The demo agent is always available, so it does not make a profile ready.
            if is_ready(&health) && health.login != LoginState::NotNeeded {
                let used_by = program.profiles.iter().cloned();
                ready_on.extend(used_by.map(|profile| (profile, executor.name())));
            }
            findings.push(finding(executor.name(), &program, &health));
        }
    }
    // A profile uses the first of its executors that is ready.
    let mut ready: Vec<(String, &'static str)> = Vec::new();
    for name in profile_names(app) {
        let first = ready_on.iter().find(|(profile, _)| profile == name);
        ready.extend(first.cloned());
    }
    let default = app.config.default_profile();
    let is_default_ready = ready.iter().any(|(name, _)| name == default);
    AgentReport { findings, ready, is_default_ready }
}

fn is_ready(health: &ExecutorHealth) -> bool {
    health.is_ready() && health.login != LoginState::LoggedOut
}

/// Returns the names of all profiles, the default one first.
fn profile_names(app: &App) -> impl Iterator<Item = &str> {
    let default = app.config.default_profile();
    let others = app.config.profile_names().filter(move |name| *name != default);
    std::iter::once(default).chain(others)
}

/// Returns the specifications of all profiles, starting with the default one's.
pub(in crate::cli) fn all_specs(app: &App) -> Vec<SessionSpec> {
    profile_names(app).flat_map(|profile| specs_of(app, profile)).collect()
}

/// Returns the specifications that a profile can use. They start no turn, so the work folder stands in for a
/// working directory.
fn specs_of(app: &App, profile: &str) -> Vec<SessionSpec> {
    let call = ResolveContext {
        environment: &app.environment,
        home: &app.home,
        named_cwd: None,
        caller_cwd: Some(&app.home.work_dir()),
        at_terminal: false,
    };
    app.config.resolve(Some(profile), &call).unwrap_or_default()
}

/// Returns the programs of an executor that profiles name, or the one on `PATH` if no profile names one.
/// Never empty.
fn programs(app: &App, executor: &str) -> Vec<AgentProgram> {
    let mut programs: Vec<AgentProgram> = Vec::new();
    for profile in profile_names(app) {
        let specs = specs_of(app, profile);
        let is_only = specs.len() == 1;
        for spec in specs.into_iter().filter(|spec| &*spec.executor == executor) {
            let known = programs.iter_mut().find(|known| is_same_program(&known.spec, &spec));
            if let Some(known) = known {
                known.profiles.push(profile.to_owned());
                known.is_required |= is_only;
            } else {
                let profiles = vec![profile.to_owned()];
                programs.push(AgentProgram { spec, profiles, is_required: is_only });
            }
        }
    }
    if programs.is_empty() {
        let spec = SessionSpec::new(executor, app.home.work_dir());
        programs.push(AgentProgram { spec, profiles: Vec::new(), is_required: false });
    }
    programs
}

fn finding(executor: &str, program: &AgentProgram, health: &ExecutorHealth) -> Finding {
    let login = match &health.login {
        LoginState::LoggedIn { lane: Some(lane) } => Some(format!("logged in ({lane})")),
        LoginState::LoggedIn { lane: None } => Some("logged in".to_owned()),
        LoginState::LoggedOut => Some("not logged in".to_owned()),
        LoginState::Unknown => None,
        LoginState::NotNeeded => Some("needs no login".to_owned()),
    };
    let mut detail = match &health.installation {
        Some(installed) => format!("{} at {}", installed.version, installed.path.display()),
        None if program.spec.binary.is_some() => "not usable".to_owned(),
        None if program.profiles.is_empty() => "not used by a profile".to_owned(),
        None => "not installed".to_owned(),
    };
    if let Some(login) = login.filter(|_| health.installation.is_some()) {
        detail = format!("{detail}, {login}");
    }
    let state = if is_ready(health) {
        FindingState::Good
    } else if program.is_required {
        FindingState::Bad
    } else {
        detail += " (optional)";
        FindingState::Optional
    };
    if program.is_required && state == FindingState::Bad {
        detail = format!("{detail}; used by {}", quote(&program.profiles));
    }
    let problem = health.problem.as_ref();
    let hint = problem.map(|failure| match &failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message.to_string(),
    });
    Finding { what: executor.to_owned(), ok: is_ready(health), state, detail, hint }
}

/// Formats names in backquotes, after the word for them.
fn quote(profiles: &[String]) -> String {
    let names: Vec<String> = profiles.iter().map(|name| format!("`{name}`")).collect();
    let word = if names.len() == 1 { "profile" } else { "profiles" };
    format!("{word} {}", names.join(", "))
}
