//! One turn: from the user's message to its result.

use std::{io, time::Duration};

use serde_json::{Value, json};

use crate::{
    input::ReadOutcome,
    line_writer,
    plan::{AbnormalEnd, TurnPlan},
    session::{FakeSession, InputEffect, UserMessage},
};

/// The state of a running turn.
struct FakeTurn<'a> {
    message: Option<&'a str>,
    plan: TurnPlan,
    calls: u64,
    denials: Vec<Value>,
}

/// Whether the turn continues after a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Continue,
    Interrupted,
}

/// The result of a control request that this program sent to the client.
enum ClientReply {
    Answer(Value),
    Interrupt,
    Closed,
}

/// The client's decision about a tool call.
enum ToolVerdict {
    Allow(Value),
    Deny(String),
    Stop,
}

impl FakeSession {
    pub(crate) fn turn(&mut self, message: &UserMessage) -> io::Result<()> {
        let prompt = content_text(&message.content);
        let id = message.id.as_deref();
        let plan = TurnPlan::parse(&prompt, self.options.words);
        let mut turn = FakeTurn { message: id, plan, calls: 0, denials: Vec::new() };
        self.lines.lifecycle(id, "started");
        self.init(id);
        if turn.plan.native {
            self.lines.line(json!({"type": "brand_new", "payload": {"answer": 42}}));
        }
        if self.options.replay {
            let mut echo = json!({"type": "user", "message": {"role": "user",
                "content": message.content}, "parent_tool_use_id": null, "isReplay": true});
            echo["session_id"] = json!(self.options.session);
            echo["uuid"] = json!(id);
            self.lines.write_raw(&echo);
        }
        if let Some(status) = turn.plan.status {
            self.fail(&turn, status);
        } else if self.call_tools(&mut turn)? == Flow::Continue
            && self.answer(&mut turn)? == Flow::Continue
        {
            let text = turn.plan.chunks.concat();
            self.result(
                &turn,
                json!({"subtype": "success", "is_error": false,
                "api_error_status": null, "result": text, "stop_reason": "end_turn",
                "terminal_reason": "completed"}),
            );
            self.lines.lifecycle(id, "completed");
        }
        self.flush()
    }

    fn call_tools(&mut self, turn: &mut FakeTurn<'_>) -> io::Result<Flow> {
        for (name, input) in std::mem::take(&mut turn.plan.calls) {
            self.begin(turn);
            let id = format!("toolu_fake{:04}", self.model_calls);
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
            if self.options.partials {
                let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.lines.block_start(0, &start);
                let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
                self.lines.delta(0, &delta);
            }
            self.block(turn, &block);
            if self.options.partials {
                self.lines.block_stop(0);
                self.lines.message_stop(Some("tool_use"), None);
            }
            let verdict = match name.strip_prefix("mcp__client__") {
                Some(name) => self.call_client(name, &id, &input)?,
                None => self.ask_permission(&name, &id, &input)?,
            };
            match verdict {
                ToolVerdict::Allow(input) => {
                    let shown = input["command"].as_str().unwrap_or("ok");
                    self.tool_result(&id, shown, false);
                }
                ToolVerdict::Deny(reason) => {
                    turn.denials
                        .push(json!({"tool_name": name, "tool_use_id": id, "tool_input": input}));
                    self.tool_result(&id, &reason, true);
                }
                ToolVerdict::Stop => {
                    self.tool_result(&id, "The user doesn't want to proceed.", true);
                    self.abort(turn, "aborted_tools", "[Request interrupted by user for tool use]");
                    return Ok(Flow::Interrupted);
                }
            }
        }
        Ok(Flow::Continue)
    }

    fn answer(&mut self, turn: &mut FakeTurn<'_>) -> io::Result<Flow> {
        self.begin(turn);
        let mut index = 0;
        if turn.plan.think {
            self.think(turn);
            index = 1;
        }
        if self.options.partials {
            self.lines.block_start(index, &json!({"type": "text", "text": ""}));
        }
        let mut said = String::new();
        for position in 0..turn.plan.chunks.len() {
            let piece = &turn.plan.chunks[position];
            if position > 0
                && let Some(pause) = turn.plan.pause
            {
                self.flush()?;
                if self.wait(Some(pause))? == Flow::Interrupted {
                    self.interrupt_message(turn, index, &said);
                    return Ok(Flow::Interrupted);
                }
            }
            if self.options.partials {
                self.lines.text_delta(index, piece);
            }
            said.push_str(piece);
            if let Some(end) = turn.plan.end {
                self.flush()?;
                self.end(end)?;
                self.interrupt_message(turn, index, &said);
                return Ok(Flow::Interrupted);
            }
        }
        self.block(turn, &json!({"type": "text", "text": said}));
        if self.options.partials {
            self.lines.block_stop(index);
            self.lines.message_stop(Some("end_turn"), None);
        }
        Ok(Flow::Continue)
    }

