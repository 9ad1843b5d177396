//! For people who come from Hermes: applies the `HERMES_CLAUDE_CODE_*` variables on top of the
//! `claude_code_bridge` block in the file.

use std::cell::RefCell;

use super::{
    environment::Environment,
    node::{Node, ValueOrigin},
    problem::Problem,
    setting::{Setting as _, ValueCursor},
};

/// The block's key in the file, and the name of the profile that it becomes.
pub(crate) const BRIDGE_KEY: &str = "claude_code_bridge";

pub(crate) const VARIABLE_PREFIX: &str = "HERMES_CLAUDE_CODE_";
const SWITCH_VARIABLE: &str = "HERMES_CLAUDE_CODE_BRIDGE";

/// The variable's name after the prefix, and the key in the block that it sets.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("BRIDGE", "enabled"),
    ("MODEL", "model"),
    ("CWD", "cwd"),
    ("SYSTEM_PROMPT", "system_prompt_path"),
    ("SYSTEM_PROMPT_PATH", "system_prompt_path"),
    ("ALLOWED_TOOLS", "allowed_tools"),
    ("DISALLOWED_TOOLS", "disallowed_tools"),
    ("TOOLS", "tools"),
    ("EXCLUDE_DYNAMIC_SYSTEM_PROMPT_SECTIONS", "exclude_dynamic_system_prompt_sections"),
    ("RESUME_CLAUDE_SESSIONS", "resume_claude_sessions"),
    ("TIMEOUT", "timeout"),
    ("FIRST_EVENT_TIMEOUT", "first_event_timeout"),
    ("INTER_EVENT_SILENCE_TIMEOUT", "inter_event_silence_timeout"),
    ("BUDGET_SECONDS", "budget_seconds"),
    ("BUDGET_TOOL_COUNT", "budget_tool_count"),
    ("AUTO_RESUME_BUDGET_GUARD", "auto_resume_budget_guard"),
    ("AUTO_RESUME_MAX_RESUMES", "auto_resume_max_resumes"),
];

/// Applies the variables on top of the block. If there is no block and the switch is off, ignores
/// the other variables, because they are meant for Hermes itself.
pub(crate) fn apply_variables(tree: &mut Node, environment: &Environment) -> Vec<Problem> {
    let has_block = tree.get(BRIDGE_KEY).is_some_and(|block| !block.is_null());
    if !has_block && !is_switched_on(environment) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (suffix, key) in VARIABLES {
        let name = format!("{VARIABLE_PREFIX}{suffix}");
        let Some(value) = environment.non_empty(&name) else {
            continue;
        };
        let origin = ValueOrigin::Variable(name.into());
        match value.to_str() {
            Some(text) => tree.set(&[BRIDGE_KEY, key], Node::untyped(text.trim(), origin)),
            None => problems.push(Problem::new(
                &origin,
                &format!("{BRIDGE_KEY}.{key}"),
                "is not UTF-8 text",
            )),
        }
    }
    problems
}

/// Returns whether the switch is on. An unreadable value counts as on, so that it is then reported
/// by name.
fn is_switched_on(environment: &Environment) -> bool {
    let Some(value) = environment.non_empty(SWITCH_VARIABLE).and_then(|value| value.to_str())
    else {
        return false;
    };
    let node = Node::untyped(value.trim(), ValueOrigin::Variable(SWITCH_VARIABLE.into()));
    bool::read(&ValueCursor::root(&node, &RefCell::default())).unwrap_or(true)
}

/// Returns warnings about variables that are set but have no effect.
pub(crate) fn warnings(tree: &Node, environment: &Environment) -> Vec<Problem> {
    if tree.get(BRIDGE_KEY).is_none_or(Node::is_null) {
        return Vec::new();
    }
    // Other programs use the same prefix, so an unknown variable is not an error.
    let strangers = environment.iter().filter_map(|(name, _)| {
        let suffix = name.to_str()?.strip_prefix(VARIABLE_PREFIX)?;
        let known = VARIABLES.iter().any(|(known, _)| *known == suffix);
        let origin = ValueOrigin::Variable(name.to_str()?.into());
        (!known)
            .then(|| Problem::at_origin(origin, "is not one of the bridge's variables; ignored"))
    });
    strangers.collect()
}
