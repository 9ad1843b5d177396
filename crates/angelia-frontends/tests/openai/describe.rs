//! Formats an [`Ask`] in a few lines, for snapshots.

use std::fmt::Write;

use angelia_core::model::{Content, MessagePart};
use angelia_frontends::http::dialect::{InvalidRequest, ModelRequest, OutputFormat};

pub(crate) fn format_request(ask: &ModelRequest) -> String {
    let mut text = format!("model: {}\n", ask.model);
    if let Some(system) = &ask.system {
        writeln!(text, "system: {system:?}").unwrap();
    }
    for message in &ask.messages {
        writeln!(text, "{:?}:", message.role).unwrap();
        for part in &message.parts {
            writeln!(text, "  {}", format_part(part)).unwrap();
        }
    }
    for tool in &ask.tools {
        let (name, description, schema) = (&tool.name, &tool.description, &tool.input_schema);
        writeln!(text, "tool: {name} {description:?} {schema}").unwrap();
    }
    writeln!(text, "tool choice: {:?}", ask.tool_choice).unwrap();
    match &ask.output_format {
        OutputFormat::Schema(schema) => writeln!(text, "output: {schema}").unwrap(),
        other => writeln!(text, "output: {other:?}").unwrap(),
    }
    let ModelRequest {
        max_tokens,
        stop_words: stop,
        stream,
        previous_turn: previous,
        is_utility,
        ..
    } = ask;
    write!(text, "max_tokens: {max_tokens:?}, stream: {stream}, ").unwrap();
    if !stop.is_empty() {
        write!(text, "stop: {stop:?}, ").unwrap();
    }
    write!(text, "previous: {previous:?}, utility: {is_utility}").unwrap();
    text
}

fn format_part(part: &MessagePart) -> String {
    match part {
        MessagePart::Content(content) => self::content(content),
        MessagePart::Thinking { text, .. } => format!("thinking {text:?}"),
        MessagePart::ToolUse { id, name, input } => format!("call {id} {name} {input}"),
        MessagePart::ToolResult { id, ok, content } => {
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

pub(crate) fn format_refusal(refused: &InvalidRequest) -> String {
    let field = refused.field.as_deref().unwrap_or("-");
    format!("[{field}] {}", refused.message)
}