    fn begin(&mut self, turn: &mut FakeTurn<'_>) {
        turn.calls += 1;
        self.model_calls += 1;
        self.lines.begin(self.model_calls);
        if self.options.partials {
            let mut status = json!({"type": "system", "subtype": "status", "status": "requesting"});
            if let (Some(message), true) = (turn.message, self.options.is_new()) {
                status["user_message_uuids"] = json!([message]);
            }
            self.lines.line(status);
            self.lines.message_start(&self.options.model, turn.message);
        }
    }

    fn think(&mut self, turn: &FakeTurn<'_>) {
        let block = json!({"type": "thinking", "thinking": "Let me think.", "signature": "c2ln"});
        if self.options.partials {
            let start = json!({"type": "thinking", "thinking": "", "signature": ""});
            self.lines.block_start(0, &start);
            let delta = json!({"type": "thinking_delta", "thinking": "Let me think."});
            self.lines.delta(0, &delta);
        }
        self.block(turn, &block);
        if self.options.partials {
            self.lines.block_stop(0);
        }
    }

    fn block(&mut self, turn: &FakeTurn<'_>, block: &Value) {
        let line = self.lines.assistant(&self.options.model, block, turn.message);
        self.lines.line(line);
    }

    fn tool_result(&mut self, id: &str, text: &str, is_error: bool) {
        let part = json!([{"type": "tool_result", "tool_use_id": id, "content": text,
            "is_error": is_error}]);
        self.lines.user(&part, json!({"tool_use_result": text}));
    }

    /// Asks the client for permission and waits for its decision; allows the call at once when the
    /// client does not want to be asked.
    fn ask_permission(&mut self, name: &str, tool: &str, input: &Value) -> io::Result<ToolVerdict> {
        if !self.options.asks || self.options.allowed.split(',').any(|allowed| allowed == name) {
            return Ok(ToolVerdict::Allow(input.clone()));
        }
        let id = format!("ask-{tool}");
        self.lines.write_raw(&json!({"type": "control_request", "request_id": id, "request": {
            "subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": input,
            "description": input["description"], "tool_use_id": tool, "permission_suggestions": [
                {"type": "addRules", "rules": [{"toolName": name}], "behavior": "allow",
                    "destination": "localSettings"}]}}));
        let mut response = match self.wait_for_reply(&id)? {
            ClientReply::Closed => {
                return Ok(ToolVerdict::Deny("Tool permission stream closed".into()));
            }
            ClientReply::Interrupt => return Ok(ToolVerdict::Stop),
            ClientReply::Answer(response) => response,
        };
        Ok(match response["behavior"].as_str() {
            // Newer versions treat an answer without `updatedInput` as consent to the original
            // input.
            Some("allow") if response["updatedInput"].is_null() => {
                ToolVerdict::Allow(input.clone())
            }
            Some("allow") => ToolVerdict::Allow(response["updatedInput"].take()),
            _ if response["interrupt"] == true => ToolVerdict::Stop,
            _ => ToolVerdict::Deny(response["message"].as_str().unwrap_or("denied").to_owned()),
        })
    }

    /// Calls one of the client's own tools: the client acts as the MCP server and may take its
    /// time.
    fn call_client(&mut self, name: &str, tool: &str, input: &Value) -> io::Result<ToolVerdict> {
        let id = format!("mcp-{tool}");
        let message = json!({"jsonrpc": "2.0", "id": self.model_calls, "method": "tools/call", "params": {
            "name": name, "arguments": input, "_meta": {"claudecode/toolUseId": tool}}});
        self.lines.write_raw(&json!({"type": "control_request", "request_id": id, "request": {
            "subtype": "mcp_message", "server_name": "client", "message": message}}));
        let response = match self.wait_for_reply(&id)? {
            ClientReply::Closed => return Ok(ToolVerdict::Deny("Stream closed".into())),
            ClientReply::Interrupt => return Ok(ToolVerdict::Stop),
            ClientReply::Answer(response) => response,
        };
        let result = &response["mcp_response"]["result"];
        let text = content_text(&result["content"]);
        Ok(if result["isError"] == true {
            ToolVerdict::Deny(text)
        } else {
            ToolVerdict::Allow(json!({"command": text}))
        })
    }

    /// Waits for the client's answer to the request with this id.
    fn wait_for_reply(&mut self, id: &str) -> io::Result<ClientReply> {
        loop {
            self.flush()?;
            let ReadOutcome::Line(line) = self.input.next_line(None)? else {
                return Ok(ClientReply::Closed);
            };
            match self.handle_line(&line)? {
                InputEffect::Interrupt => {
                    self.lines
                        .write_raw(&json!({"type": "control_cancel_request", "request_id": id}));
                    return Ok(ClientReply::Interrupt);
                }
                InputEffect::ControlResponse { request, response } if request == id => {
                    return Ok(ClientReply::Answer(response));
                }
                InputEffect::ControlResponse { .. } | InputEffect::Nothing => {}
            }
        }
    }

