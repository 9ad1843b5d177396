//! The answers to control requests.

use std::{collections::VecDeque, io};

use serde_json::{Value, json};

use super::{
    claude::{EarlyExit, ScriptedClaude},
    lines::merge_fields,
};

const PERMISSION_MODES: [&str; 6] =
    ["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"];

impl ScriptedClaude {
    pub(super) fn answer_request(&mut self, id: &Value, request: &Value) -> Result<(), EarlyExit> {
        let setup = &mut self.setup;
        let response = match request["subtype"].as_str().unwrap_or_default() {
            "initialize" => {
                let hook = &request["hooks"]["PreToolUse"][0]["hookCallbackIds"][0];
                self.report_hook = hook.as_str().map(str::to_owned);
                Ok(self.initialize_response())
            }
            "interrupt" => Ok(self.interrupt(request["cancel_queued"] == true)?),
            "set_model" => {
                let model = request["model"].as_str().filter(|model| *model != "default");
                model.unwrap_or(setup.default_model).clone_into(&mut setup.model);
                Ok(if setup.message_ids { json!({"model": setup.model}) } else { Value::Null })
            }
            "set_permission_mode" => match request["mode"].as_str() {
                Some(mode) if !setup.message_ids || PERMISSION_MODES.contains(&mode) => {
                    mode.clone_into(&mut setup.permission_mode);
                    Ok(json!({"mode": mode}))
                }
                _ => Err(format!(
                    "Cannot set permission mode: must be one of {}",
                    PERMISSION_MODES.join(", ")
                )),
            },
            "cancel_async_message" => {
                let uuid = request["message_uuid"].as_str();
                let cancelled = self.cancel(|queued| uuid == Some(queued))?;
                Ok(json!({"cancelled": !cancelled.is_empty()}))
            }
            "mcp_status" => Ok(json!({"mcpServers": []})),
            "get_settings" => {
                Ok(json!({"effective": {}, "sources": [], "applied": {"model": setup.model}}))
            }
            "get_binary_version" => Ok(json!({"version": setup.version})),
            "set_max_thinking_tokens" => Ok(Value::Null),
            "end_session" => {
                self.respond(id, Ok(Value::Null))?;
                return Err(EarlyExit::Code(0));
            }
            unknown => Err(format!("Unsupported control request subtype: {unknown}")),
        };
        Ok(self.respond(id, response)?)
    }

    fn respond(&mut self, id: &Value, response: Result<Value, String>) -> io::Result<()> {
        let mut body = json!({"subtype": "success", "request_id": id});
        match response {
            Ok(Value::Null) => {}
            Ok(response) => body["response"] = response,
            Err(error) => {
                body["subtype"] = json!("error");
                body["error"] = json!(error);
            }
        }
        self.lines.add_raw(&json!({"type": "control_response", "response": body}))
    }

    fn initialize_response(&self) -> Value {
        let mut response = json!({"commands": [], "agents": [], "output_style": "default",
            "pid": std::process::id()});
        if self.setup.message_ids {
            response["current_permission_mode"] = json!(self.setup.permission_mode);
        }
        merge_fields(&mut response, self.setup.initialize_fields.clone());
        response
    }

    fn interrupt(&mut self, cancel_queued: bool) -> io::Result<Value> {
        self.interrupted = true;
        if let Some(request) = self.pending_request.take() {
            self.lines
                .add_raw(&json!({"type": "control_cancel_request", "request_id": request}))?;
        }
        if !self.setup.message_ids {
            return Ok(Value::Null);
        }
        let mut response = json!({});
        if cancel_queued {
            response["cancelled"] = self.cancel(|_| true)?.into();
        }
        let waiting: Vec<&str> = self.queue.iter().filter_map(|m| m.uuid.as_deref()).collect();
        response["still_queued"] = waiting.into();
        Ok(response)
    }

    /// Removes the chosen messages from the queue and returns their ids.
    fn cancel(&mut self, chosen: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let (dropped, kept) = self
            .queue
            .drain(..)
            .partition::<VecDeque<_>, _>(|queued| queued.uuid.as_deref().is_some_and(&chosen));
        self.queue = kept;
        let dropped: Vec<String> = dropped.into_iter().filter_map(|message| message.uuid).collect();
        for uuid in &dropped {
            self.write_lifecycle(Some(uuid), "cancelled")?;
        }
        Ok(dropped)
    }
}
