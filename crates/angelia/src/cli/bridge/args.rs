//! The flags of `angelia bridge` and their meaning.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::model::{ToolPattern, ToolSet};
use angelia_frontends::{
    bridge::{DeltaFlags, RunDefaults},
    turn_service::SpecOverrides,
};
use clap::Args;

use super::own_model::OWN_NAME;
use crate::{cli::error::CommandError, config::Period};

/// The default for `--assistant-delta-chunk-size`: characters per chunk of a finished text.
const DEFAULT_CHUNK_CHARS: u32 = 32;

#[derive(Debug, Args)]
pub(crate) struct BridgeArgs {
    /// The profile of new sessions; `default` when none is named. A request may name another.
    #[arg(short, long)]
    pub(super) profile: Option<String>,

    /// The model of new sessions, as the agent's own CLI calls it, or the server at --base-url. A
    /// request may name another.
    #[arg(short, long)]
    pub(super) model: Option<String>,

    /// The directory of new sessions; by default the profile's, or the current directory. A request
    /// may name another.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Serve one request and exit.
    #[arg(long)]
    once: bool,

    /// Log progress to stderr.
    #[arg(long)]
    pub(crate) verbose: bool,

    /// Also send text in chunks, unless a request says otherwise.
    #[arg(long)]
    assistant_delta: bool,

    /// The number of characters of a finished text in one chunk.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHUNK_CHARS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    assistant_delta_chunk_size: u32,

    /// With --native-stream: send the agent's own chunks, unless a request says otherwise.
    #[arg(long)]
    native_assistant_delta: bool,

    /// Use the agent's own stream, unless a request says otherwise.
    #[arg(long)]
    native_stream: bool,

    /// End a run as `partial`, with the answer so far, after this many requests to the model; tool
    /// calls are counted if an agent does not show its requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_iterations: Option<u32>,

    /// The agent's own tools to enable: `default`, `all`, `none`, or their names.
    #[arg(long, value_name = "NAMES")]
    toolsets: Option<String>,

    /// Tools to refuse: names or patterns such as `Bash(git push*)`.
    #[arg(long, value_name = "PATTERNS")]
    disabled_toolsets: Option<String>,

    /// How long a run may last; overrides the profile's `timeout`.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    timeout: Option<Duration>,

    /// How long an agent may take to send its first event; overrides the profile's
    /// `first_event_timeout`.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    first_event_timeout: Option<Duration>,

    /// How long an agent may be silent while no tool runs; overrides the profile's
    /// `inter_event_silence_timeout`.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout, alias = "inter-event-silence-timeout")]
    stream_timeout: Option<Duration>,

    /// The address of a server that speaks Chat Completions, including `/v1`. The runs of this
    /// bridge then use Angelia's own loop with the --model of that server, instead of an agent.
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,

    /// The key for --base-url. Prefer the variable `ANGELIA_API_KEY`: every program on this machine
    /// can read the command line.
    #[arg(long, value_name = "KEY")]
    pub(super) api_key: Option<String>,

    /// Print the JSON schema of requests and events, and exit.
    #[arg(long)]
    pub(crate) schema: bool,
}

/// The settings that the flags stand for.
#[derive(Debug)]
pub(super) struct BridgeSettings {
    pub(super) once: bool,
    pub(super) defaults: RunDefaults,
    pub(super) overrides: SpecOverrides,
}

impl BridgeArgs {
    pub(super) fn into_settings(self) -> Result<BridgeSettings, CommandError> {
        let has_own_model = self.own_base_url().is_some();
        let caller_cwd = std::env::current_dir().ok();
        let cwd = self.cwd.as_ref().map(std::path::absolute).transpose();
        let cwd = cwd.map_err(|error| CommandError::usage(format!("cannot use --cwd: {error}")))?;
        let on = |flag: bool| flag.then_some(true);
        let defaults = RunDefaults {
            profile: match self.profile {
                None if has_own_model => Some(OWN_NAME.into()),
                named => named.map(Into::into),
            },
            // With `--base-url`, the profile already has the model.
            model: self.model.filter(|_| !has_own_model).map(Into::into),
            provider: has_own_model.then(|| OWN_NAME.into()),
            cwd,
            caller_cwd,
            delta_flags: DeltaFlags {
                assistant_delta: on(self.assistant_delta),
                native_stream: on(self.native_stream),
                native_assistant_delta: on(self.native_assistant_delta),
            },
            chunk_chars: self.assistant_delta_chunk_size as usize,
        };
        let overrides = SpecOverrides {
            max_iterations: self.max_iterations,
            tools: self.toolsets.as_deref().map(parse_tool_set),
            disallowed: parse_patterns(self.disabled_toolsets.as_deref().unwrap_or_default())?,
            timeout: self.timeout,
            first_event_timeout: self.first_event_timeout,
            silence_timeout: self.stream_timeout,
        };
        Ok(BridgeSettings { once: self.once, defaults, overrides })
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let period = Period::parse(text).map_err(|error| error.to_string())?;
    let duration = period.duration();
    if duration.is_zero() {
        return Err("a clock cannot be switched off, but it can be long".to_owned());
    }
    Ok(duration)
}

fn parse_tool_set(text: &str) -> ToolSet {
    match text.trim() {
        "default" => ToolSet::Default,
        "all" => ToolSet::All,
        "none" | "" => ToolSet::None,
        names => ToolSet::List(split_list(names).map(Arc::from).collect()),
    }
}

fn parse_patterns(text: &str) -> Result<Vec<ToolPattern>, CommandError> {
    let parse = |pattern: &str| {
        let bad = |error| CommandError::usage(format!("--disabled-toolsets: {error}"));
        pattern.parse().map_err(bad)
    };
    split_list(text).map(parse).collect()
}

fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty())
}
