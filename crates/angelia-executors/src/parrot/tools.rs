//! Simulated tools. None of them does anything, and their results say so.

use std::{io, io::Write, time::Duration};

use serde_json::{Value, json};

use super::{
    output::{WordCount, new_id},
    process::{ControlReply, TurnAbort},
    turn::ParrotTurn,
};

const PRETENDED_RESULT: &str = "Only pretended: nothing was read, run or changed.";
const COLOUR_QUESTION: &str = "Which colour is the parrot?";

/// The decision on a tool call.
enum PermissionVerdict {
    Allowed {
        input: Value,
        rules: Vec<String>,
    },
    Denied {
        why: String,
        interrupt: bool,
    },
    /// The answer was invalid.
    Invalid {
        why: String,
    },
}

impl<W: Write> ParrotTurn<'_, W> {
    /// Simulates a tool call that needs no permission, takes `takes` and succeeds.
    pub(super) fn simulate_tool(&mut self, name: &str, takes: Duration) -> Result<(), TurnAbort> {
        let input = match name {
            "Bash" => json!({"command": "true", "description": PRETENDED_RESULT}),
            "Read" | "Write" | "Edit" => json!({"file_path": "pretended.txt"}),
            _ => json!({"description": PRETENDED_RESULT}),
        };
        let id = self.write_tool_call(name, &input)?;
        self.parrot.handle_input_for(takes)?;
        self.write_tool_result(&id, PRETENDED_RESULT, true)?;
        self.write_paragraph(&format!("The tool {name} was only pretended."))
    }

    /// Asks whether a shell command may run.
    pub(super) fn ask_permission(&mut self, command: &str) -> Result<(), TurnAbort> {
        let input = json!({"command": command, "description": "Pretended; nothing will run"});
        let id = self.write_tool_call("Bash", &input)?;
        if self.parrot.allowed_commands.iter().any(|rule| rule == command) {
            self.write_tool_result(&id, PRETENDED_RESULT, true)?;
            let text = format!("`{command}` was allowed for this session, so I did not ask.");
            return self.write_paragraph(&text);
        }
        let rule = json!({"toolName": "Bash", "ruleContent": command});
        let request = json!({"subtype": "can_use_tool", "tool_name": "Bash",
            "display_name": "Bash", "input": input, "description": input["description"],
            "tool_use_id": id, "permission_suggestions": [{"type": "addRules",
                "rules": [rule], "behavior": "allow", "destination": "localSettings"}]});
        match self.request_decision(&request)? {
            PermissionVerdict::Allowed { input, rules } => {
                let session = if rules.is_empty() { "" } else { " for this session" };
                self.parrot.allowed_commands.extend(rules);
                self.write_tool_result(&id, PRETENDED_RESULT, true)?;
                let ran = input["command"].as_str().unwrap_or(command);
                self.write_paragraph(&format!(
                    "You allowed `{ran}`{session}. I only pretend, so nothing ran."
                ))
            }
            PermissionVerdict::Denied { why, interrupt } => {
                self.deny(&id, "Bash", &input, &why, interrupt)?;
                self.write_paragraph(&format!("You refused `{command}`: {why}"))
            }
            PermissionVerdict::Invalid { why } => self.fail(&id, &why),
        }
    }

    /// Asks a person to choose a colour.
    pub(super) fn ask_question(&mut self) -> Result<(), TurnAbort> {
        let name = "AskUserQuestion";
        let options = ["Green", "Red", "Blue"]
            .map(|label| json!({"label": label, "description": format!("{label} feathers")}));
        let input = json!({"questions": [{"question": COLOUR_QUESTION, "header": "Colour",
            "options": options, "multiSelect": false}]});
        let id = self.write_tool_call(name, &input)?;
        let request = json!({"subtype": "can_use_tool", "tool_name": name, "display_name": name,
            "input": input, "tool_use_id": id, "requires_user_interaction": true});
        match self.request_decision(&request)? {
            PermissionVerdict::Allowed { input, .. } => {
                let chosen = input["answers"][COLOUR_QUESTION].as_str().unwrap_or("nothing");
                self.write_tool_result(&id, &format!("{COLOUR_QUESTION} {chosen}"), true)?;
                self.write_paragraph(&format!("You chose {chosen}."))
            }
            PermissionVerdict::Denied { why, interrupt } => {
                self.deny(&id, name, &input, &why, interrupt)?;
                self.write_paragraph(&format!("You did not answer: {why}"))
            }
            PermissionVerdict::Invalid { why } => self.fail(&id, &why),
        }
    }

    /// Writes a tool call as the last block of the open message, and ends that message.
    fn write_tool_call(&mut self, name: &str, input: &Value) -> Result<String, TurnAbort> {
        let id = format!("toolu_{}", new_id());
        let mut message = self.take_message()?;
        message.write_tool_call(&mut self.parrot.output, &id, name, input)?;
        self.message = Some(message);
        self.end_message("tool_use")?;
        self.open_tool = Some(id.clone());
        Ok(id)
    }

    fn request_decision(&mut self, request: &Value) -> Result<PermissionVerdict, TurnAbort> {
        Ok(match self.parrot.send_request(request)? {
            ControlReply::Received(response) => parse_verdict(&response),
            ControlReply::InputClosed => PermissionVerdict::Denied {
                why: "stdin was closed before anybody answered".to_owned(),
                interrupt: false,
            },
        })
    }

    fn deny(
        &mut self,
        id: &str,
        name: &str,
        input: &Value,
        why: &str,
        interrupt: bool,
    ) -> Result<(), TurnAbort> {
        self.denials.push(json!({"tool_name": name, "tool_use_id": id, "tool_input": input}));
        if interrupt {
            return Err(TurnAbort::Interrupted);
        }
        self.write_tool_result(id, why, false)?;
        Ok(())
    }

    fn fail(&mut self, id: &str, why: &str) -> Result<(), TurnAbort> {
        let text = format!("Tool permission request failed: {why}");
        self.write_tool_result(id, &text, false)?;
        self.write_paragraph(&text)
    }

    pub(super) fn write_tool_result(&mut self, id: &str, text: &str, ok: bool) -> io::Result<()> {
        self.open_tool = None;
        self.input_words += WordCount::count(text);
        let content = json!([{"type": "tool_result", "tool_use_id": id, "content": text,
            "is_error": !ok}]);
        self.parrot.output.write_user_line(&content, json!({"tool_use_result": text}))
    }
}

