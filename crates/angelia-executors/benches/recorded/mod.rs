//! Lines as Claude Code 2.1.325 writes them, and a translator that is ready for them.

use angelia_executors::claude::translate::{StreamTranslator, TranslatorContext};

/// The number of lines translated in a row.
pub(crate) const LINES: usize = 100;

const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/workspace","session_id":"d6107fe7-8c45-4d55-ba99-5233d01ea518","model":"claude-opus-5-5","apiKeySource":"ANTHROPIC_API_KEY","uuid":"57eda163-be00-40e8-80e3-0ea7b5afb0cb"}"#;

const MESSAGE_START: &str = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg_fake0001","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":null}},"session_id":"d6107fe7-8c45-4d55-ba99-5233d01ea518","parent_tool_use_id":null,"uuid":"038267e6-2609-4f5d-98a4-7c29fe57ddf1","api_message_id":"msg_fake0001"}"#;

const BLOCK_START: &str = r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},"session_id":"d6107fe7-8c45-4d55-ba99-5233d01ea518","parent_tool_use_id":null,"uuid":"5fc0e9f6-b7b2-4d39-b972-d4afd7091554","api_message_id":"msg_fake0001"}"#;

pub(crate) const TEXT_DELTA: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello fr"}},"session_id":"d6107fe7-8c45-4d55-ba99-5233d01ea518","parent_tool_use_id":null,"uuid":"cae69453-c369-4234-824e-1df523f950ce","api_message_id":"msg_fake0001"}"#;

pub(crate) const SKIPPED: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"do it\", \"subagent_type\": \"general-purpose\"}"}},"session_id":"aa26ad9e-51e4-4f22-b8ba-0096ea3424f3","parent_tool_use_id":null,"uuid":"963ddf3d-2034-4984-b542-0346ca223ce6","api_message_id":"msg_fake0109"}"#;

pub(crate) const TOOL_CALL: &str = r#"{"type":"assistant","message":{"id":"msg_fake0001","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"toolu_fake0010","name":"Bash","input":{"command":"mkdir -p foo && echo created > foo/x.txt","description":"make file"}}],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"d6107fe7-8c45-4d55-ba99-5233d01ea518","uuid":"e12abfcc-35c7-43b4-801e-0a2927ae52a2","timestamp":"2026-11-15T19:27:10.013Z"}"#;

pub(crate) const RESULT: &str = r#"{"duration_api_ms":29,"stop_reason":"end_turn","session_id":"d6107fe7-8c45-4d55-ba99-5233d01ea518","total_cost_usd":0.002,"usage":{"input_tokens":11,"output_tokens":25},"modelUsage":{"claude-opus-5-5":{"inputTokens":11,"outputTokens":25,"costUSD":0.002}},"terminal_reason":"completed","is_error":false,"num_turns":1,"subtype":"success","result":"Hello from the fake model.","type":"result","user_message_uuids":["another"],"uuid":"47"}"#;

/// Returns a translator in the middle of a message of its first turn.
pub(crate) fn translator() -> StreamTranslator {
    let mut translator = StreamTranslator::new(TranslatorContext {
        profile: "default".into(),
        executor: "claude".into(),
        resumed: false,
        warm: true,
        prefix_sha256: None,
        cwd: "/workspace".into(),
        home: "/home/user".into(),
        caller_tools: Vec::new(),
    });
    translator.begin_turn("bbbbbbbb-1111-4111-8111-000000000001");
    let mut out = Vec::new();
    for line in [INIT, MESSAGE_START, BLOCK_START] {
        translator.translate_line(line.as_bytes(), &mut out);
    }
    translator
}
