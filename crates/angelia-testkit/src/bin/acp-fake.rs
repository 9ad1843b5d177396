//! An ACP agent that follows the instructions in its prompts, for behaviour that no real agent can
//! be made to show. A prompt is a script with one step per line:
//!
//! | step | |
//! |---|---|
//! | `> {…}` | sends this message; `$S` in it stands for the session |
//! | `<` | waits for the client's next message and repeats it as text |
//! | `say TEXT` | sends it as a text update |
//! | `. REASON` | answers the prompt with this stop reason and some usage |
//! | `! CODE TEXT` | answers the prompt with this error |
//! | `raw TEXT` | writes the line unchanged |
//! | `flood N` | sends N text updates |
//! | `stderr TEXT` `die` `hang` | writes to stderr, exits, waits for a cancel |
//! | `ignore` | waits forever and ignores every message |
//!
//! A prompt without a step that ends it is answered with `end_turn`. Arguments: `--greeting JSON`
//! is merged into the answer to `initialize`; `--refuse METHOD` answers that method with "not
//! logged in"; `--silent METHOD` never answers it; `--replay-late` replays a loaded conversation
//! after the answer instead of before it.

use std::{
    io::{self, BufRead as _, Write as _},
    process::ExitCode,
};

use serde_json::{Value, json};

const SESSION: &str = "fake-session";

#[derive(Default)]
struct FakeAcpAgent {
    greeting: Option<Value>,
    refused: Vec<String>,
    silent: Vec<String>,
    replays_late: bool,
    prompts: usize,
}

fn main() -> ExitCode {
    let mut agent = FakeAcpAgent::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--greeting" => agent.greeting = serde_json::from_str(&value()).ok(),
            "--refuse" => agent.refused.push(value()),
            "--silent" => agent.silent.push(value()),
            "--replay-late" => agent.replays_late = true,
            _ => return ExitCode::from(2),
        }
    }
    while let Some(message) = read_message() {
        if agent.handle(&message).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Reads the next message. Returns `None` when the client has closed stdin.
fn read_message() -> Option<Value> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line).ok()?;
    (count > 0).then(|| serde_json::from_str(&line).unwrap_or_default())
}

fn write_message(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}

fn write_text_chunk(text: &str) -> io::Result<()> {
    write_message(
        &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION,
        "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}}),
    )
}

fn write_result(id: &Value, result: &Value) -> io::Result<()> {
    write_message(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn write_error(id: &Value, code: i64, message: &str) -> io::Result<()> {
    write_message(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

impl FakeAcpAgent {
    fn handle(&mut self, message: &Value) -> io::Result<()> {
        let id = &message["id"];
        let Some(method) = message["method"].as_str() else {
            return Ok(());
        };
        if self.silent.iter().any(|silent| silent == method) {
            return Ok(());
        }
        if self.refused.iter().any(|refused| refused == method) {
            return write_error(id, -32000, "Authentication required");
        }
        match method {
            "initialize" => {
                let mut greeting = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true},
                    "agentInfo": {"name": "fake", "title": "Fake Agent", "version": "1.0"}});
                if let Some(Value::Object(over)) = &self.greeting {
                    for (key, value) in over {
                        greeting[key] = value.clone();
                    }
                }
                write_result(id, &greeting)
            }
            "session/new" => write_result(
                id,
                &json!({"sessionId": SESSION, "models": {"currentModelId": "m",
                "availableModels": [{"modelId": "m", "name": "M"}, {"modelId": "n", "name": "N"}]}}),
            ),
            "session/load" if message["params"]["sessionId"] != SESSION => {
                write_error(id, -32602, "Session not found")
            }
            "session/load" => {
                if self.replays_late {
                    write_result(id, &json!({}))?;
                    return write_text_chunk("said long ago");
                }
                write_text_chunk("said long ago")?;
                write_result(id, &json!({}))
            }
            "session/set_model" => write_result(id, &json!({})),
            "session/prompt" => {
                let blocks = message["params"]["prompt"].as_array();
                let last = blocks.and_then(|blocks| blocks.last());
                let script = last.and_then(|block| block["text"].as_str());
                self.prompts += 1;
                self.perform(id, script.unwrap_or_default())
            }
            _ if id.is_null() => Ok(()),
            other => write_error(id, -32601, &format!("Method not found: {other}")),
        }
    }

    fn perform(&mut self, id: &Value, script: &str) -> io::Result<()> {
        for line in script.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                ">" => {
                    let rest = rest.replace("$S", SESSION);
                    let mut message: Value = serde_json::from_str(&rest).unwrap_or_default();
                    message["jsonrpc"] = "2.0".into();
                    write_message(&message)?;
                }
                "<" => match read_message() {
                    Some(message) => write_text_chunk(&message.to_string())?,
                    None => return Err(io::ErrorKind::UnexpectedEof.into()),
                },
                "say" => write_text_chunk(rest)?,
                "raw" => {
                    let mut out = io::stdout().lock();
                    writeln!(out, "{rest}")?;
                    out.flush()?;
                }
                "flood" => {
                    for number in 0..rest.parse().unwrap_or(0) {
                        write_text_chunk(&format!("piece {number} "))?;
                    }
                }
                "." => return self.end(id, rest),
                "!" => {
                    let (code, message) = rest.split_once(' ').unwrap_or((rest, ""));
                    return write_error(id, code.parse().unwrap_or(0), message);
                }
                "stderr" => writeln!(io::stderr(), "{rest}")?,
                "die" => std::process::exit(3),
                "hang" => loop {
                    let Some(message) = read_message() else {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    };
                    if message["method"] == "session/cancel" {
                        return self.end(id, "cancelled");
                    }
                },
                "ignore" => while read_message().is_some() {},
                _ => write_text_chunk(&format!("no such step: {line}"))?,
            }
        }
        self.end(id, "end_turn")
    }

    fn end(&self, id: &Value, reason: &str) -> io::Result<()> {
        let usage = json!({"inputTokens": 1, "outputTokens": self.prompts, "totalTokens": 2});
        write_result(id, &json!({"stopReason": reason, "usage": usage}))
    }
}
