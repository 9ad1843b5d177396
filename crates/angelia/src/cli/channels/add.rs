//! Walks the owner through setting up a platform: its secrets, a live check of them, and the owner's id
//! there.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::AuditAction,
    ports::{
        Channel, ConnectionErrorKind, EventInbox, InboundEvent, InboundKind, Sender, StoreFuture,
    },
};
use clap::Args;
use tokio::{sync::Notify, time::timeout};

use super::{BLOCK, CHECK_TIMEOUT, RESTART_NOTE, is_set_up, require_platform};
use crate::{
    assemble::{App, HomeStore},
    cli::{
        error::{CommandError, Exit},
        keys::keys_file::KeysFile,
        print,
    },
    config::{Config, add_entry, new_token},
    platforms::{AdapterParts, Platform, PlatformSecret},
};

/// How long the owner may take to send the code.
const PAIRING_TIMEOUT: Duration = Duration::from_mins(10);

const CODE_LENGTH: usize = 6;

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The platform, such as `telegram`.
    platform: String,

    /// The variable that contains a secret; it must be set where the daemon is started. KEY may be omitted if
    /// the platform has only one secret.
    #[arg(long, value_name = "[KEY=]NAME")]
    secret_env: Vec<String>,

    /// The file that contains a secret.
    #[arg(long, value_name = "[KEY=]FILE")]
    secret_file: Vec<String>,

    /// Another server that speaks the same protocol.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// Your own id on the platform; without it you are asked to send the bot a code.
    #[arg(long, value_name = "ID")]
    user: Option<String>,

    /// The profile for its turns.
    #[arg(short, long)]
    profile: Option<String>,

    /// The directory that its agents work in.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(super) async fn run(
    app: &App,
    file: Option<&Path>,
    args: &AddArgs,
) -> Result<Exit, CommandError> {
    let platform = require_platform(&args.platform)?;
    let (file, config) = KeysFile::open(&app.environment, file)?;
    if is_set_up(&config, platform.name) {
        let message = format!("the channel {} is set up already", platform.name);
        return Err(CommandError::usage(message)
            .with_hint("edit it in config.yaml, or remove it with `angelia channels remove`"));
    }
    let sources = find_sources(platform, args)?;
    let mut secrets = BTreeMap::new();
    for (secret, source) in &sources {
        secrets.insert(secret.key, source.read(app)?);
    }
    let base_url = find_server(app, platform, args)?;
    let parts = AdapterParts { secrets: &secrets, base_url: base_url.as_deref() };
    let adapter =
        (platform.build)(&parts).map_err(|error| CommandError::new(Exit::Failed, error))?;
    check_live(&adapter).await?;
    let owner = match &args.user {
        Some(id) => Sender::new(id.as_str(), ""),
        None => wait_for_owner(adapter.as_ref()).await?,
    };
    let mut lines = Vec::new();
    for (secret, source) in &sources {
        lines.push(source.yaml(app, platform, secret)?);
    }
    lines.extend(base_url.map(|url| format!("base_url: {url}")));
    lines.push(format!("allow: [{:?}]", owner.id));
    lines.push(format!("approvers: [{:?}]", owner.id));
    lines.extend(args.profile.as_ref().map(|profile| format!("profile: {profile}")));
    if let Some(cwd) = &args.cwd {
        let cwd = std::path::absolute(cwd).map_err(CommandError::internal)?;
        lines.push(format!("cwd: {:?}", cwd.display().to_string()));
    }
    let hint = format!(
        "write this into the file yourself:\n{BLOCK}:\n  {}:\n    {}",
        platform.name,
        lines.join("\n    ")
    );
    let changed = add_entry(&file.read()?, BLOCK, platform.name, &lines)
        .map_err(|error| CommandError::new(Exit::Config, error.to_string()).with_hint(&*hint))?;
    file.write(&changed, |config: &Config| is_set_up(config, platform.name), &hint)?;
    let subject = format!("added the channel {}", platform.name);
    HomeStore::record_audit(&app.home, app.record_location(), AuditAction::Configuration, subject)
        .await;
    let who = if owner.name.is_empty() {
        owner.id.to_string()
    } else {
        format!("{} ({})", owner.name, owner.id)
    };
    print::line(&format!("added {}; {who} may talk and decide; {RESTART_NOTE}", platform.name))
}

/// Asks the platform whether the secrets are right, before anything is written.
async fn check_live(adapter: &Arc<dyn Channel>) -> Result<(), CommandError> {
    match timeout(CHECK_TIMEOUT, adapter.check()).await {
        Ok(Ok(findings)) => {
            for finding in findings {
                print::note(&finding.text);
            }
            Ok(())
        }
        Ok(Err(error)) if error.kind == ConnectionErrorKind::Refused => {
            Err(CommandError::new(Exit::NotLoggedIn, error.to_string()))
        }
        Ok(Err(error)) => Err(CommandError::new(Exit::TryLater, error.to_string())),
        Err(_elapsed) => {
            Err(CommandError::new(Exit::TryLater, "the platform did not answer in time"))
        }
    }
}

/// Returns the server. Asks for it if the platform has no fixed server and none was named.
fn find_server(
    app: &App,
    platform: &Platform,
    args: &AddArgs,
) -> Result<Option<String>, CommandError> {
    let Some(server) = platform.server.as_ref().filter(|_| args.base_url.is_none()) else {
        return Ok(args.base_url.clone());
    };
    match app.environment.non_empty(server.variable) {
        Some(named) => Ok(Some(named.to_string_lossy().trim().to_owned())),
        None => ask(server.label, "name it with --base-url").map(Some),
    }
}

