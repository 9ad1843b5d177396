//! Schemas that cannot be derived from types, because a type keeps part of the request raw until
//! its kind is known, or has a handwritten serializer. Only the kinds described here are
//! guaranteed; other kinds of blocks, items and tools are accepted too.

use angelia_core::model::{FailureKind, Verdict};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::super::dialect::content::IMAGE_MEDIA_TYPES;

/// `content` of a message of Messages.
pub(in crate::http) fn blocks(_: &mut SchemaGenerator) -> Schema {
    let image = json!({
        "type": "object",
        "properties": {
            "type": {"const": "image"},
            "source": {
                "type": "object",
                "properties": {
                    "type": {"const": "base64"},
                    "media_type": {"enum": IMAGE_MEDIA_TYPES},
                    "data": {"type": "string", "contentEncoding": "base64"},
                },
                "required": ["type", "media_type", "data"],
            },
        },
        "required": ["type", "source"],
    });
    let use_ = json!({
        "type": "object",
        "properties": {
            "type": {"const": "tool_use"},
            "id": {"type": "string", "minLength": 1},
            "name": {"type": "string", "minLength": 1},
            "input": {"type": "object"},
        },
        "required": ["type", "id", "name", "input"],
    });
    let result = json!({
        "type": "object",
        "properties": {
            "type": {"const": "tool_result"},
            "tool_use_id": {"type": "string", "minLength": 1},
            "content": text_or(&block("text", "text")),
            "is_error": {"type": "boolean"},
        },
        "required": ["type", "tool_use_id"],
    });
    let any = json!({"anyOf": [block("text", "text"), image, use_, result]});
    schema(text_or(&any))
}

/// A string, or blocks of text.
pub(in crate::http) fn texts(_: &mut SchemaGenerator) -> Schema {
    schema(text_or(&block("text", "text")))
}

/// `tools` of Messages.
pub(in crate::http) fn tools(_: &mut SchemaGenerator) -> Schema {
    list(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "description": {"type": "string"},
            "input_schema": {"type": "object"},
        },
        "required": ["name", "input_schema"],
    }))
}

/// `{"type": "json_schema", "schema": {…}}`
pub(in crate::http) fn format(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {"type": {"const": "json_schema"}, "schema": {"type": "object"}},
        "required": ["type", "schema"],
    })
}

pub(in crate::http) fn thinking(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {"type": {"enum": ["enabled", "adaptive", "disabled"]}},
        "required": ["type"],
    })
}

/// `messages` of Chat Completions.
pub(in crate::http) fn chat_messages(_: &mut SchemaGenerator) -> Schema {
    let image = json!({
        "type": "object",
        "properties": {
            "type": {"const": "image_url"},
            "image_url": {
                "type": "object",
                "properties": {"url": {"type": "string", "pattern": "^data:image/"}},
                "required": ["url"],
            },
        },
        "required": ["type", "image_url"],
    });
    let content = text_or(&json!({"anyOf": [block("text", "text"), image]}));
    let call = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "minLength": 1},
            "type": {"const": "function"},
            "function": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}},
                "required": ["name", "arguments"],
            },
        },
        "required": ["id", "type", "function"],
    });
    let prompt = json!({
        "type": "object",
        "properties": {"role": {"enum": ["system", "developer", "user"]}, "content": content},
        "required": ["role", "content"],
    });
    let answer = json!({
        "type": "object",
        "properties": {
            "role": {"const": "assistant"},
            "content": {"anyOf": [text_or(&block("text", "text")), {"type": "null"}]},
            "tool_calls": {"type": "array", "items": call},
        },
        "required": ["role"],
    });
    let result = json!({
        "type": "object",
        "properties": {
            "role": {"const": "tool"},
            "tool_call_id": {"type": "string", "minLength": 1},
            "content": text_or(&block("text", "text")),
        },
        "required": ["role", "tool_call_id", "content"],
    });
    list(&json!({"anyOf": [prompt, answer, result]}))
}

/// `tools` of Chat Completions.
pub(in crate::http) fn chat_tools(_: &mut SchemaGenerator) -> Schema {
    list(&json!({
        "type": "object",
        "properties": {"type": {"const": "function"}, "function": function()},
        "required": ["type", "function"],
    }))
}