fn parse_verdict(response: &Value) -> PermissionVerdict {
    let text = |value: &Value, default: &str| value.as_str().unwrap_or(default).to_owned();
    if response["subtype"] != "success" {
        let why = text(&response["error"], "the other side reported an error");
        return PermissionVerdict::Invalid { why };
    }
    let decision = &response["response"];
    match decision["behavior"].as_str() {
        Some("allow") => PermissionVerdict::Allowed {
            input: decision["updatedInput"].clone(),
            rules: session_rules(&decision["updatedPermissions"]),
        },
        Some("deny") => PermissionVerdict::Denied {
            why: text(&decision["message"], "no reason was given"),
            interrupt: decision["interrupt"] == true,
        },
        _ => PermissionVerdict::Invalid {
            why: "the answer is neither `allow` nor `deny`".to_owned(),
        },
    }
}

/// Returns the commands that were allowed for the whole session.
fn session_rules(updates: &Value) -> Vec<String> {
    let updates = updates.as_array().into_iter().flatten();
    let rules = updates
        .filter(|update| update["type"] == "addRules" && update["behavior"] == "allow")
        .filter_map(|update| update["rules"].as_array());
    rules
        .flatten()
        .filter(|rule| rule["toolName"] == "Bash")
        .filter_map(|rule| rule["ruleContent"].as_str().map(str::to_owned))
        .collect()
}
