//! Simulated tools. None of them does anything, and their results say so.

use std::time::Duration;

use serde_json::{Value, json};

use super::turn::ParrotTurn;
use crate::scripted_claude::{PermissionVerdict, ToolRequest, TurnAbort};

const PRETENDED_RESULT: &str = "Only pretended: nothing was read, run or changed.";
const COLOUR_QUESTION: &str = "Which colour is the parrot?";

impl ParrotTurn<'_, '_> {
    /// Simulates a tool call that needs no permission, takes `takes` and succeeds.
    pub(super) fn simulate_tool(&mut self, name: &str, takes: Duration) -> Result<(), TurnAbort> {
        let input = match name {
            "Bash" => json!({"command": "true", "description": PRETENDED_RESULT}),
            "Read" | "Write" | "Edit" => json!({"file_path": "pretended.txt"}),
            _ => json!({"description": PRETENDED_RESULT}),
        };
        let id = self.turn.write_tool_call(name, &input)?;
        self.turn.handle_input_for(takes)?;
        self.turn.write_tool_result(&id, PRETENDED_RESULT, true)?;
        self.write_paragraph(&format!("The tool {name} was only pretended."))
    }

    /// Asks whether a shell command may run.
    pub(super) fn ask_permission(&mut self, command: &str) -> Result<(), TurnAbort> {
        let input = &json!({"command": command, "description": "Pretended; nothing will run"});
        let id = &self.turn.write_tool_call("Bash", input)?;
        if self.allowed_commands.iter().any(|rule| rule == command) {
            self.turn.write_tool_result(id, PRETENDED_RESULT, true)?;
            let text = format!("`{command}` was allowed for this session, so I did not ask.");
            return self.write_paragraph(&text);
        }
        let rule = json!({"toolName": "Bash", "ruleContent": command});
        let more = json!({"description": input["description"],
            "permission_suggestions": [{"type": "addRules", "rules": [rule],
                "behavior": "allow", "destination": "localSettings"}]});
        match self.turn.request_permission(ToolRequest { id, name: "Bash", input }, more)? {
            PermissionVerdict::Allowed { input, permissions } => {
                let rules = session_rules(&permissions);
                let session = if rules.is_empty() { "" } else { " for this session" };
                self.allowed_commands.extend(rules);
                self.turn.write_tool_result(id, PRETENDED_RESULT, true)?;
                let ran = input["command"].as_str().unwrap_or(command);
                self.write_paragraph(&format!(
                    "You allowed `{ran}`{session}. I only pretend, so nothing ran."
                ))
            }
            PermissionVerdict::Denied { why } => {
                self.turn.write_tool_result(id, &why, false)?;
                self.write_paragraph(&format!("You refused `{command}`: {why}"))
            }
            PermissionVerdict::Invalid { why } => self.fail(id, &why),
        }
    }

    /// Asks a person to choose a colour.
    pub(super) fn ask_question(&mut self) -> Result<(), TurnAbort> {
        let name = "AskUserQuestion";
        let options = ["Green", "Red", "Blue"]
            .map(|label| json!({"label": label, "description": format!("{label} feathers")}));
        let input = &json!({"questions": [{"question": COLOUR_QUESTION, "header": "Colour",
            "options": options, "multiSelect": false}]});
        let id = &self.turn.write_tool_call(name, input)?;
        let more = json!({"requires_user_interaction": true});
        match self.turn.request_permission(ToolRequest { id, name, input }, more)? {
            PermissionVerdict::Allowed { input, .. } => {
                let chosen = input["answers"][COLOUR_QUESTION].as_str().unwrap_or("nothing");
                let text = format!("{COLOUR_QUESTION} {chosen}");
                self.turn.write_tool_result(id, &text, true)?;
                self.write_paragraph(&format!("You chose {chosen}."))
            }
            PermissionVerdict::Denied { why } => {
                self.turn.write_tool_result(id, &why, false)?;
                self.write_paragraph(&format!("You did not answer: {why}"))
            }
            PermissionVerdict::Invalid { why } => self.fail(id, &why),
        }
    }

    fn fail(&mut self, id: &str, why: &str) -> Result<(), TurnAbort> {
        let text = format!("Tool permission request failed: {why}");
        self.turn.write_tool_result(id, &text, false)?;
        self.write_paragraph(&text)
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
