//! Formats an [`Ask`] in a few lines, for snapshots.

use std::fmt::Write;

use angelia_core::model::{Content, Part};
use angelia_frontends::http::dialect::{Ask, Output, Refused};

pub(crate) fn ask(ask: &Ask) -> String {
    let mut text = format!("model: {}\n", ask.model);
    if let Some(system) = &ask.system {
        writeln!(text, "system: {system:?}").unwrap();
    }
    for message in &ask.messages {
        writeln!(text, "{:?}:", message.role).unwrap();
        for part in &message.parts {
            writeln!(text, "  {}", one(part)).unwrap();
        }
    }
    for tool in &ask.tools {
        let (name, description, schema) = (&tool.name, &tool.description, &tool.input_schema);
        writeln!(text, "tool: {name} {description:?} {schema}").unwrap();
    }
    writeln!(text, "tool choice: {:?}", ask.tool_choice).unwrap();
    match &ask.output {
        Output::Schema(schema) => writeln!(text, "output: {schema}").unwrap(),
        other => writeln!(text, "output: {other:?}").unwrap(),
    }
    let Ask { max_tokens, stop, stream, previous, is_utility, .. } = ask;
    write!(text, "max_tokens: {max_tokens:?}, stream: {stream}, ").unwrap();
    if !stop.is_empty() {
        write!(text, "stop: {stop:?}, ").unwrap();
    }
    write!(text, "previous: {previous:?}, utility: {is_utility}").unwrap();
    text
}

fn one(part: &Part) -> String {
    match part {
        Part::Content(content) => self::content(content),
        Part::Thinking { text, .. } => format!("thinking {text:?}"),
        Part::ToolUse { id, name, input } => format!("call {id} {name} {input}"),
        Part::ToolResult { id, ok, content } => {
            let content: Vec<String> = content.iter().map(self::content).collect();
            format!("result {id} ok={ok} [{}]", content.join(", "))
        }
    }
}

fn content(content: &Content) -> String {
    match content {
        Content::Text(text) => format!("{text:?}"),
        Content::Image { media_type, data } => format!("{media_type} {data:?}"),
    }
}

pub(crate) fn refused(refused: &Refused) -> String {
    let field = refused.field.as_deref().unwrap_or("-");
    format!("[{field}] {}", refused.message)
}
