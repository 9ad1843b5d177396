//! One turn: executes the plan in the prompt.

use std::io;

use angelia_executors::scripted_claude::{
    ApiFailure, BlockChannel, ControlReply, EarlyExit, PermissionVerdict, ScriptedTurn,
    ToolRequest, TurnAbort, TurnEnding, UserMessage, content_text,
};
use serde_json::{Value, json};

use crate::{
    options::CliOptions,
    plan::{AbnormalEnd, TurnPlan},
};

pub(crate) fn run(
    turn: &mut ScriptedTurn<'_>,
    options: &CliOptions,
) -> Result<TurnEnding, TurnAbort> {
    let plan = TurnPlan::parse(&turn.prompt(), options.words);
    if plan.native {
        turn.write_line(json!({"type": "brand_new", "payload": {"answer": 42}}))?;
    }
    if options.replay {
        write_replay(turn)?;
    }
    if let Some(status) = plan.status {
        return Ok(TurnEnding::Failed(api_failure(status)));
    }
    for (name, input) in &plan.calls {
        call_tool(turn, options, name, input)?;
    }
    if plan.think {
        turn.write_text(BlockChannel::Reasoning, "Let me think.")?;
    }
    for (position, chunk) in plan.chunks.iter().enumerate() {
        if position > 0
            && let Some(pause) = plan.pause
        {
            turn.handle_input_for(pause)?;
        }
        turn.write_text(BlockChannel::Answer, chunk)?;
        match plan.end {
            None => {}
            Some(AbnormalEnd::Hang) => turn.hang()?,
            Some(AbnormalEnd::Exit(code)) => return Err(TurnAbort::Exit(EarlyExit::Code(code))),
            Some(AbnormalEnd::Die) => die(turn)?,
        }
    }
    Ok(TurnEnding::Done)
}

/// Repeats the user's messages.
fn write_replay(turn: &mut ScriptedTurn<'_>) -> io::Result<()> {
    let session = turn.session();
    let echo = |message: &UserMessage| {
        json!({"type": "user", "message": {"role": "user", "content": message.content},
            "parent_tool_use_id": null, "isReplay": true, "session_id": session,
            "uuid": message.uuid})
    };
    let echoes: Vec<Value> = turn.user_messages().iter().map(echo).collect();
    echoes.iter().try_for_each(|echo| turn.write_raw_line(echo))
}

fn call_tool(
    turn: &mut ScriptedTurn<'_>,
    options: &CliOptions,
    name: &str,
    input: &Value,
) -> Result<(), TurnAbort> {
    let id = &turn.write_tool_call(name, input)?;
    let allowed = !options.asks || options.allowed.split(',').any(|allowed| allowed == name);
    let (text, ok) = match name.strip_prefix("mcp__client__") {
        Some(name) => call_client(turn, id, name, input)?,
        None if allowed => (command(input), true),
        None => {
            let rules = json!([{"toolName": name}]);
            let more = json!({"description": input["description"],
                "permission_suggestions": [{"type": "addRules", "rules": rules,
                    "behavior": "allow", "destination": "localSettings"}]});
            match turn.request_permission(ToolRequest { id, name, input }, more)? {
                PermissionVerdict::Allowed { input } => (command(&input), true),
                PermissionVerdict::Denied { why } | PermissionVerdict::Invalid { why } => {
                    (why, false)
                }
            }
        }
    };
    Ok(turn.write_tool_result(id, &text, ok)?)
}

/// Calls one of the client's own tools: the client acts as the MCP server and may take its time.
fn call_client(
    turn: &mut ScriptedTurn<'_>,
    id: &str,
    name: &str,
    input: &Value,
) -> Result<(String, bool), TurnAbort> {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": name, "arguments": input, "_meta": {"claudecode/toolUseId": id}}});
    let request = json!({"subtype": "mcp_message", "server_name": "client", "message": message});
    Ok(match turn.send_request(&request)? {
        ControlReply::InputClosed => ("Stream closed".to_owned(), false),
        ControlReply::Received(response) => {
            let result = &response["response"]["mcp_response"]["result"];
            (content_text(&result["content"]), result["isError"] != true)
        }
    })
}

/// Returns the result of a tool, which is the text of its command.
fn command(input: &Value) -> String {
    input["command"].as_str().unwrap_or("ok").to_owned()
}

/// Kills this process in the middle of a line.
fn die(turn: &mut ScriptedTurn<'_>) -> io::Result<()> {
    turn.write_broken_line(br#"{"type":"assist"#)?;
    let own = rustix::process::getpid();
    Ok(rustix::process::kill_process(own, rustix::process::Signal::KILL)?)
}

/// Returns the failure that the CLI reports when the model's service answers with this status.
fn api_failure(status: u16) -> ApiFailure {
    let (error, text) = match status {
        401 => ("authentication_failed", "Invalid API key · Fix external API key"),
        404 => ("model_not_found", "There's an issue with the selected model."),
        429 => ("rate_limit", "API Error: Request rejected (429)"),
        500.. => ("server_error", "API Error: server-side issue"),
        _ => ("unknown", "API Error"),
    };
    ApiFailure { error, status: Some(status), text, stop_reason: "stop_sequence" }
}