/// `functions` of Chat Completions.
pub(in crate::http) fn functions(_: &mut SchemaGenerator) -> Schema {
    list(&function())
}

/// A tool choice: a keyword, or the name of a tool.
pub(in crate::http) fn choice(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"enum": ["auto", "none", "required"]}, {"type": "object"}]})
}

/// One stop word, or several.
pub(in crate::http) fn stop(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "maxItems": 64},
        {"type": "null"},
    ]})
}

/// `input` of Responses.
pub(in crate::http) fn input(_: &mut SchemaGenerator) -> Schema {
    let message = json!({
        "type": "object",
        "properties": {
            "type": {"const": "message"},
            "role": {"enum": ["system", "developer", "user", "assistant"]},
            "content": text_or(&block("input_text", "text")),
        },
        "required": ["role", "content"],
    });
    let call = json!({
        "type": "object",
        "properties": {
            "type": {"const": "function_call"},
            "call_id": {"type": "string", "minLength": 1},
            "name": {"type": "string", "minLength": 1},
            "arguments": {"type": "string"},
        },
        "required": ["type", "call_id", "name", "arguments"],
    });
    let result = json!({
        "type": "object",
        "properties": {
            "type": {"const": "function_call_output"},
            "call_id": {"type": "string", "minLength": 1},
            "output": text_or(&block("input_text", "text")),
        },
        "required": ["type", "call_id", "output"],
    });
    let items = json!({"anyOf": [message, call, result]});
    schema(text_or(&items))
}

/// `tools` of Responses.
pub(in crate::http) fn response_tools(_: &mut SchemaGenerator) -> Schema {
    let mut tool = function();
    tool["properties"]["type"] = json!({"const": "function"});
    tool["required"] = json!(["type", "name"]);
    list(&tool)
}

/// `text` of Responses.
pub(in crate::http) fn text_options(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "properties": {"format": {
        "type": "object",
        "properties": {
            "type": {"enum": ["text", "json_object", "json_schema"]},
            "schema": {"type": "object"},
        },
        "required": ["type"],
    }}})
}

/// The usage of a turn.
pub(in crate::http) fn usage(_: &mut SchemaGenerator) -> Schema {
    let count = json!({"type": "integer", "minimum": 0});
    let word = json!({"type": ["string", "null"]});
    json_schema!({
        "type": ["object", "null"],
        "properties": {
            "input_tokens": count,
            "output_tokens": count,
            "cache_read_tokens": count,
            "cache_write_tokens": count,
            "cost_usd": {"type": ["number", "null"]},
            "lane": word,
            "prefix_sha256": word,
        },
        "required": ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"],
    })
}

pub(in crate::http) fn text_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"]})
}

/// A text that is not blank.
pub(in crate::http) fn words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "\\S"})
}

pub(in crate::http) fn verdict(_: &mut SchemaGenerator) -> Schema {
    let words = Verdict::ALL.map(Verdict::as_str);
    json_schema!({"enum": words})
}

/// A failure.
pub(in crate::http) fn failure(_: &mut SchemaGenerator) -> Schema {
    let kinds = FailureKind::ALL.map(FailureKind::as_str);
    json_schema!({
        "type": ["object", "null"],
        "properties": {
            "kind": {"enum": kinds},
            "message": {"type": "string"},
            "hint": {"type": ["string", "null"]},
            "retry_after": {"type": ["integer", "null"], "description": "In seconds."},
        },
        "required": ["kind", "message", "hint", "retry_after"],
    })
}

fn function() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "description": {"type": "string"},
            "parameters": {"type": "object"},
        },
        "required": ["name"],
    })
}

/// A block whose only content is text.
fn block(kind: &str, field: &str) -> Value {
    json!({
        "type": "object",
        "properties": {"type": {"const": kind}, field: {"type": "string"}},
        "required": ["type", field],
    })
}

fn text_or(block: &Value) -> Value {
    json!({"anyOf": [{"type": "string"}, {"type": "array", "items": block}]})
}

fn list(item: &Value) -> Schema {
    json_schema!({"type": "array", "items": item})
}

fn schema(shape: Value) -> Schema {
    // Every schema here is an object, so the conversion cannot fail.
    shape.try_into().unwrap_or_default()
}
