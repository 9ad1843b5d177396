//! Asks the other side whether a tool may run.

use serde_json::{Value, json};

use super::{
    claude::TurnAbort,
    lines::merge_fields,
    turn::{ControlReply, ScriptedTurn},
};

/// A tool call that needs a decision.
#[derive(Clone, Copy, Debug)]
pub struct ToolRequest<'a> {
    /// The id of the tool call.
    pub id: &'a str,
    pub name: &'a str,
    pub input: &'a Value,
}

/// The other side's answer to a reported tool call.
#[derive(Debug)]
pub enum CallReport {
    /// The program's own rules decide.
    Proceed,
    Allowed,
    Denied {
        why: String,
    },
}

/// The decision on a tool call.
#[derive(Debug)]
pub enum PermissionVerdict {
    Allowed {
        input: Value,
    },
    Denied {
        why: String,
    },
    /// The answer was malformed.
    Invalid {
        why: String,
    },
}

impl ScriptedTurn<'_> {
    /// Reports a call before it runs, if the other side has registered a hook for it.
    pub fn report_call(&mut self, tool: ToolRequest<'_>) -> Result<CallReport, TurnAbort> {
        let Some(hook) = self.claude.report_hook.clone() else {
            return Ok(CallReport::Proceed);
        };
        let ToolRequest { id, name, input } = tool;
        let cwd = std::env::current_dir().unwrap_or_default();
        let report = json!({"hook_event_name": "PreToolUse", "cwd": cwd.to_string_lossy(),
            "permission_mode": "default", "tool_name": name, "tool_input": input,
            "tool_use_id": id});
        let request = json!({"subtype": "hook_callback", "callback_id": hook, "input": report,
            "tool_use_id": id});
        let ControlReply::Received(response) = self.send_request(&request)? else {
            return Ok(CallReport::Proceed);
        };
        let decision = &response["response"]["hookSpecificOutput"];
        Ok(match decision["permissionDecision"].as_str() {
            Some("allow") => CallReport::Allowed,
            Some("deny") => {
                self.add_denial(tool);
                let why = decision["permissionDecisionReason"].as_str();
                CallReport::Denied { why: why.unwrap_or("no reason was given").to_owned() }
            }
            _ => CallReport::Proceed,
        })
    }

    /// Asks for a decision and waits for it. `more` holds further fields of the request. Returns an
    /// error for a denial that also stops the turn.
    pub fn request_permission(
        &mut self,
        tool: ToolRequest<'_>,
        more: Value,
    ) -> Result<PermissionVerdict, TurnAbort> {
        let ToolRequest { id, name, input } = tool;
        let mut request = json!({"subtype": "can_use_tool", "tool_name": name,
            "display_name": name, "input": input, "tool_use_id": id});
        merge_fields(&mut request, more);
        let ControlReply::Received(response) = self.send_request(&request)? else {
            let why = "stdin was closed before anybody answered".to_owned();
            self.add_denial(tool);
            return Ok(PermissionVerdict::Denied { why });
        };
        let text = |value: &Value, default: &str| value.as_str().unwrap_or(default).to_owned();
        if response["subtype"] != "success" {
            let why = text(&response["error"], "the other side reported an error");
            return Ok(PermissionVerdict::Invalid { why });
        }
        let decision = &response["response"];
        Ok(match decision["behavior"].as_str() {
            Some("allow") => {
                // Newer versions treat an answer without `updatedInput` as allowing the original.
                let updated = &decision["updatedInput"];
                let input = if updated.is_null() { input } else { updated };
                PermissionVerdict::Allowed { input: input.clone() }
            }
            Some("deny") => {
                self.add_denial(tool);
                if decision["interrupt"] == true {
                    return Err(TurnAbort::Interrupted);
                }
                PermissionVerdict::Denied { why: text(&decision["message"], "no reason was given") }
            }
            _ => PermissionVerdict::Invalid {
                why: "the answer is neither `allow` nor `deny`".to_owned(),
            },
        })
    }

    fn add_denial(&mut self, tool: ToolRequest<'_>) {
        self.denials.push(json!({"tool_name": tool.name, "tool_use_id": tool.id,
            "tool_input": tool.input}));
    }
}
