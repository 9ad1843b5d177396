//! `angelia channels …`: the configured chat platforms.
//!
//! - [`add`]: walks the owner through setting up a platform.

mod add;

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::AuditAction,
    ports::{Channel, ChannelFinding, CommandRunner},
    task::TaskGroup,
};
use angelia_frontends::chat::ConnectionState;
use clap::Subcommand;
use serde::Serialize;
use tokio::time::timeout;

use super::{
    error::{CommandError, Exit},
    keys::keys_file::KeysFile,
    print,
};
use crate::{
    assemble::{App, HomeStore},
    channels::open_channel,
    client::DaemonClient,
    config::{ChannelFields, ChannelName, Config, remove_entry},
    platforms::{Platform, describe_missing_platform, find_platform},
    records::Records,
    standalone_commands::standalone_commands,
};

/// Time limit for the check of one platform.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// The section of the configuration that contains the channels.
const BLOCK: &str = "channels";

const RESTART_NOTE: &str = "a running daemon uses it after `angelia restart`";

#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsCommand {
    /// List the configured channels and the state of their connections.
    List {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Set up a chat platform, step by step.
    Add(add::AddArgs),
    /// Check that the channels can be used: 0 if all is well, 1 if not.
    Check {
        /// The platform; by default all configured ones.
        platform: Option<String>,
    },
    /// Remove a channel from the configuration; its sessions stay.
    Remove { platform: String },
}

pub(crate) async fn run(
    app: &Arc<App>,
    file: Option<&Path>,
    command: ChannelsCommand,
) -> Result<Exit, CommandError> {
    match command {
        ChannelsCommand::List { json } => list(app, json).await,
        ChannelsCommand::Add(args) => add::run(app, file, &args).await,
        ChannelsCommand::Check { platform } => check(app, platform.as_deref()).await,
        ChannelsCommand::Remove { platform } => remove(app, file, &platform).await,
    }
}

#[derive(Debug, Serialize)]
struct ListedChannel<'a> {
    platform: &'a str,
    /// The state of the connection, if a daemon runs.
    state: Option<String>,
    last_error: Option<String>,
    allow: usize,
    groups: usize,
    approvers: usize,
}

async fn list(app: &Arc<App>, json: bool) -> Result<Exit, CommandError> {
    let status = Records::open(app).await?.status().await?;
    let mut out = Vec::new();
    for (ChannelName(name), fields) in app.config.channels() {
        let live = status.channels.iter().find(|one| one.id == **name);
        let listed = ListedChannel {
            platform: name,
            state: live.map(|one| one.state.clone()),
            last_error: live.and_then(|one| one.last_error.clone()),
            allow: fields.allow.len(),
            groups: fields.groups.len(),
            approvers: fields.approvers.len(),
        };
        if json {
            print::json_line(&listed, &mut out)?;
            continue;
        }
        let state = match (&listed.state, status.daemon.running) {
            (Some(state), _) => state.clone(),
            (None, true) => format!("not used yet: {RESTART_NOTE}"),
            (None, false) => "no daemon is running".to_owned(),
        };
        let shown = format!(
            "{}: {state}; {} may talk, {} groups, {} may decide\n",
            listed.platform, listed.allow, listed.groups, listed.approvers
        );
        out.extend(shown.bytes());
    }
    if out.is_empty() && !json {
        out.extend("no channel is set up; `angelia channels add telegram` adds one\n".bytes());
    }
    print::bytes(&out)
}

async fn check(app: &Arc<App>, platform: Option<&str>) -> Result<Exit, CommandError> {
    app.ensure_valid_config()?;
    let is_wanted = |name: &str| platform.is_none_or(|wanted| wanted == name);
    let commands = standalone_commands(app, "channels")?;
    let checked = examine(app, &commands, is_wanted).await;
    if checked.is_empty() {
        let error = CommandError::new(Exit::Failed, "no such channel is set up");
        return Err(error.with_hint("`angelia channels add telegram` sets one up"));
    }
    let mut text = String::new();
    let mut exit = Exit::Done;
    for (name, findings) in checked {
        for finding in findings {
            let mark = if finding.is_problem { "✗" } else { "✓" };
            if finding.is_problem {
                exit = Exit::Failed;
            }
            let _infallible = writeln!(text, "{mark} {name}: {}", finding.text);
        }
    }
    print::bytes(text.as_bytes())?;
    Ok(exit)
}

