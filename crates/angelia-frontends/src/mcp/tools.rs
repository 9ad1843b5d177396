//! The tool definitions.

use angelia_core::ports::DelegateProfile;
use rmcp::model::{Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::arguments::{
    BusSendArgs, DelegateArgs, NoArgs, PageArgs, ShowSessionArgs, arguments_schema,
};

pub(super) const DELEGATE: &str = "delegate";
pub(super) const SESSIONS_LIST: &str = "sessions_list";
pub(super) const SESSIONS_SHOW: &str = "sessions_show";
pub(super) const APPROVALS_PENDING: &str = "approvals_pending";
pub(super) const BUS_SEND: &str = "bus_send";
pub(super) const BUS_STATUS: &str = "bus_status";
pub(super) const BUS_INFO: &str = "bus_info";

/// Returns all tools. The result depends only on the profile, not on the running turns, because
/// providers cache the tool definitions as part of the prompt.
pub(super) fn all_tools(delegates: &[DelegateProfile]) -> Vec<Tool> {
    vec![
        delegate_tool(delegates),
        read_only_tool::<PageArgs>(
            SESSIONS_LIST,
            "Conversations that Angelia has recorded, newest first: for an agent its own and those \
             it handed work to.",
        ),
        read_only_tool::<ShowSessionArgs>(
            SESSIONS_SHOW,
            "One recorded conversation with its turns: what was asked, what was answered, how it \
             ended.",
        ),
        read_only_tool::<PageArgs>(
            APPROVALS_PENDING,
            "What agents wait for until the owner decides. It can only be read here: the owner \
             decides with `angelia approvals`.",
        ),
        write_tool::<BusSendArgs>(
            BUS_SEND,
            "Send one message to an endpoint of the message bus. It is kept until its receiver \
             has it; the answer says what became of it.",
        ),
        read_only_tool::<NoArgs>(
            BUS_STATUS,
            "Whether the message bus runs, and which endpoints it knows.",
        ),
        read_only_tool::<NoArgs>(
            BUS_INFO,
            "The name under which this session sends and can be reached on the message bus, and \
             the session's id.",
        ),
    ]
}

fn delegate_tool(delegates: &[DelegateProfile]) -> Tool {
    let mut about =
        "Hand a task to another agent and get its answer. The other agent works on its \
                     own, with permissions that are never wider than yours, and knows nothing of \
                     this conversation. "
            .to_owned();
    if delegates.is_empty() {
        about.push_str("This profile may hand work to nobody (delegate_to is empty).");
    } else {
        about.push_str("Profiles: ");
        let each = delegates.iter();
        let each: Vec<String> = each.map(|one| format!("`{}` ({})", one.name, one.about)).collect();
        about.push_str(&each.join(", "));
        about.push('.');
    }
    let mut schema = arguments_schema::<DelegateArgs>();
    if let Some(profile) =
        schema.get_mut("properties").and_then(|properties| properties.get_mut("profile"))
        && !delegates.is_empty()
    {
        let names: Vec<&str> = delegates.iter().map(|one| &*one.name).collect();
        profile["enum"] = json!(names);
    }
    Tool::new(DELEGATE, about, schema).with_annotations(
        ToolAnnotations::new()
            .read_only(false)
            .destructive(false)
            .idempotent(false)
            .open_world(true),
    )
}

fn read_only_tool<T: JsonSchema>(name: &'static str, about: &'static str) -> Tool {
    Tool::new(name, about, arguments_schema::<T>())
        .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

fn write_tool<T: JsonSchema>(name: &'static str, about: &'static str) -> Tool {
    Tool::new(name, about, arguments_schema::<T>()).with_annotations(
        ToolAnnotations::new().read_only(false).destructive(false).open_world(false),
    )
}

/// Returns a result as text for the model, which reads plain JSON.
pub(super) fn json_text(value: &Value) -> String {
    value.to_string()
}
