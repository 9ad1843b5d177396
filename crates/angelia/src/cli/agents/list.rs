//! Lists the agents on this machine.

use std::path::PathBuf;

use angelia_core::{model::SessionSpec, ports::LoginState};
use angelia_executors::EXECUTORS;
use serde::Serialize;

use crate::{
    assemble::{App, StandaloneExecutors},
    cli::{
        doctor,
        error::{CommandError, Exit},
        print,
        table::{Column, Table},
    },
    config::AgentVersion,
};

#[derive(Debug, Serialize)]
struct AgentEntry {
    name: &'static str,
    version: String,
    /// `angelia` if installed by `agents install`, `path` if found on `PATH`, `config` for a configured path.
    source: &'static str,
    login: &'static str,
    profiles: Vec<String>,
    path: PathBuf,
}

pub(super) async fn run(app: &App, json: bool) -> Result<Exit, CommandError> {
    let executors = StandaloneExecutors::start(app, "agents")?;
    let mut entries = Vec::new();
    for (executor, registration) in executors.all().iter().zip(EXECUTORS) {
        for (spec, profiles) in programs(app, registration.name) {
            let health = executor.inspect(&spec).await;
            // The demo agent is part of Angelia.
            let Some(installed) =
                health.installation.filter(|_| health.login != LoginState::NotNeeded)
            else {
                continue;
            };
            entries.push(AgentEntry {
                name: registration.name,
                version: installed.version.to_string(),
                source: source(app, &spec),
                login: login(&health.login),
                profiles,
                path: installed.path,
            });
        }
    }
    executors.stop().await;
    if json {
        let mut lines = Vec::new();
        for entry in &entries {
            print::json_line(entry, &mut lines)?;
        }
        return print::bytes(&lines);
    }
    if entries.is_empty() {
        print::note("no agent is installed; `angelia agents install claude` installs one");
    }
    print::bytes(&table(entries).render())
}

/// Returns the programs that profiles use, the one on `PATH`, and the installed versions.
fn programs(app: &App, executor: &'static str) -> Vec<(SessionSpec, Vec<String>)> {
    let mut programs = doctor::programs_of(app, executor);
    let mut add = |binary: Option<PathBuf>| {
        if programs.iter().all(|(spec, _)| spec.binary != binary) {
            let mut spec = SessionSpec::new(executor, app.home.work_dir());
            spec.binary = binary;
            programs.push((spec, Vec::new()));
        }
    };
    add(None);
    let installed = AgentVersion::installed(&app.home).into_iter();
    for version in installed.filter(|version| version.registration.name == executor) {
        add(Some(version.launcher(&app.home)));
    }
    programs
}

fn source(app: &App, spec: &SessionSpec) -> &'static str {
    match &spec.binary {
        Some(path) if path.starts_with(app.home.installed_agents_dir()) => "angelia",
        Some(path) if path.components().count() > 1 => "config",
        _ => "path",
    }
}

fn login(state: &LoginState) -> &'static str {
    match state {
        LoginState::LoggedIn { .. } => "logged in",
        LoginState::LoggedOut => "not logged in",
        LoginState::Unknown => "unknown",
        LoginState::NotNeeded => "not needed",
    }
}

fn table(entries: Vec<AgentEntry>) -> Table<6> {
    let column = |header, min_width, rank| Column { header, min_width, rank };
    let mut table = Table::new([
        column("NAME", None, 0),
        column("VERSION", None, 1),
        column("FROM", None, 3),
        column("LOGIN", None, 2),
        column("PROFILES", Some(8), 4),
        column("PROGRAM", Some(12), 5),
    ]);
    for entry in entries {
        table.push([
            entry.name.to_owned(),
            entry.version,
            entry.source.to_owned(),
            entry.login.to_owned(),
            entry.profiles.join(", "),
            entry.path.display().to_string(),
        ]);
    }
    table
}