/// Asks a platform whether the channel can be used.
pub(crate) async fn check_adapter(adapter: &Arc<dyn Channel>) -> Vec<ChannelFinding> {
    let problem = |text: String| vec![ChannelFinding { is_problem: true, text }];
    match timeout(CHECK_TIMEOUT, adapter.check()).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => problem(error.to_string()),
        Err(_elapsed) => problem("the platform did not answer in time".to_owned()),
    }
}

async fn remove(app: &App, file: Option<&Path>, name: &str) -> Result<Exit, CommandError> {
    let (file, _config) = KeysFile::open(&app.environment, file)?;
    let hint = "remove the channel from the file yourself";
    let changed = remove_entry(&file.read()?, BLOCK, name)
        .map_err(|error| CommandError::new(Exit::Config, error.to_string()).with_hint(hint))?;
    let Some(changed) = changed else {
        return Err(CommandError::usage(format!("the channel {name} is not set up")));
    };
    let is_gone = |config: &Config| !is_set_up(config, name);
    file.write(&changed, is_gone, hint)?;
    let subject = format!("removed the channel {name}");
    HomeStore::record_audit(&app.home, app.record_location(), AuditAction::Configuration, subject)
        .await;
    print::line(&format!("removed {name}; {RESTART_NOTE}"))
}

fn is_set_up(config: &Config, name: &str) -> bool {
    config.channels().keys().any(|known| *known.0 == *name)
}

/// Finds a platform by name. The error lists the known ones.
fn require_platform(name: &str) -> Result<&'static Platform, CommandError> {
    find_platform(name)
        .ok_or_else(|| CommandError::usage(format!("`{name}` {}", describe_missing_platform(name))))
}

/// Asks the platforms of the wanted channels whether they can be used.
pub(crate) async fn examine(
    app: &App,
    commands: &Arc<dyn CommandRunner>,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<(Arc<str>, Vec<ChannelFinding>)> {
    let mut found = Vec::new();
    for (ChannelName(name), fields) in app.config.channels() {
        if is_wanted(name) {
            found.push((Arc::clone(name), examine_one(app, name, fields, commands).await));
        }
    }
    found
}

async fn examine_one(
    app: &App,
    name: &Arc<str>,
    fields: &ChannelFields,
    commands: &Arc<dyn CommandRunner>,
) -> Vec<ChannelFinding> {
    // An adapter that is a program ends with its check.
    let tasks = TaskGroup::new();
    match open_channel(app, name, fields, commands, &tasks).await {
        Ok(open) if open.adapter.is_exclusive() => match find_live(app, name).await {
            Some(finding) => vec![finding],
            None => check_adapter(&open.adapter).await,
        },
        Ok(open) => check_adapter(&open.adapter).await,
        Err(error) => vec![ChannelFinding { is_problem: true, text: error }],
    }
}

/// Returns the state of the daemon's connection, if it has one. A second connection to the same channel would
/// end it.
async fn find_live(app: &App, name: &str) -> Option<ChannelFinding> {
    let client = DaemonClient::connect(&app.home.socket()).await?;
    let status = client.status().await.ok()?;
    let live = status.channels.into_iter().find(|one| one.id == name)?;
    let is_problem = live.state != ConnectionState::Connected.as_str();
    let error = live.last_error.filter(|_| is_problem).unwrap_or_default();
    let text = format!("the daemon has its only connection: {} {error}", live.state);
    Some(ChannelFinding { is_problem, text: text.trim_end().to_owned() })
}
