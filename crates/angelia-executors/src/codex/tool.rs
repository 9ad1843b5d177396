//! Describes items that are tool calls: their name, class, title and outcome.

use std::{borrow::Cow, fmt::Write as _, sync::Arc};

use angelia_core::model::{RawJson, ToolClass};
use serde_json::{Value, json, value::RawValue};

use super::{
    patch::PatchSummary,
    protocol::item::{ItemPart, ThreadItem},
    shell,
};
use crate::truncation::{first_line, truncate_chars};

/// The names of tools, as the model knows them.
pub(crate) const SHELL_TOOL: &str = "shell";
pub(crate) const PATCH_TOOL: &str = "apply_patch";

/// How many characters of structured output are shown if there is no text.
const MAX_STRUCTURED_CHARS: usize = 4000;

/// A tool call, as clients see it.
#[derive(Clone, Debug)]
pub(crate) struct ToolDescription {
    pub(crate) name: Arc<str>,
    pub(crate) class: ToolClass,
    pub(crate) title: Arc<str>,
    pub(crate) input: RawJson,
}

/// Returns the name of an MCP tool in permission patterns and records.
pub(crate) fn mcp_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// Describes a tool call. Returns `None` if the item is not a tool call.
pub(crate) fn describe(item: &ThreadItem<'_>, raw: &RawValue) -> Option<ToolDescription> {
    let described = |name: &str, class, title: &str, input: RawJson| {
        Some(ToolDescription {
            name: name.into(),
            class,
            title: first_line(title).map_or_else(|| name.into(), Into::into),
            input,
        })
    };
    let whole = || RawJson::from(raw.to_owned());
    match item.kind() {
        "commandExecution" => {
            let command = shell::unwrap_script(item.command.as_str().unwrap_or_default());
            let input = json!({"command": command, "cwd": item.cwd.as_str()});
            described(SHELL_TOOL, ToolClass::Execute, &command, to_raw_json(&input))
        }
        "fileChange" => {
            let changes = PatchSummary::parse(item.changes);
            let list = item.changes.unwrap_or(RawValue::NULL);
            described(
                PATCH_TOOL,
                ToolClass::Edit,
                &changes.title(),
                wrap_in_object("changes", list),
            )
        }
        "mcpToolCall" => {
            let server = item.server.as_str().unwrap_or("unknown");
            let tool = item.tool.as_str().unwrap_or("unknown");
            let arguments = item.arguments.unwrap_or(RawValue::NULL).to_owned().into();
            let name = mcp_name(server, tool);
            described(&name, ToolClass::Other, &format!("{server}: {tool}"), arguments)
        }
        "dynamicToolCall" => {
            let tool = item.tool.as_str().unwrap_or("unknown");
            let arguments = item.arguments.unwrap_or(RawValue::NULL).to_owned().into();
            described(tool, ToolClass::Other, tool, arguments)
        }
        "webSearch" => {
            let about = search_query(item);
            let title = format!("search the web: {}", about.as_deref().unwrap_or("…"));
            let input = to_raw_json(&json!({"query": about}));
            described("web_search", ToolClass::Other, &title, input)
        }
        "imageView" => {
            let path = item.path.as_str().unwrap_or("an image");
            let input = to_raw_json(&json!({"path": path}));
            described("view_image", ToolClass::Read, &format!("view {path}"), input)
        }
        "imageGeneration" => {
            let prompt = item.revised_prompt.as_str().unwrap_or("…");
            let title = format!("make an image: {prompt}");
            described("image_generation", ToolClass::Other, &title, whole())
        }
        "collabAgentToolCall" => {
            let tool = item.tool.as_str().unwrap_or("sub-agent");
            let title = match item.prompt.as_str().and_then(first_line) {
                Some(prompt) => format!("{tool}: {prompt}"),
                None => tool.to_owned(),
            };
            described(tool, ToolClass::Other, &title, whole())
        }
        "sleep" => {
            let waits = item.duration_ms.get().unwrap_or(0);
            described("sleep", ToolClass::Other, &format!("wait {waits} ms"), whole())
        }
        _ => None,
    }
}

/// Returns the query of a web search, if it is already known.
pub(crate) fn search_query(item: &ThreadItem<'_>) -> Option<String> {
    let action = item.action.0.as_ref();
    let queries = action.and_then(|action| action.queries.0.as_ref());
    let candidates = [
        item.query.as_str(),
        action.and_then(|action| action.query.as_str()),
        queries.and_then(|queries| queries.first()).map(|query| &**query),
        action.and_then(|action| action.url.as_str()),
        action.and_then(|action| action.pattern.as_str()),
    ];
    let mut texts = candidates.into_iter().flatten().filter(|text| !text.is_empty());
    texts.next().map(str::to_owned)
}

