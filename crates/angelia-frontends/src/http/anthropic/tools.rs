//! The caller's tools, and the choice of which ones the model may or must call.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{CallerTool, RawJson, ToolChoice};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::dialect::{InvalidRequest, json},
    wire::MessagesToolChoice,
};

#[derive(Debug, Deserialize)]
struct ToolHead<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ToolLabel {
    name: Arc<str>,
    description: Option<Arc<str>>,
}

/// Tools that the vendor defines and the caller runs: `type` prefix, description and input schema.
/// Requests do not contain these definitions.
const VENDOR_TOOLS: [(&str, &str, &str); 4] = [
    (
        "bash_",
        "Runs a command in a shell that lives as long as the conversation.",
        r#"{"type":"object","properties":{"command":{"type":"string"},"restart":{"type":"boolean","description":"Start the shell anew"}}}"#,
    ),
    (
        "text_editor_",
        "Views, creates and changes text files.",
        r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string"},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}}},"required":["command","path"]}"#,
    ),
    (
        "memory_",
        "Keeps notes in files below /memories.",
        r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string"},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]}"#,
    ),
    (
        "computer_",
        "Uses a screen, a mouse and a keyboard; take a screenshot first.",
        r#"{"type":"object","properties":{"action":{"type":"string"},"coordinate":{"type":"array","items":{"type":"integer"}},"text":{"type":"string"},"duration":{"type":"number"},"scroll_direction":{"type":"string"},"scroll_amount":{"type":"integer"}},"required":["action"]}"#,
    ),
];

/// Decodes the tools that the caller runs. Tools that the vendor would run itself, such as web
/// search, are accepted but not offered, because they cannot run here.
pub(super) fn decode_tools(raw: &[&RawValue]) -> Result<Vec<CallerTool>, InvalidRequest> {
    let mut tools: Vec<CallerTool> = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let place = format!("tools.{index}");
        if !json::is_object(raw) {
            return Err(InvalidRequest::in_field(&place, "this must be a tool"));
        }
        let Some(tool) = tool(raw, &place)? else {
            continue;
        };
        if !tools.iter().any(|known| known.name == tool.name) {
            tools.push(tool);
        }
    }
    Ok(tools)
}

fn tool(raw: &RawValue, place: &str) -> Result<Option<CallerTool>, InvalidRequest> {
    let head: ToolHead<'_> = json::parse_part(raw, place)?;
    let kind = head.kind.as_deref().unwrap_or("custom");
    let defined = VENDOR_TOOLS.iter().find(|(prefix, ..)| kind.starts_with(prefix));
    let (description, schema): (&str, RawJson) = match (head.input_schema, defined) {
        (Some(schema), _) if json::is_object(schema) => ("", schema.to_owned().into()),
        (Some(_), _) => {
            let place = format!("{place}.input_schema");
            return Err(InvalidRequest::in_field(
                &place,
                "this must be a JSON schema of an object",
            ));
        }
        (None, Some((_, description, schema))) => (*description, json::literal(schema)),
        (None, None) if kind == "custom" => ("", json::literal(r#"{"type":"object"}"#)),
        (None, None) => return Ok(None),
    };
    let tool: ToolLabel = json::parse_part(raw, place)?;
    if tool.name.is_empty() {
        return Err(InvalidRequest::in_field(format!("{place}.name"), "a tool needs a name"));
    }
    Ok(Some(CallerTool {
        name: tool.name,
        description: tool.description.unwrap_or_else(|| description.into()),
        input_schema: schema,
    }))
}

pub(super) fn choice(
    choice: Option<MessagesToolChoice>,
    tools: &[CallerTool],
) -> Result<ToolChoice, InvalidRequest> {
    let Some(MessagesToolChoice { kind, name }) = choice else {
        return Ok(ToolChoice::Auto);
    };
    match kind.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "any" if tools.is_empty() => Err(InvalidRequest::in_field(
            "tool_choice",
            "there is no tool that the model could be forced to call",
        )),
        "any" => Ok(ToolChoice::Required),
        "tool" => {
            let known = name.filter(|name| tools.iter().any(|tool| tool.name == *name));
            let known = known.ok_or_else(|| {
                InvalidRequest::in_field(
                    "tool_choice.name",
                    "this must be the name of one of the caller's own `tools`",
                )
            })?;
            Ok(ToolChoice::Named(known))
        }
        other => {
            let why = format!("`{other}` is not known; use auto, any, tool or none");
            Err(InvalidRequest::in_field("tool_choice.type", why))
        }
    }
}
