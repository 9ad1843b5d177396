//! The types of the configuration, one block per file. Each key is defined once, as a line in a
//! [`settings!`](super::setting::settings) block.

mod bridge;
mod bus;
mod channels;
mod choices;
mod fleet;
mod hooks_in;
mod http;
mod mcp;
mod memory;
mod period;
mod prices;
mod profile;
mod provider_keys;
mod providers;
mod review;
mod secrets;
mod values;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

pub(crate) use bridge::{BridgeProfile, Hermes};
pub(crate) use bus::{BusSettings, DEFAULT_ENDPOINT};
#[cfg(test)]
pub(crate) use channels::ChatFields;
pub(crate) use channels::{ChannelFields, ChannelName, ChatId};
pub(crate) use choices::{
    Billing, DesktopNotifications, ExecutorName, HermesSocket, Mode, Permission, Reasoning,
    SandboxChoice, SummaryFailure, Trust,
};
pub(crate) use fleet::Fleet;
pub(crate) use hooks_in::{HookFields, HookName, TemplateText};
pub(crate) use http::{ApiKey, Http, KeyFields, KeyHash, KeyProfiles, ModelId, is_key_name};
pub(crate) use mcp::{McpServer, ServerName};
pub(crate) use memory::MemorySetting;
pub(crate) use period::{Limit, Period};
pub(crate) use prices::ModelPrice;
#[cfg(test)]
pub(crate) use profile::CompactionFields;
pub(crate) use profile::{ExecutorDefaults, Profile};
pub(crate) use provider_keys::{EntraFields, KeySetting, OAuthFields};
#[cfg(test)]
pub(crate) use providers::QuirkSettings;
pub(crate) use providers::{ModelFields, ProviderFields, ProviderName, TokenCount};
pub(crate) use review::{ReviewFields, ReviewSetting};
pub(crate) use secrets::SecretSetting;
pub(crate) use values::{
    AgentCommand, BoundedCount, ByteSize, Dollars, FixedPath, ListenAddress, LiveAgentLimit,
    PassedVariable, ProfileName, ProgramPath, SecretValue, Share, ToolPatternSetting,
    ToolSetSetting, VariableName, expand_home,
};

use super::setting::settings;

settings! {
    /// Angelia's configuration, `config.yaml`.
    ConfigFile {
        /// The address that `angelia serve` listens on; port 0 picks any free port.
        listen: ListenAddress = ListenAddress(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 4376)),
        /// Any number of profiles, by name; `default` is used when none is named.
        profiles: BTreeMap<ProfileName, Profile> = BTreeMap::new(),
        /// The model providers for `executor: native`, by name. Some are built in and need only a key.
        providers: BTreeMap<ProviderName, ProviderFields> = BTreeMap::new(),
        /// Defaults that every profile of an executor inherits.
        executors: Executors = Executors::default(),
        /// Settings of sessions.
        sessions: Sessions = Sessions::default(),
        /// How long `stop` and `restart` wait for running turns; a second signal ends the wait.
        drain: Period = Period::seconds(10),
        /// Whether `run` and `chat` at a terminal notify the desktop when a question has waited for 5 s and
        /// when a turn of 30 s or more has ended. `auto`: with `notify-send` in a desktop session, otherwise
        /// with the sequence OSC 777 on a terminal that is known to show it; `on`: with that sequence on any
        /// terminal.
        desktop_notifications: DesktopNotifications = DesktopNotifications::Auto,
        /// The daemon's log, `logs/angelia.log` in the home.
        log: LogSettings = LogSettings::default(),
        /// The model APIs under `/v1`, and who may use them.
        http: Http = Http::default(),
        /// Limits on one caller's use of this machine.
        limits: Limits = Limits::default(),
        /// Settings of the message bus.
        bus: BusSettings = BusSettings::default(),
        /// Chat platforms, by name; a platform that is missing here is not connected.
        channels: BTreeMap<ChannelName, ChannelFields> = BTreeMap::new(),
        /// Webhooks that start turns, by the name in their path.
        hooks_in: BTreeMap<HookName, HookFields> = BTreeMap::new(),
        /// The record on a server, for a record that outlives this machine: a Postgres database.
        fleet: Option<Fleet> = None,
        /// Prices of models, by id, for agents that report no cost (Codex and `native`); they
        /// override the built-in prices.
        prices: BTreeMap<ModelId, ModelPrice> = BTreeMap::new(),
        /// MCP servers given to every agent, by name, in the shape Claude Code uses.
        mcp_servers: BTreeMap<ServerName, McpServer> = BTreeMap::new(),
        /// Hermes's block, for people who come from Hermes; it becomes the profile of this name.
        claude_code_bridge: Option<BridgeProfile> = None,
    }
}

settings! {
    /// Defaults by executor.
    Executors {
        /// For profiles that run Claude Code.
        claude: ExecutorDefaults = ExecutorDefaults::default(),
        /// For profiles that run Codex.
        codex: ExecutorDefaults = ExecutorDefaults::default(),
        /// For profiles that run an ACP agent.
        acp: ExecutorDefaults = ExecutorDefaults::default(),
        /// For profiles that run our own loop on a provider.
        native: ExecutorDefaults = ExecutorDefaults::default(),
    }
}

settings! {
    /// Limits on one caller's use of this machine.
    Limits {
        /// The output of one turn: text, tool input and tool output. A turn that reaches it ends as
        /// `partial`.
        output_bytes: ByteSize = ByteSize::mebibytes(64),
        /// The total size of all request bodies in memory at once; one caller may use a quarter of it.
        bodies_bytes: ByteSize = ByteSize::mebibytes(512),
        /// How many TCP connections one caller may have open.
        connections_per_caller: BoundedCount<1, 4096> = BoundedCount(64),
    }
}

settings! {
    /// The daemon's log, `logs/angelia.log` in the home.
    LogSettings {
        /// The size at which a new file is started.
        max_size: ByteSize = ByteSize::mebibytes(20),
        /// How many older files are kept.
        keep: BoundedCount<0, 100> = BoundedCount(5),
    }
}

settings! {
    /// Settings of sessions.
    Sessions {
        /// How long an unused process is kept for its session.
        idle_ttl: Period = Period::minutes(10),
        /// The same for the session of an `angelia run` without `-s`, which is rarely continued.
        one_off_idle_ttl: Period = Period::minutes(1),
        /// How many processes live at once; the least recently used makes room. `auto`: half of this
        /// machine's memory (or of the cgroup's limit) in steps of 256 MiB, at least 4, at most 64.
        max_live: LiveAgentLimit = LiveAgentLimit::Auto,
        /// How many turns may wait in one session.
        max_queued_turns: BoundedCount<1, 4096> = BoundedCount(16),
        /// How long the record of a session is kept after its last turn.
        keep: Period = Period::days(90),
        /// Whether each session is also written to its own file in `snapshots/` after every turn, as JSON.
        snapshots: bool = false,
    }
}