/// Returns the outcome of a completed item: whether it succeeded, and its output.
pub(crate) fn outcome(item: &ThreadItem<'_>) -> (bool, String) {
    let status = item.status.as_str();
    let ok = !matches!(status, Some("failed" | "declined" | "interrupted" | "inProgress"));
    let text = match item.kind() {
        "commandExecution" => return command_outcome(item, ok),
        "fileChange" => match status {
            Some("declined") => "declined".to_owned(),
            _ => PatchSummary::parse(item.changes).file_list(),
        },
        "mcpToolCall" => match (&item.result.0, item.error.0.as_ref()) {
            (_, Some(error)) => error.message.as_str().unwrap_or("failed").to_owned(),
            (Some(result), None) => {
                let parts = result.content.0.as_deref().unwrap_or_default();
                let structured = result.structured_content.map(RawValue::get);
                match (join_parts(parts), structured) {
                    (text, Some(structured)) if text.is_empty() && structured != "null" => {
                        truncate_chars(structured, MAX_STRUCTURED_CHARS).into_owned()
                    }
                    (text, _) => text,
                }
            }
            (None, None) => String::new(),
        },
        "dynamicToolCall" => {
            let text = join_parts(item.content_items.0.as_deref().unwrap_or_default());
            return (ok && item.success.get() != Some(false), text);
        }
        "imageView" => item.path.as_str().unwrap_or_default().to_owned(),
        "imageGeneration" => item.saved_path.as_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    (ok, text)
}

fn command_outcome(item: &ThreadItem<'_>, ok: bool) -> (bool, String) {
    let mut text = item.aggregated_output.as_str().unwrap_or_default().to_owned();
    let note = match (item.status.as_str(), item.exit_code.get()) {
        (Some("declined"), _) => Cow::Borrowed("declined"),
        (_, Some(code)) if code != 0 => format!("exit code {code}").into(),
        (Some("failed"), None) => "did not run".into(),
        _ => return (ok, text),
    };
    if text.is_empty() {
        return (false, note.into_owned());
    }
    let line = if text.ends_with('\n') { "" } else { "\n" };
    let _infallible = write!(text, "{line}[{note}]");
    (false, text)
}

/// Joins the texts of an output. A part without text is shown as its type.
fn join_parts(parts: &[ItemPart<'_>]) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push('\n');
        }
        match part.text.as_str() {
            Some(said) => text.push_str(said),
            None => {
                let _infallible = write!(text, "[{}]", part.kind.as_str().unwrap_or("unknown"));
            }
        }
    }
    text
}

pub(crate) fn to_raw_json(value: &Value) -> RawJson {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()).into()
}

/// Returns `{"key": raw}`, with the bytes of `raw` unchanged.
pub(crate) fn wrap_in_object(key: &str, raw: &RawValue) -> RawJson {
    let text = format!("{{\"{key}\":{}}}", raw.get());
    RawValue::from_string(text).map_or_else(|_| raw.to_owned().into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(json: &str, look: impl FnOnce(&ThreadItem<'_>, &RawValue) -> T) -> T {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        look(&ThreadItem::parse(&raw), &raw)
    }

    fn title(json: &str) -> Option<String> {
        with(json, |item, raw| {
            describe(item, raw).map(|told| format!("{} {}", told.name, told.title))
        })
    }

    #[test]
    fn titles_say_what_it_is_about() {
        let cases = [
            (
                r#"{"type":"commandExecution","command":"/bin/bash -lc 'ls -l\npwd'"}"#,
                Some("shell ls -l …"),
            ),
            (r#"{"type":"commandExecution"}"#, Some("shell shell")),
            (
                r#"{"type":"fileChange","changes":[{"path":"/a","kind":{"type":"add"},"diff":"x"}]}"#,
                Some("apply_patch add /a"),
            ),
            (r#"{"type":"fileChange","changes":7}"#, Some("apply_patch change 0 files")),
            (
                r#"{"type":"mcpToolCall","server":"docs","tool":"find"}"#,
                Some("mcp__docs__find docs: find"),
            ),
            (
                r#"{"type":"webSearch","query":"","action":{"type":"openPage","url":"http://x"}}"#,
                Some("web_search search the web: http://x"),
            ),
            (r#"{"type":"imageView","path":"/a.png"}"#, Some("view_image view /a.png")),
            (
                r#"{"type":"collabAgentToolCall","tool":"spawnAgent","prompt":"look\naround"}"#,
                Some("spawnAgent spawnAgent: look …"),
            ),
            (r#"{"type":"agentMessage","text":"hi"}"#, None),
            (r#"{"type":"brandNew"}"#, None),
        ];
        for (json, expected) in cases {
            assert_eq!(title(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn outcomes_say_how_it_went() {
        let cases = [
            (r#""status":"completed","exitCode":0,"aggregatedOutput":"a\n""#, (true, "a\n")),
            (
                r#""status":"failed","exitCode":3,"aggregatedOutput":"a\n""#,
                (false, "a\n[exit code 3]"),
            ),
            (
                r#""status":"failed","exitCode":3,"aggregatedOutput":"a""#,
                (false, "a\n[exit code 3]"),
            ),
            (r#""status":"failed","exitCode":3"#, (false, "exit code 3")),
            (r#""status":"declined""#, (false, "declined")),
            (r#""status":"failed""#, (false, "did not run")),
        ];
        for (fields, (ok, text)) in cases {
            let json = format!(r#"{{"type":"commandExecution",{fields}}}"#);
            let got = with(&json, |item, _| outcome(item));
            assert_eq!(got, (ok, text.to_owned()), "{json}");
        }
        let mcp = r#"{"type":"mcpToolCall","status":"completed","result":{"content":[
            {"type":"text","text":"a"},{"type":"image","data":"x"}]}}"#;
        assert_eq!(with(mcp, |item, _| outcome(item)), (true, "a\n[image]".to_owned()));
    }
}