/// Returns where each secret comes from. Asks for those that the arguments do not name.
fn find_sources(
    platform: &'static Platform,
    args: &AddArgs,
) -> Result<Vec<(&'static PlatformSecret, SecretSource)>, CommandError> {
    let mut given: Vec<(Option<&str>, SecretSource)> = Vec::new();
    for text in &args.secret_env {
        let (key, name) = split_key(platform, text);
        given.push((key, SecretSource::Env(name.to_owned())));
    }
    for text in &args.secret_file {
        let (key, path) = split_key(platform, text);
        let path = std::path::absolute(path).map_err(CommandError::internal)?;
        given.push((key, SecretSource::File(path)));
    }
    if given.len() > 1 && given.iter().any(|(key, _)| key.is_none()) {
        let known: Vec<&str> = platform.secrets.iter().map(|secret| secret.key).collect();
        let message = format!("{} has several secrets: {}", platform.name, known.join(", "));
        return Err(CommandError::usage(message).with_hint("write KEY=NAME for each"));
    }
    if given.is_empty() {
        print::note(platform.steps);
    }
    let mut sources = Vec::new();
    for secret in platform.secrets {
        let is_its = |(key, _): &(Option<&str>, SecretSource)| match key {
            Some(key) => *key == secret.key,
            None => !secret.is_optional,
        };
        match given.iter().position(is_its) {
            Some(index) => sources.push((secret, given.remove(index).1)),
            None if secret.is_optional => {}
            None => sources.push((
                secret,
                SecretSource::Typed(ask(
                    secret.label,
                    "name it with --secret-env or --secret-file",
                )?),
            )),
        }
    }
    Ok(sources)
}

/// Splits `KEY=REST` if KEY is one of the platform's secrets.
fn split_key<'a>(platform: &Platform, text: &'a str) -> (Option<&'a str>, &'a str) {
    match text.split_once('=') {
        Some((key, rest)) if platform.secrets.iter().any(|secret| secret.key == key) => {
            (Some(key), rest)
        }
        _ => (None, text),
    }
}

/// Where a secret comes from.
enum SecretSource {
    Env(String),
    File(PathBuf),
    /// Typed by the owner. It will be written to a separate file.
    Typed(String),
}

impl SecretSource {
    fn read(&self, app: &App) -> Result<String, CommandError> {
        let text = match self {
            Self::Env(name) => match app.environment.non_empty(name) {
                Some(value) => value.to_string_lossy().into_owned(),
                None => {
                    return Err(CommandError::usage(format!("the variable `{name}` is not set")));
                }
            },
            Self::File(path) => std::fs::read_to_string(path).map_err(|error| {
                CommandError::usage(format!("cannot read {}: {error}", path.display()))
            })?,
            Self::Typed(text) => text.clone(),
        };
        Ok(text.trim().to_owned())
    }

    /// Returns the secret's line for the configuration. Writes a typed secret to its file.
    fn yaml(
        &self,
        app: &App,
        platform: &Platform,
        secret: &PlatformSecret,
    ) -> Result<String, CommandError> {
        let key = secret.key;
        let path = match self {
            Self::Env(name) => return Ok(format!("{key}: {{env: {name}}}")),
            Self::File(path) => path.clone(),
            Self::Typed(text) => {
                app.home.prepare()?;
                let path = app.home.dir().join(format!("{}.{key}", platform.name));
                write_private(&path, text).map_err(|error| {
                    CommandError::new(
                        Exit::Failed,
                        format!("cannot write {}: {error}", path.display()),
                    )
                })?;
                path
            }
        };
        Ok(format!("{key}: {{file: {:?}}}", path.display().to_string()))
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    writeln!(file, "{}", text.trim())?;
    file.sync_all()
}

fn ask(label: &str, hint: &str) -> Result<String, CommandError> {
    print::note(&format!("{label}: "));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(CommandError::internal)?;
    match line.trim() {
        "" => Err(CommandError::usage("nothing was written").with_hint(hint)),
        text => Ok(text.to_owned()),
    }
}

/// Waits until somebody sends the code, which only this terminal shows.
async fn wait_for_owner(adapter: &dyn Channel) -> Result<Sender, CommandError> {
    let code: String =
        new_token().chars().take(CODE_LENGTH).collect::<String>().to_ascii_uppercase();
    print::note(&format!("now send the bot this code in a direct message: {code}"));
    let inbox = CodeInbox { code, found: Mutex::new(None), arrived: Notify::new() };
    let waiting = async {
        tokio::select! {
            error = adapter.receive(None, &inbox) => Err(CommandError::new(Exit::Failed, error.to_string())),
            () = inbox.arrived.notified() => Ok(()),
        }
    };
    let waited = timeout(PAIRING_TIMEOUT, waiting).await;
    waited.map_err(|_| CommandError::new(Exit::TryLater, "the code did not arrive"))??;
    let found = inbox.found.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.ok_or_else(|| CommandError::internal("the code arrived without a sender"))
}

/// Looks for a code in direct messages.
struct CodeInbox {
    code: String,
    found: Mutex<Option<Sender>>,
    arrived: Notify,
}

impl EventInbox for CodeInbox {
    fn accept(&self, events: Vec<InboundEvent>, _cursor: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            for event in events {
                let InboundKind::Message(message) = &event.kind else { continue };
                if message.is_direct && message.text.trim().eq_ignore_ascii_case(&self.code) {
                    let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                    *found = Some(event.sender);
                    self.arrived.notify_one();
                }
            }
            Ok(())
        })
    }

    fn note_alive(&self) {}
}
