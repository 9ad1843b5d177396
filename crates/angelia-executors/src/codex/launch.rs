//! Turns a session specification into the environment and arguments of an app-server process, and
//! into the settings of its threads and turns. Pure, except that it reads the user's `config.toml`.
//!
//! One process serves all threads with the same [`AppServerSpec`]; all other settings are sent per
//! thread or per turn. The table shows what Codex asks about in each mode (the engine answers the
//! approvals):
//!
//! | mode | commands | edits | sandbox |
//! |---|---|---|---|
//! | agent mode | asked | asked | `:workspace` |
//! | model mode | there are none | declined | `:read-only` |
//!
//! Codex asks about every call at every permission level, because the engine's rules, protected
//! paths and budgets apply only to calls that Codex asks about.
//!
//! A thread is always *started* read-only and receives its permissions with each turn. Starting it
//! writable would make Codex record the repository as trusted in the user's own configuration.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{Failure, FailureKind, Mode, SessionSpec, SystemPrompt, ToolSet};
use serde_json::{Map, Value, json};

use super::{
    mcp,
    probe::CodexInstallation,
    protocol::outgoing::{ApprovalPolicy, ThreadSettings},
    sealed,
};
use crate::{
    host::ExecutorHost,
    process::{ProcessLaunch, ProcessMark, confinement::Confinement, mark},
    sealed_folder::WORK_FOLDER,
};

pub(super) const CODEX_HOME: &str = "CODEX_HOME";

/// The sandbox profile in which every thread starts; see the module documentation.
const READ_ONLY: &str = ":read-only";
const WORKSPACE: &str = ":workspace";

/// Makes Codex unload a thread as soon as its last subscriber leaves, so that a resumed thread gets
/// the settings of that moment.
const UNLOAD_AT_ONCE: &str = "thread_unload_delay_secs=0";
/// Keeps the process from contacting public hosts on its own, and from lingering when it exits.
const NO_PLUGINS: &str = "features.plugins=false";

/// Feature switches for Codex's own tools. All are turned off for a session without tools.
const TOOL_FEATURES: [&str; 13] = [
    "shell_tool",
    "unified_exec",
    "view_image",
    "multi_agent",
    "goals",
    "image_generation",
    "sleep_tool",
    "tool_suggest",
    "apps",
    "browser_use",
    "computer_use",
    "memories",
    "hooks",
];

/// Returns the complete environment of the program. `CODEX_HOME` is the profile's value, or else
/// the one in Angelia's own environment. If neither is set, Codex uses its default inside `HOME`.
pub(super) fn environment(
    host: &ExecutorHost,
    spec: &SessionSpec,
    mark: &ProcessMark,
) -> Result<BTreeMap<OsString, OsString>, Failure> {
    let ours = host.environment.get(OsStr::new(CODEX_HOME));
    let ours = ours.and_then(|value| value.to_str()).filter(|_| !spec.env.contains_key(CODEX_HOME));
    let ours: Vec<(&str, &str)> = ours.into_iter().map(|value| (CODEX_HOME, value)).collect();
    host.child_environment(spec, &ours, mark)
}

/// Returns the folder in which Codex keeps its configuration and its conversations.
pub(super) fn codex_home(environment: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let set = |name: &str| {
        let value = environment.get(OsStr::new(name))?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    };
    set(CODEX_HOME).or_else(|| Some(set("HOME")?.join(".codex")))
}

/// Everything that two threads must share for one app-server process to serve both.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct AppServerSpec {
    program: PathBuf,
    version: Arc<str>,
    /// Excludes Angelia's process mark, which differs for every process.
    environment: BTreeMap<OsString, OsString>,
    plugins: bool,
    /// Set in model mode.
    confinement: Option<Confinement>,
}

impl AppServerSpec {
    pub(super) fn of(
        host: &ExecutorHost,
        spec: &SessionSpec,
        installation: &CodexInstallation,
    ) -> Result<Self, Failure> {
        let mut environment = environment(host, spec, &host.fresh_mark()?)?;
        environment.remove(OsStr::new(mark::MARK_VARIABLE));
        let mut confinement = None;
        if spec.mode == Mode::Model {
            let sealed = sealed::environment(host, environment, &installation.path)?;
            (environment, confinement) = (sealed.0, Some(sealed.1));
        }
        let config = codex_home(&environment).map(|home| home.join("config.toml"));
        let config = config.and_then(|path| std::fs::read_to_string(path).ok());
        Ok(Self {
            program: installation.path.clone(),
            version: Arc::clone(&installation.version),
            environment,
            plugins: config.is_some_and(|text| wants_plugins(&text)),
            confinement,
        })
    }

    /// Returns the launch of a process. In model mode, the process works in a folder without any of
    /// the owner's files.
    pub(super) fn launch(&self, host: &ExecutorHost, mark: ProcessMark) -> ProcessLaunch {
        let launch = ProcessLaunch {
            program: self.program.clone(),
            args: self.arguments(),
            cwd: match self.confinement {
                None => host.work_dir.clone(),
                Some(_) => WORK_FOLDER.into(),
            },
            env: self.process_environment(&mark),
            mark,
            ledger: host.ledger.clone(),
        };
        match self.confinement.clone() {
            None => launch,
            Some(confinement) => confinement.apply(&host.current_exe, launch),
        }
    }

    fn process_environment(&self, mark: &ProcessMark) -> BTreeMap<OsString, OsString> {
        let (name, value) = mark.env_variable();
        let mut environment = self.environment.clone();
        environment.insert(name.into(), value.into());
        environment
    }

