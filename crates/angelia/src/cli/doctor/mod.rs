//! `angelia doctor`: reports which agents are installed, their versions and logins, the daemon, and
//! what to do.
//!
//! - [`agents`]: the agents, and the profiles that use them.
//! - [`mcp_servers`]: the configured MCP servers.

mod agents;
mod mcp_servers;

use std::{fmt::Write as _, sync::Arc};

use serde::Serialize;

use self::agents::AgentReport;
pub(super) use self::agents::{all_specs, programs_of, spec_for};
use super::{
    agent_use::ensure_owner_works_alone,
    args::DoctorArgs,
    channels,
    error::{CommandError, Exit},
    markdown::wrap_plain,
    print,
    view::View,
};
use crate::{
    assemble::{App, HomeStore, StandaloneExecutors},
    bus::pid_file,
    client::DaemonClient,
    record_location::RecordLocation,
    standalone_commands::standalone_commands,
};

/// One line of the report.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    state: FindingState,
    detail: String,
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum FindingState {
    Good,
    /// Missing, but not needed.
    Optional,
    Bad,
}

impl FindingState {
    const fn mark(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Optional => "-",
            Self::Bad => "✗",
        }
    }
}

impl Finding {
    fn new(what: &str, state: FindingState, detail: impl Into<String>) -> Self {
        let ok = state != FindingState::Bad;
        Self { what: what.to_owned(), ok, state, detail: detail.into(), hint: None }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

pub(crate) async fn run(app: &Arc<App>, args: &DoctorArgs) -> Result<Exit, CommandError> {
    let about = format!("{}, home {}", env!("CARGO_PKG_VERSION"), app.home.dir().display());
    let mut findings = vec![Finding::new("angelia", FindingState::Good, about)];
    findings.extend(config_findings(app));
    findings.extend(record_finding(app));
    findings.extend(daemon_findings(app).await);
    findings.extend(channel_findings(app).await);
    let executors = StandaloneExecutors::start(app, "doctor")?;
    let agents = agents::examine(app, executors.all(), args.deep).await;
    let servers = mcp_servers::examine(all_specs(app), &executors.host, args.deep).await;
    executors.stop().await;
    let exit = if agents.ready.is_empty() { Exit::Failed } else { Exit::Done };
    let end = conclusion(&agents);
    findings.extend(agents.findings);
    findings.extend(servers);
    if args.json {
        let text = serde_json::to_string(&findings).map_err(CommandError::internal)?;
        print::line(&text)?;
    } else {
        let view = View::of_stdout(&app.environment);
        print::bytes(report(&findings, &end, view.width).as_bytes())?;
    }
    Ok(exit)
}

fn config_findings(app: &App) -> Vec<Finding> {
    let path = app.live_config.source().path();
    let state = match &app.config_error {
        Some(error) => Finding::new("config", FindingState::Bad, error.to_string()),
        None if path.exists() => {
            Finding::new("config", FindingState::Good, path.display().to_string())
        }
        None => Finding::new("config", FindingState::Good, "no file, so every default applies")
            .with_hint("`angelia config init` writes one to edit"),
    };
    let warnings = app.config.warnings().iter();
    let warnings =
        warnings.map(|text| Finding::new("config", FindingState::Good, text.to_string()));
    std::iter::once(state).chain(warnings).collect()
}

/// Returns whether the record can be opened, if it is on a server.
fn record_finding(app: &App) -> Option<Finding> {
    app.config.fleet()?;
    // An agent's process does not have the password.
    ensure_owner_works_alone(&app.environment).ok()?;
    let place = match app.record_location() {
        Ok(place) => place,
        Err(error) => return Some(Finding::new("record", FindingState::Bad, error.to_string())),
    };
    let RecordLocation::Database { address, machine } = &place else { return None };
    let found = format!("{address}, as machine `{}`", machine.name);
    Some(match HomeStore::open_for_reading(app, "doctor") {
        Ok(_opened) => Finding::new("record", FindingState::Good, found),
        Err(error) => Finding::new("record", FindingState::Bad, error.to_string()),
    })
}

/// Returns what the chat platforms report about the configured channels.
async fn channel_findings(app: &App) -> Vec<Finding> {
    // This sends the owner's tokens, and may run the commands that print them.
    if app.config.channels().is_empty() || ensure_owner_works_alone(&app.environment).is_err() {
        return Vec::new();
    }
    let commands = match standalone_commands(app, "doctor") {
        Ok(commands) => commands,
        Err(error) => return vec![Finding::new("channels", FindingState::Bad, error.to_string())],
    };
    let mut findings = Vec::new();
    for (platform, found) in channels::examine(app, &commands, |_| true).await {
        findings.extend(found.into_iter().map(|one| {
            let state = if one.is_problem { FindingState::Bad } else { FindingState::Good };
            Finding::new(&platform, state, one.text)
        }));
    }
    findings
}

/// Returns the findings about the daemon. The process that holds the pid file is the daemon, even
/// if it does not answer.
async fn daemon_findings(app: &App) -> Vec<Finding> {
    let client = DaemonClient::connect(&app.home.socket()).await;
    let hello = match &client {
        Some(client) => client.hello().await.ok(),
        None => None,
    };
    let holder = pid_file::holder(&app.home.pid_file());
    let Some(hello) = hello else {
        let finding = match holder {
            Some(pid) => Finding::new(
                "daemon",
                FindingState::Bad,
                format!("running (process {pid}), but it does not answer"),
            )
            .with_hint("it may be starting or stopping; its log says more"),
            None => Finding::new("daemon", FindingState::Optional, "not running")
                .with_hint("`angelia start` starts it, and it keeps agents warm"),
        };
        return vec![finding];
    };
    let pid = hello.pid.or(holder).map_or_else(String::new, |pid| format!(" (process {pid})"));
    let detail = format!("running, used by every command{pid}");
    let daemon = Finding::new("daemon", FindingState::Good, detail);
    let own = env!("CARGO_PKG_VERSION");
    let mut findings = vec![if hello.version == own {
        daemon
    } else {
        daemon.with_hint(format!(
            "it is version {}, and this program is {own}; restart it to use this version",
            hello.version
        ))
    }];
    // An agent's process may not read the configuration, and an older daemon cannot show it.
    let config = match &client {
        Some(client) => client.config_state().await.ok(),
        None => None,
    };
    let Some(config) = config else { return findings };
    if let Some(error) = config.error {
        let detail = format!("the daemon does not use {}: {error}", config.path);
        findings.push(Finding::new("config", FindingState::Bad, detail));
    } else if !config.waiting.is_empty() {
        let detail = format!("waits for your confirmation: {}", config.waiting.join(", "));
        let hint = "`angelia config reload`; what still waits then needs a restart of the daemon";
        findings.push(Finding::new("config", FindingState::Good, detail).with_hint(hint));
    }
    findings
}

/// Number of columns before the text of a finding.
const MARGIN: usize = 11;

fn report(findings: &[Finding], end: &str, width: usize) -> String {
    let mut text = String::new();
    for finding in findings {
        let mut margin = format!("{} {:8} ", finding.state.mark(), finding.what);
        for part in std::iter::once(&finding.detail).chain(&finding.hint) {
            for line in wrap_plain(part, width.saturating_sub(MARGIN)) {
                // Writing to a string cannot fail.
                let _infallible = writeln!(text, "{margin}{line}");
                margin = " ".repeat(MARGIN);
            }
        }
    }
    text.push('\n');
    for line in wrap_plain(end, width) {
        let _infallible = writeln!(text, "{line}");
    }
    text
}

/// Returns advice for the next step.
fn conclusion(agents: &AgentReport) -> String {
    let Some((first, _)) = agents.ready.first() else {
        let installed = agents.findings.iter().find(|finding| {
            finding.state != FindingState::Good && finding.detail.contains("not logged in")
        });
        return match installed {
            Some(finding) => format!(
                "No profile is ready: log in to {}, then run `angelia doctor` again.",
                finding.what
            ),
            // The demo agent does not replace an agent that a profile names.
            None if agents.findings.iter().any(|finding| finding.state == FindingState::Bad) => {
                "No profile is ready: fix what is marked ✗, then run `angelia doctor` again."
                    .to_owned()
            }
            None => "No coding agent is ready: install and log in to Claude Code or Codex. Until \
                     then, with `executor: auto`, `angelia run` uses the built-in demo agent."
                .to_owned(),
        };
    };
    let names = agents.ready.iter().map(|(name, executor)| format!("`{name}` ({executor})"));
    let names: Vec<String> = names.collect();
    let word = if names.len() == 1 { "profile" } else { "profiles" };
    let option = if agents.is_default_ready { String::new() } else { format!("-p {first} ") };
    format!("Ready: {word} {}. Try `angelia run {option}\"…\"`.", names.join(", "))
}
