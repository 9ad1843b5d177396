//! Builds the adapters of the configured channels. A channel that cannot be built is reported and skipped, so
//! that it stops neither the other channels nor the daemon.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use angelia_core::{
    ports::{Channel, CommandProgram, CommandRunner, CommandSpec},
    task::TaskGroup,
};
use angelia_frontends::chat::{
    ChannelSettings,
    program::{ProgramChannel, ProgramChannelParts},
};

use crate::{
    assemble::App,
    clock::SystemClock,
    config::{
        AgentCommand, ChannelFields, ChannelName, SecretSetting, VariableName, channel_settings,
        expand_home,
    },
    platforms::{AdapterParts, PlatformSecret, PlatformServer, find_platform},
};

/// Time limit for a command that prints a secret.
const SECRET_COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The channels of a configuration.
#[derive(Default)]
pub(crate) struct OpenChannels {
    pub(crate) adapters: Vec<Arc<dyn Channel>>,
    pub(crate) settings: BTreeMap<Arc<str>, ChannelSettings>,
    /// The platforms that cannot be used, with the reasons.
    pub(crate) unusable: Vec<(Arc<str>, String)>,
    /// The tokens, which must never be printed.
    pub(crate) secrets: Vec<String>,
}

impl OpenChannels {
    /// Builds every configured channel.
    pub(crate) async fn open(
        app: &App,
        commands: &Arc<dyn CommandRunner>,
        tasks: &TaskGroup,
    ) -> Self {
        let mut open = Self::default();
        for (ChannelName(name), fields) in app.config.channels() {
            match open_channel(app, name, fields, commands, tasks).await {
                Ok(OpenChannel { adapter, secrets }) => {
                    open.adapters.push(adapter);
                    open.secrets.extend(secrets);
                    let settings = channel_settings(name, fields, &app.environment);
                    open.settings.insert(Arc::clone(name), settings);
                }
                Err(error) => {
                    tracing::warn!("the channel {name} cannot be used: {error}");
                    open.unusable.push((Arc::clone(name), error));
                }
            }
        }
        open
    }
}

/// A channel that was built.
pub(crate) struct OpenChannel {
    pub(crate) adapter: Arc<dyn Channel>,
    /// Its secrets, which must never be printed.
    pub(crate) secrets: Vec<String>,
}

pub(crate) async fn open_channel(
    app: &App,
    name: &Arc<str>,
    fields: &ChannelFields,
    commands: &Arc<dyn CommandRunner>,
    tasks: &TaskGroup,
) -> Result<OpenChannel, String> {
    if let Some(AgentCommand(words)) = &fields.command {
        let mut env = Vec::new();
        for (VariableName(variable), source) in &fields.env {
            let value = read_secret(app, source, &**commands).await;
            let value = value.map_err(|error| format!("the variable {variable}: {error}"))?;
            env.push((Arc::clone(variable), Arc::from(value)));
        }
        let secrets = env.iter().map(|(_, value): &(_, Arc<str>)| value.to_string()).collect();
        let adapter = ProgramChannel::new(ProgramChannelParts {
            name: Arc::clone(name),
            command: words.clone(),
            env,
            commands: Arc::clone(commands),
            clock: Arc::new(SystemClock),
            tasks: tasks.clone(),
        });
        return Ok(OpenChannel { adapter: Arc::new(adapter), secrets });
    }
    let platform = find_platform(name).ok_or_else(|| format!("there is no platform `{name}`"))?;
    let mut secrets = BTreeMap::new();
    for wanted in platform.secrets {
        let value = if let Some(source) = fields.secret(wanted.key) {
            Some(read_secret(app, source, &**commands).await?)
        } else {
            let value = app.environment.non_empty(wanted.variable);
            value.and_then(|value| clean(&value.to_string_lossy()))
        };
        match value {
            Some(value) => drop(secrets.insert(wanted.key, value)),
            None if wanted.is_optional => {}
            None => {
                let PlatformSecret { key, variable, label, .. } = wanted;
                return Err(format!(
                    "{label} is missing; set `channels.{name}.{key}`, or the variable {variable}"
                ));
            }
        }
    }
    let base_url = match (&fields.base_url, &platform.server) {
        (Some(url), _) => Some(url.0.to_string()),
        (None, Some(PlatformServer { variable, label })) => {
            let value = app.environment.non_empty(variable);
            let value = value.and_then(|value| clean(&value.to_string_lossy()));
            Some(value.ok_or_else(|| {
                format!(
                    "{label} is missing; set `channels.{name}.base_url`, or the variable {variable}"
                )
            })?)
        }
        (None, None) => None,
    };
    let parts = AdapterParts { secrets: &secrets, base_url: base_url.as_deref() };
    let adapter = (platform.build)(&parts)?;
    Ok(OpenChannel { adapter, secrets: secrets.into_values().collect() })
}

/// Reads a secret from the place that the configuration names.
pub(crate) async fn read_secret(
    app: &App,
    source: &SecretSetting,
    commands: &dyn CommandRunner,
) -> Result<String, String> {
    let text = match source {
        SecretSetting::Env(name) => {
            let value = app.environment.non_empty(&name.0);
            let value = value.ok_or_else(|| format!("the variable `{}` is not set", name.0))?;
            value.to_string_lossy().into_owned()
        }
        SecretSetting::File(path) => {
            let path = expand_home(&path.0, app.environment.home().as_deref());
            let path = path.ok_or("the path starts with ~/ and HOME is not set")?;
            fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?
        }
        SecretSetting::Command(words) => {
            let [program, arguments @ ..] = words.0.as_slice() else {
                return Err("the command is empty".to_owned());
            };
            let command = CommandSpec {
                program: CommandProgram::File(Arc::clone(program), arguments.to_vec()),
                env: Vec::new(),
                input: None,
                timeout: SECRET_COMMAND_TIMEOUT,
            };
            let ran = commands.run(command).await.map_err(|error| error.to_string())?;
            if !ran.ok {
                return Err(format!("`{program}` failed: {}", ran.stderr.trim()));
            }
            String::from_utf8_lossy(&ran.stdout).into_owned()
        }
    };
    clean(&text).ok_or_else(|| "the secret is empty, or has spaces in it".to_owned())
}

fn clean(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
    fits.then(|| text.to_owned())
}
