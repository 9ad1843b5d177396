//! The command line. What each command means is in the file of its name.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// One dependable local service in front of the coding agents you are already logged in to.
#[derive(Debug, Parser)]
#[command(name = "angelia", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Read this file instead of `$ANGELIA_HOME/config.yaml`.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one turn and print its answer.
    Run(RunArgs),
    /// Be the daemon: HTTP on loopback and a Unix socket, with agents kept warm.
    Serve(ServeArgs),
    /// Be an ACP agent over stdin and stdout, for editors.
    Acp(super::acp::AcpArgs),
    /// Serve a host application: JSON requests on stdin, one per line, and events on stdout.
    Bridge(super::bridge::BridgeArgs),
    /// Conversations.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Single turns of conversations.
    #[command(subcommand)]
    Turns(TurnsCommand),
    /// What agents wait for: list it, allow it, refuse it.
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// The message bus: start it, watch it, listen to it.
    #[command(subcommand)]
    Bus(super::bus::BusCommand),
    /// Send one message to an endpoint of the bus, and say what became of it.
    Notify(super::notify::NotifyArgs),
    /// Our MCP servers and tools in Codex's own configuration.
    #[command(subcommand)]
    Codex(super::codex::CodexCommand),
    /// Be an MCP server over stdin and stdout: delegation, sessions and the bus as tools.
    Mcp(super::mcp::McpArgs),
    /// Keys for others than you, for the model APIs.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// What is installed, which version, logged in or not, and what to do.
    Doctor(DoctorArgs),
    /// The configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell.
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The profile to use; `default` when none is named.
    #[arg(short, long)]
    pub(crate) profile: Option<String>,

    /// Continue this session: an id from `angelia sessions list`, or a name of your own, which
    /// begins a session the first time it is used.
    #[arg(short, long)]
    pub(crate) session: Option<String>,

    /// The directory the agent works in; where you are when not given.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// The model, as the agent's own CLI calls it.
    #[arg(short, long)]
    pub(crate) model: Option<String>,

    /// Print the turn's events, one JSON object per line, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,

    /// What to ask; `-` or nothing reads it from standard input.
    pub(crate) prompt: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How many, newest first.
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: usize,

    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// The newest sessions.
    List(ListArgs),
    /// A session and its turns.
    Show {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// Continue a session with another turn; the same as `run -s ID`.
    Resume {
        id: String,
        /// Print the turn's events, one JSON object per line.
        #[arg(long)]
        json: bool,
        /// What to ask; `-` or nothing reads it from standard input.
        prompt: Option<String>,
    },
    /// Begin a new session from where this one stands.
    Fork { id: String },
    /// Print a session with all events of its turns, one JSON object per line.
    Export { id: String },
    /// Remove a session, its record, and the agent's own transcript of it.
    Delete {
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TurnsCommand {
    /// The newest turns.
    List {
        #[command(flatten)]
        list: ListArgs,
        /// Only of this session.
        #[arg(short, long)]
        session: Option<String>,
    },
    /// How a turn stands or ended.
    Show {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// Follow a turn from its first event, running or over.
    Watch {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// Stop a running turn.
    Interrupt {
        id: String,
        /// End its process instead of asking it to stop.
        #[arg(long)]
        kill: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// What waits for a decision, newest first.
    List {
        #[command(flatten)]
        list: ListArgs,
        /// Also what has been decided, and by whom.
        #[arg(long)]
        all: bool,
    },
    /// Allow it.
    Approve {
        id: String,
        /// Also the like of it, for the rest of the session.
        #[arg(long)]
        session: bool,
        /// Kept with the decision.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Answer an agent's question, named by its text, its heading or its number; the name may
        /// be left out where there is only one. An answer may be the number of an option.
        #[arg(long = "answer", value_name = "QUESTION=ANSWER")]
        answers: Vec<String>,
    },
    /// Refuse it; the agent goes on without.
    Deny {
        id: String,
        /// End the turn as well.
        #[arg(long)]
        stop: bool,
        /// Told to the agent.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key and print it, this once; the configuration keeps its hash.
    Add {
        /// What you call it, in lists and records.
        name: String,
        /// Only these profiles, or words before the `/` of model ids; all when not given.
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        profiles: Vec<String>,
        /// Also agents that act on this machine; `http.agent_mode` must allow it too.
        #[arg(long)]
        agent_mode: bool,
        /// What its turns may cost in 24 hours.
        #[arg(long, value_name = "USD")]
        max_cost_usd_per_day: Option<f64>,
    },
    /// Which keys there are, and what they allow.
    List {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Make a key worthless.
    Revoke { name: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write a commented configuration file with every setting at its default.
    Init {
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
    /// Say whether the configuration is valid; exit 78 when it is not.
    Check,
    /// Print the settings in force.
    Show {
        /// Say where each value comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Print the JSON schema of the configuration file.
    Schema,
}
