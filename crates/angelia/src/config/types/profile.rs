//! A profile: all settings that determine how an agent is started and what it may do.

use std::{borrow::Cow, collections::BTreeMap};

use angelia_core::model::{CompactionSettings, MemoryUse, SummaryFailurePolicy, ToolSet};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::Value as Json;

use super::{
    AgentCommand, Billing, BoundedCount, Dollars, ExecutorName, FixedPath, Limit, McpServer,
    MemorySetting, Mode, ModelId, PassedVariable, Period, Permission, ProgramPath, Reasoning,
    ReviewSetting, SandboxChoice, SecretValue, ServerName, Share, SummaryFailure, TokenCount,
    ToolPatternSetting, ToolSetSetting, Trust, VariableName,
};
use crate::config::setting::{Setting, SettingsBlock as _, ValueCursor, settings};

settings! {
    /// A named set of settings.
    Profile {
        /// The kind of agent. `auto` takes the first of Claude Code and Codex that is installed and logged
        /// in, then `native` if the profile names a model with its provider or `providers` has exactly one
        /// model, and the built-in demo `parrot` where there is none.
        executor: ExecutorName = ExecutorName::Auto,
        /// The model, as the agent's own CLI calls it. `null`: the agent's default, resolved once
        /// per session and then fixed. `executor: native` needs one: `PROVIDER/MODEL`.
        model: Option<String> = None,
        /// `agent`: the agent's own tools act on this machine. `model`: they are off, and nothing
        /// here can be read or changed.
        mode: Mode = Mode::Agent,
        /// The agent's program: a path, a name that is found on `PATH`, or a version that
        /// `angelia agents install` has installed, such as `claude@2.1.197`. `null`: found on `PATH`.
        binary: Option<ProgramPath> = None,
        /// The command line of an ACP agent, such as `[gemini, --acp]`. Required by `executor:
        /// acp`, and refused by every other executor.
        command: Option<AgentCommand> = None,
        /// The directory the agent works in. `null`: the caller's directory (`angelia run`); every
        /// other frontend needs a profile that names one.
        cwd: Option<FixedPath> = None,
        /// Whether hooks, MCP servers and instructions of the project in `cwd` are honoured.
        /// `auto`: only for `angelia run` at a terminal.
        trust: Trust = Trust::Auto,
        /// A file whose text is added after the agent's own prompt, or in model mode used
        /// instead of it.
        system_prompt_path: Option<FixedPath> = None,
        /// `ask`: you decide what the agent asks about. `edit`: it may change files in `cwd`.
        /// `unattended`: we answer yes within the two lists below.
        permissions: Permission = Permission::Ask,
        /// Tools that are allowed without asking.
        allowed_tools: Vec<ToolPatternSetting> = Vec::new(),
        /// Tools that are always refused, whatever else allows them.
        disallowed_tools: Vec<ToolPatternSetting> = Vec::new(),
        /// The agent's own tools that are available at all.
        tools: ToolSetSetting = ToolSetSetting(ToolSet::Default),
        /// MCP servers for this profile, by name, in the shape Claude Code uses.
        mcp_servers: BTreeMap<ServerName, McpServer> = BTreeMap::new(),
        /// Variables set for the agent; they override the rule that withholds others.
        env: BTreeMap<VariableName, SecretValue> = BTreeMap::new(),
        /// Variables let through from our environment, besides PATH, HOME, USER, LOGNAME, SHELL,
        /// LANG, `LC_*`, TZ, TERM, TMPDIR, `SSH_AUTH_SOCK`, `*_PROXY`, `NODE_EXTRA_CA_CERTS` and
        /// `SSL_CERT_*`; everything else is withheld.
        env_pass: Vec<PassedVariable> = Vec::new(),
        /// The kind of account that may pay. If the agent reports another kind, the turn is refused
        /// before the first prompt.
        billing: Billing = Billing::Any,
        /// How long a turn may last, from its start or from its last automatic resume. The clock
        /// stands still while an approval is pending.
        timeout: Limit = Limit(Period::hours(2)),
        /// How long an agent may take to send its first event.
        first_event_timeout: Limit = Limit(Period::seconds(60)),
        /// How long an agent may be silent while no tool runs.
        inter_event_silence_timeout: Limit = Limit(Period::seconds(120)),
        /// How long an agent may be silent after a tool has finished.
        post_tool_quiet_timeout: Limit = Limit(Period::seconds(90)),
        /// How long a tool may run; the silence clock does not run meanwhile.
        tool_timeout: Limit = Limit(Period::minutes(30)),
        /// How long an agent may retry a failed request to its model.
        retry_timeout: Limit = Limit(Period::minutes(3)),
        /// How long an agent may take to compact its conversation.
        compaction_timeout: Limit = Limit(Period::minutes(10)),
        /// How long work that an agent started in the background may continue after its answer.
        background_grace: Limit = Limit(Period::minutes(15)),
        /// How long an approval waits for an answer; then it is declined, and the turn continues.
        approval_timeout: Limit = Limit(Period::hours(24)),
        /// How long a process waits for the results of its caller's tools; then it is released, but the
        /// conversation can still be continued.
        caller_tool_timeout: Limit = Limit(Period::minutes(10)),
        /// After this time a turn ends with the answer it has, as `partial`.
        budget_seconds: Option<Limit> = None,
        /// After this many tool calls a turn ends with the answer it has, as `partial`.
        budget_tool_count: Option<BoundedCount<1, 100_000>> = None,
        /// When a turn has cost this much, it ends with the answer it has, as `partial`.
        max_cost_usd: Option<Dollars> = None,
        /// Whether a turn that used up its budget of time or tools is resumed automatically, in the
        /// same conversation and with fresh budgets.
        auto_resume_budget_guard: bool = true,
        /// How often one turn is resumed automatically.
        auto_resume_max_resumes: BoundedCount<0, 1000> = BoundedCount(5),
        /// The profile that takes over when the quota of this one is used up, with everything
        /// said so far; only before the first tool of the turn has started.
        fallback_profile: Option<String> = None,
        /// The profiles that this profile's agent may delegate work to, with the tool `delegate`;
        /// none may do more than this one.
        delegate_to: Vec<String> = Vec::new(),
        /// Whether the daemon reviews sessions in the background: a model rereads the conversation and notes
        /// what is worth remembering. This costs tokens, so it is off by default.
        review: ReviewSetting = ReviewSetting(None),
        /// Keep text that changes from day to day out of the system prompt, so that the provider's cache can
        /// be used.
        exclude_dynamic_system_prompt_sections: bool = true,
        /// How many processes are started in advance and kept waiting.
        warm: BoundedCount<0, 64> = BoundedCount(1),
        /// `native` only: the models to try, in this order, while the profile's own cannot answer because its
        /// provider fails, limits requests or has no usable key: `[PROVIDER/MODEL, …]`.
        fallback: Vec<ModelId> = Vec::new(),
        /// `native` only: how many requests one turn may send; then one more asks for an answer without
        /// tools, and the turn ends as `partial`.
        max_iterations: BoundedCount<1, 10_000> = BoundedCount(90),
        /// `native` only: tokens of one answer. `null`: the model's own limit.
        max_output_tokens: Option<TokenCount> = None,
        /// `native` only: how much the model should think. `null`: its own default.
        reasoning: Option<Reasoning> = None,
        /// `native` only: the sandbox of commands. `auto`: Landlock, or you are asked about every command;
        /// `landlock`: Landlock, or no command runs; `off`: none.
        sandbox: SandboxChoice = SandboxChoice::Auto,
        /// `native` only: folders that commands in the sandbox may read, besides the system's,
        /// toolchains in your home and the working directory.
        sandbox_read: Vec<FixedPath> = Vec::new(),
        /// `native` only: folders that commands in the sandbox may write, besides the working directory
        /// and the folder for temporary files.
        sandbox_write: Vec<FixedPath> = Vec::new(),
        /// `native` only: whether commands in the sandbox may use TCP, to this machine included.
        network: bool = false,
        /// `native` only: whether agents remember things from session to session, in files below `memory/` in
        /// the home. `on`: from your own sessions; `{from: any}`: also from callers with a key, people in
        /// chats and messages on the bus.
        memory: MemorySetting = MemorySetting(MemoryUse::Off),
        /// `native` only: when a conversation is shortened, and which part of it stays.
        compaction: CompactionFields = CompactionFields::default(),
    }
}

