//! Streams as servers send them, and a printer for events.

use std::fmt::Write as _;

use angelia_executors::native::provider::{Api, ProviderEvent};

use crate::invariants::{check_events, decode_in_reads};

/// A stream of frames without names, as of Chat Completions.
pub(crate) fn chunks(frames: &[&str]) -> String {
    frames.iter().flat_map(|frame| ["data: ", frame, "\n\n"]).collect()
}

/// A stream of frames whose names are their types.
pub(crate) fn named(frames: &[&str]) -> String {
    let mut stream = String::new();
    for frame in frames {
        let value: serde_json::Value = serde_json::from_str(frame).unwrap_or_default();
        let name = value["type"].as_str().unwrap_or("message");
        stream.extend(["event: ", name, "\ndata: ", frame, "\n\n"]);
    }
    stream
}

/// Decodes a stream and prints one event per line.
pub(crate) fn decoded(api: Api, stream: &str) -> String {
    let events = decode_in_reads(api, stream.as_bytes(), &[]);
    check_events(api, &events);
    printed(&events)
}

pub(crate) fn printed(events: &[ProviderEvent]) -> String {
    let mut lines = String::new();
    for event in events {
        writeln!(lines, "{event:?}").unwrap();
    }
    lines
}

/// An answer of the Messages API with thinking, text and a tool call.
pub(crate) const MESSAGES_ANSWER: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"model-a","content":[],"stop_reason":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"I should look."}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwK"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Let me "}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"see 🦀."}}"#,
    r#"{"type":"content_block_stop","index":2}"#,
    r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a"}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":".rs\"}"}}"#,
    r#"{"type":"content_block_stop","index":3}"#,
    r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"status","input":{}}}"#,
    r#"{"type":"content_block_stop","index":4}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}"#,
    r#"{"type":"message_stop"}"#,
];

/// An answer of the Chat API with reasoning, text and two calls.
pub(crate) const CHAT_ANSWER: &[&str] = &[
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"model-c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning_content":"Two files."},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"I read 🦀 "},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"both."},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":""}}]},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a.rs\"}"}}]},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"read","arguments":"{\"path\":\"b.rs\"}"}}]},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    r#"{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":40,"total_tokens":1240,"prompt_tokens_details":{"cached_tokens":1024}}}"#,
    "[DONE]",
];

/// An answer of the Responses API with sealed reasoning, text and a call.
pub(crate) const RESPONSES_ANSWER: &[&str] = &[
    r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"model-r","status":"in_progress","output":[]}}"#,
    r#"{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","status":"in_progress","output":[]}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
    r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Look first."}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":1,"delta":"Then act."}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Look first."},{"type":"summary_text","text":"Then act."}],"encrypted_content":"gAAA"}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}"#,
    r#"{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}"#,
    r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"On it 🦀"}"#,
    r#"{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"On it 🦀"}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"On it 🦀","annotations":[]}]}}"#,
    r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":""}}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"path\":\"a"}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":".rs\"}"}"#,
    r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"path\":\"a.rs\"}"}"#,
    r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a.rs\"}"}}"#,
    r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":328,"input_tokens_details":{"cached_tokens":300},"output_tokens":52,"output_tokens_details":{"reasoning_tokens":10}}}}"#,
];