    pub(super) fn base_environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["app-server", "-c", UNLOAD_AT_ONCE];
        if !self.plugins {
            arguments.extend(["-c", NO_PLUGINS]);
        }
        arguments.into_iter().map(OsString::from).collect()
    }
}

/// Omits the environment because it holds secrets.
impl std::fmt::Debug for AppServerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppServerSpec")
            .field("program", &self.program)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Reports whether the user has configured plugins or mentions them in any way.
fn wants_plugins(config: &str) -> bool {
    config.lines().map(str::trim_start).any(|line| {
        line.starts_with("[plugins")
            || line.starts_with("plugins")
            || line.starts_with("[marketplaces")
    })
}

/// Extensions in the user's own configuration that model mode must turn off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UserExtensions<'a> {
    /// The names of MCP servers.
    pub(super) servers: &'a [Box<str>],
    /// The paths of skills. A prompt can activate a skill by naming it.
    pub(super) skills: &'a [Box<str>],
}

/// Returns the settings with which a thread is started or resumed.
pub(super) fn thread_settings<'a>(
    spec: &'a SessionSpec,
    mark: &ProcessMark,
    found: UserExtensions<'_>,
) -> Result<ThreadSettings<'a>, Failure> {
    let (base, developer) = match (spec.mode, &spec.system) {
        (Mode::Agent, SystemPrompt::Default) => (None, None),
        (Mode::Agent, SystemPrompt::Append(text)) => (None, Some(&**text)),
        // In model mode, the model sees only the caller's prompt, or none if the caller sent none.
        (Mode::Model, SystemPrompt::Default) => (Some(""), None),
        (_, SystemPrompt::Replace(text) | SystemPrompt::Append(text)) => (Some(&**text), None),
    };
    Ok(ThreadSettings {
        cwd: Some(&spec.cwd),
        model: spec.model.as_deref(),
        permissions: Some(READ_ONLY),
        approval_policy: Some(ApprovalPolicy::Untrusted),
        config: thread_config(spec, mark, found)?,
        base_instructions: base,
        developer_instructions: developer,
        ..ThreadSettings::default()
    })
}

/// Returns the sandbox profile of a turn.
pub(super) fn turn_permissions(spec: &SessionSpec) -> &'static str {
    match spec.mode {
        Mode::Model => READ_ONLY,
        Mode::Agent => WORKSPACE,
    }
}

fn thread_config(
    spec: &SessionSpec,
    mark: &ProcessMark,
    found: UserExtensions<'_>,
) -> Result<BTreeMap<String, Value>, Failure> {
    let mut config = BTreeMap::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    set("projects", project_trust(&spec.cwd, spec.trust));
    if !spec.trust {
        set("project_doc_max_bytes", json!(0));
    }
    let has_tools = match &spec.tools {
        ToolSet::Default | ToolSet::All => true,
        ToolSet::None => false,
        ToolSet::List(_) => {
            let message = "Codex cannot be limited to a list of tools";
            return Err(Failure::new(FailureKind::Invalid, message).with_hint(
                "set `tools: default`, and name what it must not do in `disallowed_tools`",
            ));
        }
    };
    if !has_tools {
        let off = TOOL_FEATURES.iter().map(|name| ((*name).to_owned(), json!(false)));
        set("features", Value::Object(off.collect()));
        set("agents", json!({"enabled": false}));
    }
    if !has_tools || disallows(spec, &["WebSearch", "web_search"]) {
        set("web_search", json!("disabled"));
    }
    if spec.mode == Mode::Model {
        for part in ["environment_context", "permissions_instructions", "apps_instructions"] {
            set(&format!("include_{part}"), json!(false));
        }
        set("include_collaboration_mode_instructions", json!(false));
        let off = |path| json!({"path": path, "enabled": false});
        let off: Vec<Value> = found.skills.iter().map(off).collect();
        set("skills", json!({"include_instructions": false, "config": off}));
    }
    let (variable, value) = mark.env_variable();
    if has_tools {
        set("shell_environment_policy", json!({"set": {variable: value}}));
    }
    // Codex gives MCP servers a minimal environment, so each server's `env` must carry the mark.
    let mut servers = Map::new();
    for name in found.servers {
        let own =
            if has_tools { json!({"env": {variable: value}}) } else { json!({"enabled": false}) };
        servers.insert(name.to_string(), own);
    }
    for (name, server) in &spec.mcp_servers {
        servers.insert(name.to_string(), mcp::to_thread_server(name, server, mark)?);
    }
    if !servers.is_empty() {
        set("mcp_servers", Value::Object(servers));
    }
    Ok(config)
}

/// Returns the `projects` setting, which determines whether the repository's own configuration
/// applies. It overrides the user's configuration for this thread. Codex looks up both the folder
/// and the root of its repository, by the given path and by the canonical path.
fn project_trust(cwd: &Path, trust: bool) -> Value {
    let level = json!({"trust_level": if trust { "trusted" } else { "untrusted" }});
    let real = cwd.canonicalize().ok();
    let folders = [Some(cwd), real.as_deref()].into_iter().flatten();
    let roots = folders.flat_map(|folder| {
        let root = folder.ancestors().find(|above| above.join(".git").exists());
        [Some(folder), root].into_iter().flatten()
    });
    roots
        .map(|folder| (folder.to_string_lossy().into_owned(), level.clone()))
        .collect::<Map<_, _>>()
        .into()
}

fn disallows(spec: &SessionSpec, tools: &[&str]) -> bool {
    let rules = spec.permissions.disallowed.iter().map(ToString::to_string);
    rules.into_iter().any(|rule| rule == "*" || tools.contains(&rule.as_str()))
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