settings! {
    /// How `native` shortens a conversation that gets too long for its model.
    CompactionFields {
        /// How full the model's window may become, without the part that is kept free for an answer,
        /// before the older part of the conversation is replaced by a summary.
        at: Share = Share::new(0.85),
        /// How many messages at the beginning always stay unchanged, up to a tenth of the window.
        protect_first_n: BoundedCount<0, 1000> = BoundedCount(3),
        /// What happens if the model gives no summary. `abort`: nothing is dropped, and the summary is tried
        /// again later; `truncate`: what the summary would have replaced is dropped.
        on_summary_failure: SummaryFailure = SummaryFailure::Abort,
    }
}

impl From<&CompactionFields> for CompactionSettings {
    fn from(settings: &CompactionFields) -> Self {
        Self {
            at_permille: settings.at.permille(),
            protect_first_n: settings.protect_first_n.0,
            on_summary_failure: match settings.on_summary_failure {
                SummaryFailure::Abort => SummaryFailurePolicy::Abort,
                SummaryFailure::Truncate => SummaryFailurePolicy::Truncate,
            },
        }
    }
}

/// Defaults that the profiles of one executor inherit: any key of a profile except `executor`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExecutorDefaults {
    values: Profile,
    /// The keys that were set. All others are not inherited.
    inherited: Vec<&'static str>,
}

const EXECUTOR_KEY: &str = "executor";

fn inherited_keys() -> impl Iterator<Item = &'static str> {
    Profile::KEYS.iter().copied().filter(|key| *key != EXECUTOR_KEY)
}

impl Setting for ExecutorDefaults {
    fn expects() -> String {
        "a mapping with the keys of a profile".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        if let Some(executor) = place.node.entry(EXECUTOR_KEY) {
            let known: Vec<_> = inherited_keys().collect();
            place.report_unknown_key(executor, &known);
        }
        let node = place.node.with_keys(|key| key != EXECUTOR_KEY);
        let values = Profile::read(&place.as_profile(&node))?;
        let inherited = inherited_keys().filter(|key| node.get(key).is_some()).collect();
        Some(Self { values, inherited })
    }
}

impl Serialize for ExecutorDefaults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = serde_json::to_value(&self.values).map_err(S::Error::custom)?;
        serializer.collect_map(self.inherited.iter().map(|key| (key, &values[key])))
    }
}

impl JsonSchema for ExecutorDefaults {
    fn schema_name() -> Cow<'static, str> {
        "ExecutorDefaults".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Profile::json_schema(generator);
        schema.insert("description".to_owned(), Self::expects().into());
        if let Some(Json::Object(keys)) = schema.get_mut("properties") {
            keys.remove(EXECUTOR_KEY);
            // A key that is not set here is not inherited, so it has no default.
            for key in keys.values_mut().filter_map(Json::as_object_mut) {
                key.remove("default");
            }
        }
        schema
    }
}
