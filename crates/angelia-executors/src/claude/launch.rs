//! Turns a specification into the program's arguments, variables and first request. Pure; a
//! snapshot table covers every combination.
//!
//! The command line is short and contains no text of a conversation: prompts travel in `initialize`
//! and on stdin, and MCP servers (which may contain secrets) in a private file. The program's
//! switches that turn off permission checks are never used.
//!
//! Who decides, by permission level and kind of tool ("asked" always ends up in the engine):
//!
//! | level | reads inside the folder | edits | commands, network, the rest |
//! |---|---|---|---|
//! | `ask` | the program allows | asked | asked, except what the program considers harmless |
//! | `edit` | the program allows | allowed inside the folder, else asked | asked, likewise |
//! | `unattended` | the program allows | allowed | allowed |
//!
//! The program reports every call to us before it applies its own rules (`HookRegistration`), so
//! that the engine can refuse or ask even where the program would allow. `disallowed_tools` is also
//! passed to the program, which then does not offer those tools to the model.

use std::{borrow::Cow, ffi::OsString, path::Path};

use angelia_core::model::{
    Failure, FailureKind, LaunchFingerprint, Mode, SessionSpec, SystemPrompt, ToolPattern, ToolSet,
};
use uuid::Uuid;

use super::{
    caller_tool_names, caller_tools,
    protocol::outgoing::{HookRegistration, InitializeOptions},
    version::ProgramFeatures,
};
use crate::{
    pool::VERSION_COMPONENT, prompt_prefix::prefix_fingerprint, sealed_folder::WORK_FOLDER,
};

/// The program's conversation to start or resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConversationStart<'a> {
    New(Uuid),
    Resume(&'a str),
}

const BASE_ARGS: &str = "-p --input-format stream-json --output-format stream-json --verbose \
     --include-partial-messages --permission-prompt-tool stdio --permission-mode default";

const STABLE_PROMPT_FLAG: &str = "--exclude-dynamic-system-prompt-sections";
const DENY_READ_SETTINGS: &str = r#"{"permissions":{"deny":["Read(//**)","Read"]}}"#;

/// Fingerprint components that a model-mode process receives only with `initialize`, after it was
/// taken from the pool.
const LATE_COMPONENTS: [&str; 4] = ["system prompt", "caller's tools", "output schema", "billing"];

/// Returns the specification adjusted to the mode: model mode has no access to this machine.
pub(crate) fn effective_spec(spec: &SessionSpec) -> Cow<'_, SessionSpec> {
    match spec.mode {
        Mode::Agent => Cow::Borrowed(spec),
        Mode::Model => {
            let mut spec = spec.clone();
            spec.cwd = WORK_FOLDER.into();
            spec.trust = false;
            spec.tools = ToolSet::None;
            spec.mcp_servers.clear();
            spec.permissions.allowed.clear();
            spec.permissions.disallowed.clear();
            Cow::Owned(spec)
        }
    }
}

/// Returns the command line, without the program's own name.
pub(crate) fn arguments(
    spec: &SessionSpec,
    features: &ProgramFeatures,
    conversation: ConversationStart<'_>,
    mcp_config: Option<&Path>,
) -> Result<Vec<OsString>, Failure> {
    let mut list =
        ArgumentList { list: BASE_ARGS.split_whitespace().map(OsString::from).collect(), features };
    if let Some(model) = &spec.model {
        list.add("--model", [check_value("model", model)?]);
    }
    match spec.mode {
        Mode::Model => {
            list.need("--tools", [""])?;
            list.need("--strict-mcp-config", [])?;
            list.need("--setting-sources", [""])?;
            list.need("--settings", [DENY_READ_SETTINGS])?;
            list.need("--disable-slash-commands", [])?;
            // The caller's own tools. The caller decides whether to run them.
            list.add("--allowedTools", [caller_tool_names::CALLER_TOOL_PREFIX]);
        }
        Mode::Agent => {
            if !spec.trust {
                // Ignore the project's hooks, MCP servers and instructions; keep the user's own.
                list.need("--setting-sources", ["user"])?;
            }
            if spec.stable_prompt && features.has(STABLE_PROMPT_FLAG) {
                list.add(STABLE_PROMPT_FLAG, []);
            }
            match &spec.tools {
                ToolSet::Default => {}
                ToolSet::All => list.need("--tools", ["default"])?,
                ToolSet::None => list.need("--tools", [""])?,
                ToolSet::List(names) => {
                    list.need("--tools", [check_value("tools", &names.join(","))?])?;
                }
            }
            list.add_all("--allowedTools", allowed_rules(spec));
            list.add_all("--disallowedTools", disallowed_rules(spec));
        }
    }
    if let Some(path) = mcp_config {
        list.list.extend(["--mcp-config".into(), path.into()]);
    }
    match conversation {
        ConversationStart::New(id) => list.add("--session-id", [id.to_string().as_str()]),
        ConversationStart::Resume(id) => list.add("--resume", [id]),
    }
    Ok(list.list)
}

/// Rejects a value that the program could parse as an option.
fn check_value<'a>(key: &str, value: &'a str) -> Result<&'a str, Failure> {
    if value.starts_with('-') || value.contains(char::is_control) {
        let message = format!("`{key}: {value:?}` is not a name");
        return Err(Failure::new(FailureKind::Invalid, message)
            .with_hint("names start with a letter and have no line breaks"));
    }
    Ok(value)
}

