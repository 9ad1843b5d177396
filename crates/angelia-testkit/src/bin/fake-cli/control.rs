//! Answers to control requests.

use std::path::Path;

use serde_json::{Value, json};

use crate::session::{FakeSession, InputEffect};

const MODES: [&str; 6] = ["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"];

/// The capabilities of newer versions, by the names clients test for.
const CAPABILITIES: [&str; 4] = [
    "interrupt_receipt_v1",
    "interrupt_cancel_queued_v1",
    "msg_lifecycle_v1",
    "sdk_mcp_tools_list_changed",
];

impl FakeSession {
    pub(crate) fn handle_control(&mut self, id: &str, request: &Value) -> InputEffect {
        let is_new = self.options.is_new();
        let answer = match request["subtype"].as_str().unwrap_or_default() {
            "initialize" => Ok(self.initialize_response()),
            "interrupt" => {
                let answer = self.interrupt_response(request["cancel_queued"] == true);
                self.respond(id, Ok(answer));
                return InputEffect::Interrupt;
            }
            "set_model" => {
                let model = request["model"].as_str().filter(|model| *model != "default");
                model.unwrap_or("claude-opus-5-5").clone_into(&mut self.options.model);
                Ok(if is_new { json!({"model": self.options.model}) } else { Value::Null })
            }
            "set_permission_mode" => match request["mode"].as_str() {
                Some(mode) if !is_new || MODES.contains(&mode) => {
                    mode.clone_into(&mut self.options.permission_mode);
                    Ok(json!({"mode": mode}))
                }
                _ => Err("Cannot set permission mode: must be one of acceptEdits, auto, \
                          bypassPermissions, default, dontAsk, plan"
                    .to_owned()),
            },
            "cancel_async_message" => {
                let before = self.queue.len();
                let wanted = request["message_uuid"].as_str();
                self.queue.retain(|message| message.id.as_deref() != wanted);
                Ok(json!({"cancelled": self.queue.len() < before}))
            }
            "mcp_status" => Ok(json!({"mcpServers": []})),
            "get_settings" => Ok(json!({"effective": {}, "sources": [],
                "applied": {"model": self.options.model}})),
            "get_binary_version" => Ok(json!({"version": self.options.version})),
            "set_max_thinking_tokens" => Ok(Value::Null),
            "end_session" => {
                self.ending = true;
                Ok(Value::Null)
            }
            unknown => Err(format!("Unsupported control request subtype: {unknown}")),
        };
        self.respond(id, answer);
        InputEffect::Nothing
    }

    fn respond(&mut self, id: &str, answer: Result<Value, String>) {
        let mut response = json!({"subtype": "success", "request_id": id});
        match answer {
            Ok(Value::Null) => {}
            Ok(answer) => response["response"] = answer,
            Err(error) => {
                response["subtype"] = json!("error");
                response["error"] = json!(error);
            }
        }
        self.lines.write_raw(&json!({"type": "control_response", "response": response}));
    }

    fn initialize_response(&self) -> Value {
        let mut account = json!({"tokenSource": "none", "apiProvider": "firstParty"});
        match self.options.login {
            Some("oauth_token") => account["tokenSource"] = json!("CLAUDE_CODE_OAUTH_TOKEN"),
            Some(_) => account["apiKeySource"] = json!("ANTHROPIC_API_KEY"),
            None => {}
        }
        let mut answer = json!({"commands": [], "agents": [], "output_style": "default",
            "available_output_styles": ["default"], "models": [{"value": "default",
                "resolvedModel": "claude-opus-5-5", "displayName": "Default"}],
            "account": account, "pid": std::process::id()});
        if self.options.is_new() {
            answer["claude_code_version"] = json!(self.options.version);
            answer["current_permission_mode"] = json!(self.options.permission_mode);
            answer["session_state"] = json!("idle");
            answer["capabilities"] = json!(["ui_surface_v1"]);
        }
        answer
    }

    fn interrupt_response(&mut self, cancel_queued: bool) -> Value {
        if !self.options.is_new() {
            return Value::Null;
        }
        let queued: Vec<String> = self.queue.iter().filter_map(|m| m.id.clone()).collect();
        if !cancel_queued {
            return json!({"still_queued": queued});
        }
        self.queue.clear();
        for id in &queued {
            self.lines.lifecycle(Some(id), "cancelled");
        }
        json!({"still_queued": [], "cancelled": queued})
    }

    /// Writes the `init` line that opens every turn.
    pub(crate) fn init(&mut self, message: Option<&str>) {
        let folder = std::env::current_dir().unwrap_or_default();
        let source = match self.options.login {
            Some("api_key") => "ANTHROPIC_API_KEY",
            _ => "none",
        };
        let mut line = json!({"type": "system", "subtype": "init", "cwd": folder,
            "tools": ["Bash", "Edit", "Read", "Write"], "mcp_servers": [],
            "model": self.options.model, "permissionMode": self.options.permission_mode,
            "slash_commands": ["clear", "compact", "context"], "apiKeySource": source,
            "claude_code_version": self.options.version, "output_style": "default", "agents": [],
            "skills": [], "plugins": [], "fast_mode_state": "off"});
        if self.options.is_new() {
            line["capabilities"] = json!(CAPABILITIES);
            line["original_cwd"] = json!(Path::new(&folder));
            if let Some(message) = message {
                line["user_message_uuids"] = json!([message]);
            }
        }
        self.lines.line(line);
    }
}
