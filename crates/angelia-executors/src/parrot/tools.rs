//! Simulated tools. None of them does anything, and their results say so.

use std::time::Duration;

use serde_json::{Value, json};

use super::turn::ParrotTurn;
use crate::scripted_claude::{CallReport, PermissionVerdict, ToolRequest, TurnAbort};

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
        let call = ToolRequest { id: &id, name, input: &input };
        if let CallReport::Denied { why } = self.turn.report_call(call)? {
            self.turn.write_tool_result(&id, &why, false)?;
            return self.write_paragraph(&format!("The tool {name} was refused: {why}"));
        }
        self.turn.handle_input_for(takes)?;
        self.turn.write_tool_result(&id, PRETENDED_RESULT, true)?;
        self.write_paragraph(&format!("The tool {name} was only pretended."))
    }

    /// Asks whether a shell command may run.
    pub(super) fn ask_permission(&mut self, command: &str) -> Result<(), TurnAbort> {
        let input = &json!({"command": command, "description": "Pretended; nothing will run"});
        let rule = json!({"toolName": "Bash", "ruleContent": command});
        let more = json!({"description": input["description"],
            "permission_suggestions": [{"type": "addRules", "rules": [rule],
                "behavior": "allow", "destination": "localSettings"}]});
        self.ask_to_use("Bash", input, more, command)
    }

    /// Asks whether lines may be written to a file. The file is neither read nor written.
    pub(super) fn ask_to_write(&mut self, path: &str, lines: u32) -> Result<(), TurnAbort> {
        let lines: Vec<_> = (1..=lines).map(|line| format!("pretended line {line}\n")).collect();
        let content = lines.concat();
        let input = &json!({"file_path": path, "content": content});
        self.ask_to_use("Write", input, json!({}), path)
    }

    /// Asks for permission to use a tool. `subject` is what the answer says was allowed or refused.
    fn ask_to_use(
        &mut self,
        name: &str,
        input: &Value,
        more: Value,
        subject: &str,
    ) -> Result<(), TurnAbort> {
        let id = &self.turn.write_tool_call(name, input)?;
        let call = ToolRequest { id, name, input };
        match self.turn.report_call(call)? {
            CallReport::Proceed => {}
            CallReport::Allowed => return self.pretend_command(id, subject),
            CallReport::Denied { why } => return self.refuse_command(id, subject, &why),
        }
        match self.turn.request_permission(call, more)? {
            PermissionVerdict::Allowed { input } => {
                self.pretend_command(id, input["command"].as_str().unwrap_or(subject))
            }
            PermissionVerdict::Denied { why } => self.refuse_command(id, subject, &why),
            PermissionVerdict::Invalid { why } => self.fail(id, &why),
        }
    }

    fn pretend_command(&mut self, id: &str, command: &str) -> Result<(), TurnAbort> {
        self.turn.write_tool_result(id, PRETENDED_RESULT, true)?;
        self.write_paragraph(&format!("You allowed `{command}`. I only pretend, so nothing ran."))
    }

    fn refuse_command(&mut self, id: &str, command: &str, why: &str) -> Result<(), TurnAbort> {
        self.turn.write_tool_result(id, why, false)?;
        self.write_paragraph(&format!("You refused `{command}`: {why}"))
    }

    /// Asks a person to choose a colour.
    pub(super) fn ask_question(&mut self) -> Result<(), TurnAbort> {
        let name = "AskUserQuestion";
        let options = ["Green", "Red", "Blue"]
            .map(|label| json!({"label": label, "description": format!("{label} feathers")}));
        let input = &json!({"questions": [{"question": COLOUR_QUESTION, "header": "Colour",
            "options": options, "multiSelect": false}]});
        let id = &self.turn.write_tool_call(name, input)?;
        let call = ToolRequest { id, name, input };
        if let CallReport::Denied { why } = self.turn.report_call(call)? {
            self.turn.write_tool_result(id, &why, false)?;
            return self.write_paragraph(&format!("You did not answer: {why}"));
        }
        let more = json!({"requires_user_interaction": true});
        match self.turn.request_permission(call, more)? {
            PermissionVerdict::Allowed { input } => {
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