struct ArgumentList<'a> {
    list: Vec<OsString>,
    features: &'a ProgramFeatures,
}

impl ArgumentList<'_> {
    fn add<const N: usize>(&mut self, option: &str, values: [&str; N]) {
        self.list.push(option.into());
        self.list.extend(values.map(OsString::from));
    }

    fn add_all(&mut self, option: &str, values: Vec<String>) {
        if !values.is_empty() {
            self.list.push(option.into());
            self.list.extend(values.into_iter().map(OsString::from));
        }
    }

    /// Adds an option that isolation or permissions depend on. Fails if the program lacks it.
    fn need<const N: usize>(&mut self, option: &str, values: [&str; N]) -> Result<(), Failure> {
        if !self.features.has(option) {
            let message =
                format!("this Claude Code does not know `{option}`, which is needed here");
            return Err(Failure::new(FailureKind::Unavailable, message).with_hint(
                "update it: `claude update`, or with the package manager it came from",
            ));
        }
        self.add(option, values);
        Ok(())
    }
}

/// Returns the rules that the program may apply itself: whole tools that no other rule restricts.
/// We decide the rest when the program asks, because its pattern matching differs from ours.
fn allowed_rules(spec: &SessionSpec) -> Vec<String> {
    let restricted = |tool: &str| {
        (spec.permissions.disallowed.iter())
            .map(ToolPattern::to_string)
            .any(|rule| tool_of(&rule).contains('*') || tool_of(&rule) == tool)
    };
    // The caller decides whether to run its own tools.
    let callers =
        (!spec.caller_tools.is_empty()).then(|| caller_tool_names::CALLER_TOOL_PREFIX.to_owned());
    (spec.permissions.allowed.iter())
        .map(ToolPattern::to_string)
        .filter(|rule| is_plain_name(rule) && !restricted(rule))
        .chain(callers)
        .collect()
}

/// Returns all disallow rules, because the program does not ask about calls that it considers
/// harmless. Our file patterns are translated, because the program's follow gitignore.
fn disallowed_rules(spec: &SessionSpec) -> Vec<String> {
    const FILE_TOOLS: [&str; 7] =
        ["Read", "Edit", "Write", "MultiEdit", "NotebookEdit", "Glob", "Grep"];
    (spec.permissions.disallowed.iter())
        .map(ToolPattern::to_string)
        // The program would parse such a rule as an option.
        .filter(|rule| !rule.starts_with('-'))
        .map(|rule| match rule.split_once('(') {
            Some((tool, subject)) if FILE_TOOLS.contains(&tool) => {
                let root = if subject.starts_with('/') { "/" } else { "" };
                format!("{tool}({root}{}", subject.replace('*', "**"))
            }
            _ => rule,
        })
        .collect()
}

fn tool_of(rule: &str) -> &str {
    rule.split_once('(').map_or(rule, |(tool, _)| tool)
}

fn is_plain_name(rule: &str) -> bool {
    rule.starts_with(|first: char| first.is_ascii_alphabetic())
        && (rule.chars()).all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
}

/// Returns the `initialize` request, which fixes the prompt and the caller's tools for the process.
pub(crate) fn build_initialize(spec: &SessionSpec) -> InitializeOptions<'_> {
    let (replace, append) = match (spec.mode, &spec.system) {
        (Mode::Agent, SystemPrompt::Default) => (None, None),
        (Mode::Agent, SystemPrompt::Append(text)) => (None, Some(&**text)),
        // Model mode uses only the caller's prompt. An empty list drops the program's own prompt.
        (Mode::Model, SystemPrompt::Default) => (Some(Vec::new()), None),
        (_, SystemPrompt::Replace(text) | SystemPrompt::Append(text)) => {
            (Some(vec![&**text]), None)
        }
    };
    InitializeOptions {
        system_prompt: replace,
        append_system_prompt: append,
        sdk_mcp_servers: if spec.caller_tools.is_empty() {
            Vec::new()
        } else {
            vec![caller_tools::MCP_SERVER_NAME]
        },
        json_schema: spec.output_schema.as_deref(),
        // In model mode, only the caller's tools exist, and the caller decides about them.
        hooks: (spec.mode == Mode::Agent).then_some(HookRegistration),
    }
}

/// Returns the fingerprint that two processes must share to be interchangeable in the pool.
pub(crate) fn pool_fingerprint(spec: &SessionSpec, version: &str) -> LaunchFingerprint {
    let whole = LaunchFingerprint::of(spec)
        .with(VERSION_COMPONENT, [version.as_bytes()])
        .with("rules", rules(spec).iter().map(String::as_bytes));
    match spec.mode {
        Mode::Agent => whole,
        Mode::Model => whole.without(&LATE_COMPONENTS),
    }
}

/// Returns the hash of everything we control that precedes the conversation, except the model.
pub(crate) fn prefix_sha256(spec: &SessionSpec, version: &str) -> String {
    prefix_fingerprint(spec, version)
        .with("rules", rules(spec).iter().map(String::as_bytes))
        .sha256()
}

fn rules(spec: &SessionSpec) -> Vec<String> {
    [allowed_rules(spec), vec![String::new()], disallowed_rules(spec)].concat()
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