    /// Waits while input is still handled; `None` waits until an interrupt.
    fn wait(&mut self, time: Option<Duration>) -> io::Result<Flow> {
        let over = time.map(|time| std::time::Instant::now() + time);
        loop {
            let left = over.map(|over| over.saturating_duration_since(std::time::Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Flow::Continue);
            }
            if self.input.has_ended() {
                // The client can no longer interrupt; keep hanging, as the real program does.
                std::thread::sleep(left.unwrap_or(Duration::from_mins(10)));
                return Ok(Flow::Continue);
            }
            if let ReadOutcome::Line(line) = self.input.next_line(left)? {
                let taken = self.handle_line(&line)?;
                if matches!(taken, InputEffect::Interrupt) {
                    return Ok(Flow::Interrupted);
                }
                self.flush()?;
            }
        }
    }

    fn end(&mut self, end: AbnormalEnd) -> io::Result<()> {
        match end {
            AbnormalEnd::Hang => self.wait(None).map(drop),
            AbnormalEnd::Exit(code) => std::process::exit(code.into()),
            AbnormalEnd::Die => {
                self.lines.buffer.extend_from_slice(br#"{"type":"assist"#);
                self.flush()?;
                let own = rustix::process::getpid();
                Ok(rustix::process::kill_process(own, rustix::process::Signal::KILL)?)
            }
        }
    }

    /// Closes a message that was interrupted in the middle of its text.
    fn interrupt_message(&mut self, turn: &FakeTurn<'_>, index: usize, said: &str) {
        let mut line = self.lines.assistant(
            &self.options.model,
            &json!({"type": "text", "text": said}),
            turn.message,
        );
        if self.options.is_new() {
            line["aborted"] = json!(true);
        }
        self.lines.line(line);
        if self.options.partials && self.options.is_new() {
            self.lines.block_stop(index);
            self.lines.message_stop(None, Some(index + 1));
        }
        self.abort(turn, "aborted_streaming", "[Request interrupted by user]");
    }

    fn abort(&mut self, turn: &FakeTurn<'_>, reason: &str, text: &str) {
        self.lines.user(&json!([{"type": "text", "text": text}]), json!({}));
        self.result(
            turn,
            json!({"subtype": "error_during_execution", "is_error": true,
            "errors": ["interrupted"], "stop_reason": null, "terminal_reason": reason}),
        );
        self.lines.lifecycle(turn.message, "cancelled");
    }

    /// Reports a failure of the model's service the way the CLI does.
    fn fail(&mut self, turn: &FakeTurn<'_>, status: u16) {
        let (error, text) = match status {
            401 => ("authentication_failed", "Invalid API key · Fix external API key"),
            404 => ("model_not_found", "There's an issue with the selected model."),
            429 => ("rate_limit", "API Error: Request rejected (429)"),
            500.. => ("server_error", "API Error: server-side issue"),
            _ => ("unknown", "API Error"),
        };
        self.lines.begin(self.model_calls);
        let block = json!({"type": "text", "text": text});
        let mut line = self.lines.assistant("<synthetic>", &block, turn.message);
        line["error"] = json!(error);
        let is_new = self.options.is_new();
        if is_new {
            line["is_api_error_message"] = json!(true);
            line["api_error_status"] = json!(status);
        }
        self.lines.line(line);
        let reason = if is_new { "api_error" } else { "completed" };
        self.result(
            turn,
            json!({"subtype": "success", "is_error": true,
            "api_error_status": status, "result": text, "stop_reason": "stop_sequence",
            "terminal_reason": reason}),
        );
        self.lines.lifecycle(turn.message, "completed");
    }

    fn result(&mut self, turn: &FakeTurn<'_>, mut line: Value) {
        let cost = |calls: u64| 0.002_044 * f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
        let counts = |calls: u64| {
            json!({self.options.model.as_str(): {"inputTokens": 11 * calls,
                "outputTokens": 25 * calls, "cacheReadInputTokens": 3000 * calls,
                "cacheCreationInputTokens": 120 * calls, "webSearchRequests": 0,
                "costUSD": cost(calls), "contextWindow": 1_000_000, "maxOutputTokens": 128_000}})
        };
        line["type"] = json!("result");
        line["duration_ms"] = json!(1);
        line["duration_api_ms"] = json!(1);
        line["num_turns"] = json!(turn.calls.max(1));
        line["total_cost_usd"] = json!(cost(self.model_calls));
        line["usage"] = line_writer::usage(turn.calls, 25 * turn.calls);
        line["modelUsage"] = counts(self.model_calls);
        line["permission_denials"] = json!(turn.denials);
        line["fast_mode_state"] = json!("off");
        if self.options.is_new() {
            line["result_index"] = json!(self.results);
            line["queued_turn_count"] = json!(self.queue.len());
            line["model_usage_since_last_result"] = counts(turn.calls);
            line_writer::add_message_id(&mut line, turn.message);
        }
        self.results += 1;
        self.last_failed = line["is_error"] == true;
        self.lines.line(line);
    }
}

/// Returns the text of a message's content.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
