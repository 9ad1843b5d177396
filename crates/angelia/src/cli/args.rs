//! The command-line grammar. Each command is implemented in the module of its name.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, builder::NonEmptyStringValueParser};

/// One dependable local service in front of the coding agents you are already logged in to.
#[derive(Debug, Parser)]
#[command(name = "angelia", version, max_term_width = 100)]
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
    /// Talk to an agent at a prompt, turn after turn in one session.
    Chat(super::chat::ChatArgs),
    /// Run the daemon in the foreground: HTTP on loopback and a Unix socket, with agents kept warm.
    Serve(ServeArgs),
    /// Run the daemon in the background; its log is `$ANGELIA_HOME/logs/angelia.log`.
    Start,
    /// Stop the daemon; running turns may end first.
    Stop(super::lifecycle::stop::StopArgs),
    /// Restart the daemon, for example after an upgrade; queued turns continue in the new one.
    Restart(super::lifecycle::restart::RestartArgs),
    /// Print the end of the daemon's log, or follow it.
    Logs(super::lifecycle::logs::LogsArgs),
    /// Let the system start the daemon at login: systemd on Linux, launchd on macOS.
    #[command(subcommand)]
    Service(super::service::ServiceCommand),
    /// Act as an ACP agent over stdin and stdout, for editors.
    Acp(super::acp::AcpArgs),
    /// Serve a host application: JSON requests on stdin, one per line, and events on stdout.
    Bridge(super::bridge::BridgeArgs),
    /// List, show, search, resume, fork, export and delete sessions.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List, show, watch and interrupt single turns.
    #[command(subcommand)]
    Turns(TurnsCommand),
    /// List what agents are waiting for, and approve or deny it.
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Run turns automatically, at set times or when files change.
    #[command(subcommand)]
    Schedule(super::schedule::ScheduleCommand),
    /// Set up, check and remove chat platforms.
    #[command(subcommand)]
    Channels(super::channels::ChannelsCommand),
    /// List who may talk by chat, let people in, or shut them out.
    #[command(subcommand)]
    Access(super::access::AccessCommand),
    /// Show the daemon, its agents, turns and approvals, the bus, quotas and cost.
    #[command(visible_alias = "ps")]
    Status(StatusArgs),
    /// Show the usage of turns: tokens, cache share and cost, and what is left of the quotas.
    Usage(super::usage::UsageArgs),
    /// Open the dashboard in the browser, signed in.
    Dashboard(super::dashboard::DashboardArgs),
    /// Show who has decided, changed, deleted or exposed something.
    Audit(super::audit::AuditArgs),
    /// Start and stop the message bus, show its status, and listen to it.
    #[command(subcommand)]
    Bus(super::bus::BusCommand),
    /// Send one message to an endpoint of the bus, and print whether it was delivered.
    Notify(super::notify::NotifyArgs),
    /// Add our MCP servers and tools to Codex's own configuration, or remove them.
    #[command(subcommand)]
    Codex(super::codex::CodexCommand),
    /// Act as an MCP server over stdin and stdout: delegation, sessions and the bus as tools.
    Mcp(super::mcp::McpArgs),
    /// Manage keys that let other people and programs use the model APIs.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Report which agents are installed, their versions and logins, and what to do.
    Doctor(DoctorArgs),
    /// List the agents on this machine, and install versions of them side by side.
    #[command(subcommand)]
    Agents(super::agents::AgentsCommand),
    /// List the model providers for `executor: native`, and check that they can be used.
    #[command(subcommand)]
    Providers(super::providers::ProvidersCommand),
    /// Read, edit and undo what agents remember from session to session.
    #[command(subcommand)]
    Memory(super::memory::MemoryCommand),
    /// Check the installed agents against a scripted model, without any login and at no cost.
    Selftest(super::selftest::SelftestArgs),
    /// Create, check and print the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell.
    Completions { shell: clap_complete::Shell },
    /// Print shell lines that point a program at the daemon: `eval "$(angelia env)"`.
    Env(super::env::EnvArgs),
    /// Connect another program to Angelia, or show what that would change.
    #[command(subcommand)]
    Setup(super::setup::SetupCommand),
    /// Write the files that packages contain besides the program.
    #[command(hide = true)]
    PackageFiles {
        /// The folder that stands in for the packages' prefix.
        #[arg(value_name = "DIR")]
        prefix: PathBuf,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// The profile to use; `default` when none is named.
    #[arg(short, long)]
    pub(crate) profile: Option<String>,

    /// Continue this session: an id or the start of one, `last`, or a name of your choice, which
    /// starts a session the first time it is used.
    #[arg(short, long)]
    pub(crate) session: Option<String>,

    /// Continue the most recently used session of this directory.
    #[arg(short, long = "continue", conflicts_with = "session")]
    pub(crate) continue_last: bool,

    /// The directory the agent works in; the current directory by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// The model, as the agent's own CLI calls it; an existing session switches to it.
    #[arg(short, long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,

    /// Add a file to the prompt: text as a marked block, or an image. Can be repeated.
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Print the turn's events, one JSON object per line, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the answer as the model wrote it, without rendering its Markdown.
    #[arg(long, conflicts_with_all = ["json", "detach"])]
    pub(crate) raw: bool,

    /// Print the turn's id and exit. The daemon runs the turn, and is started if necessary; the
    /// agent's questions wait for a decision from any client.
    #[arg(long, conflicts_with = "json")]
    pub(crate) detach: bool,

    /// The prompt; read from standard input when it is `-` or missing. Piped input is added below a
    /// prompt.
    pub(crate) prompt: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 picks any free one.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,

    /// Leave the terminal, and report readiness on stdout; for `angelia start`.
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Keep the status on the screen until `q` or Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// Print JSON; with `--watch`, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also start agents where only a start can tell whether they work: Codex's server, and ACP
    /// agents. Nothing is sent to a model.
    #[arg(long)]
    pub(crate) deep: bool,

    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The number of entries to print, newest first.
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: usize,

    /// Continue after this entry of an earlier list.
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<String>,

    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl ListArgs {
    /// Returns whether the list begins with the newest entry, so that an empty list means there are
    /// no entries.
    pub(crate) const fn starts_at_newest(&self) -> bool {
        self.before.is_none() && self.limit > 0
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, most recently used first.
    List(super::sessions::list::SessionListArgs),
    /// Show a session as a conversation.
    Show {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// Find the sessions in which something was said.
    Search(super::sessions::search::SearchArgs),
    /// Continue a session with another turn; the same as `run -s ID`.
    Resume {
        id: String,
        /// Print the turn's events, one JSON object per line.
        #[arg(long)]
        json: bool,
        /// The prompt; read from standard input when it is `-` or missing.
        prompt: Option<String>,
    },
    /// Adopt a conversation from an agent's own program as a session with its history.
    Adopt(AdoptArgs),
    /// Start a new session that continues from the current state of this one.
    Fork { id: String },
    /// Print a session with all events of its turns, one JSON object per line, or as Markdown.
    Export {
        id: String,
        /// Print the conversation as Markdown.
        #[arg(long, conflicts_with = "json")]
        md: bool,
        /// Print JSON, which is the default.
        #[arg(long)]
        json: bool,
    },
    /// Delete a session, its record, and the agent's own transcript of it.
    Delete {
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").args(["id", "last", "list"]))]
pub(crate) struct AdoptArgs {
    /// The agent in whose program the conversation began: `claude` or `codex`.
    pub(crate) agent: String,

    /// The agent's id for the conversation, or the start of it.
    pub(crate) id: Option<String>,

    /// Adopt the latest conversation, from this directory if it has one.
    #[arg(long)]
    pub(crate) last: bool,

    /// List the conversations, those from this directory first; the default.
    #[arg(long)]
    pub(crate) list: bool,

    /// The profile of the session; by default the first one for this agent.
    #[arg(short, long)]
    pub(crate) profile: Option<String>,

    /// A name for the session.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// The number of conversations to list.
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: usize,

    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TurnsCommand {
    /// List the newest turns.
    List {
        #[command(flatten)]
        list: ListArgs,
        /// List only the turns of this session.
        #[arg(short, long)]
        session: Option<String>,
    },
    /// Show the state of a turn, and its outcome when it has finished.
    Show {
        id: String,
        /// Also show the diff of each edit, and how it was decided.
        #[arg(long)]
        diff: bool,
        #[arg(long, conflicts_with = "diff")]
        json: bool,
    },
    /// Follow a turn from its first event, whether it is running or finished.
    Watch {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// Stop a running turn.
    Interrupt {
        id: String,
        /// Kill the agent's process instead of asking it to stop.
        #[arg(long)]
        kill: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the approvals that wait for a decision, newest first.
    List {
        #[command(flatten)]
        list: ListArgs,
        /// Also list approvals that have been decided, and who decided them.
        #[arg(long)]
        all: bool,
    },
    /// Show an approval with all its details, including the whole diff of an edit.
    Show {
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Decide(DecideCommand),
    /// List and remove the rules that you granted permanently with `always`.
    #[command(subcommand)]
    Rules(RulesCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List the rules, oldest first.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Remove a rule; from then on you are asked again.
    Remove {
        /// The rule's id, or the start of it.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DecideCommand {
    /// Allow the agent's request.
    Approve {
        id: String,
        /// Also allow exactly this, or the rule given by `--rule`, for the rest of the session.
        #[arg(long)]
        session: bool,
        /// Also allow exactly this, or the rule given by `--rule`, in every session of this profile
        /// in this directory; `angelia approvals rules` lists and removes it.
        #[arg(long, conflicts_with = "session")]
        always: bool,
        /// The rule to allow, one of those that the approval offers; by default exactly this call.
        #[arg(long, value_name = "RULE")]
        rule: Option<String>,
        /// A note that is kept with the decision.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Answer an agent's question, named by its text, its heading or its number; the name may
        /// be left out if there is only one question. An answer may be the number of an option.
        #[arg(long = "answer", value_name = "QUESTION=ANSWER")]
        answers: Vec<String>,
    },
    /// Refuse the agent's request; the agent continues without it.
    Deny {
        id: String,
        /// Stop the turn as well.
        #[arg(long)]
        stop: bool,
        /// A note that is passed on to the agent.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it, once; the configuration stores only its hash.
    Add {
        /// The key's name in lists and records.
        name: String,
        /// Allow only these profiles, or words before the `/` of model ids; all by default.
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        profiles: Vec<String>,
        /// Also allow the models of this provider, as `native/PROVIDER/MODEL`; can be repeated.
        #[arg(long = "provider", value_name = "NAME")]
        providers: Vec<String>,
        /// Also allow agents that act on this machine; `http.agent_mode` must allow it too.
        #[arg(long)]
        agent_mode: bool,
        /// The most its turns may cost in 24 hours.
        #[arg(long, value_name = "USD")]
        max_cost_usd_per_day: Option<f64>,
    },
    /// List the keys, and what they allow.
    List {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key.
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
    /// Check whether the configuration is valid; exit 78 when it is not.
    Check,
    /// Print the settings in force.
    Show {
        /// Print where each value comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Print the JSON schema of the configuration file.
    Schema,
    /// Tell the running daemon to use the changed file, including settings that it does not pick up
    /// on its own.
    Reload {
        /// Print JSON: the settings that took effect, and those that wait for a restart.
        #[arg(long)]
        json: bool,
    },
}
