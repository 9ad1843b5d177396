//! The programs to test: those used by profiles, or else those on `PATH`.

use angelia_executors::{
    EXECUTORS, Registration,
    selftest::{AgentProgram, ScriptedAgent},
};

use crate::{
    assemble::App,
    cli::{doctor, error::CommandError},
};

pub(super) struct Target {
    pub(super) registration: &'static Registration,
    pub(super) agent: &'static dyn ScriptedAgent,
    pub(super) program: AgentProgram,
    /// The profiles that use the program.
    pub(super) profiles: Vec<String>,
}

/// Returns the programs of one or all executors, and of one or all profiles. Does not check whether
/// they are installed.
pub(super) fn find(
    app: &App,
    executor: Option<&str>,
    profile: Option<&str>,
) -> Result<Vec<Target>, CommandError> {
    let known = EXECUTORS.iter().filter_map(|kind| Some((kind, kind.selftest?)));
    let chosen: Vec<_> =
        known.filter(|(kind, _)| executor.is_none_or(|name| name == kind.name)).collect();
    if let (Some(name), true) = (executor, chosen.is_empty()) {
        let known = EXECUTORS.iter().filter(|kind| kind.selftest.is_some());
        let known: Vec<&str> = known.map(|kind| kind.name).collect();
        let hint = format!("one of: {}", known.join(", "));
        return Err(
            CommandError::usage(format!("there is no self-test of `{name}`")).with_hint(hint)
        );
    }
    let mut targets = Vec::new();
    for (registration, agent) in chosen {
        for (spec, profiles) in doctor::programs_of(app, registration.name) {
            let is_wanted = profile.is_none_or(|name| profiles.iter().any(|one| one == name));
            if is_wanted {
                let program = AgentProgram { binary: spec.binary, command: spec.command };
                targets.push(Target { registration, agent, program, profiles });
            }
        }
    }
    match (executor, profile) {
        (Some(executor), Some(profile)) if targets.is_empty() => {
            Err(CommandError::usage(format!("no profile `{profile}` uses the executor {executor}"))
                .with_hint("`angelia config show` prints the profiles"))
        }
        _ => Ok(targets),
    }
}
