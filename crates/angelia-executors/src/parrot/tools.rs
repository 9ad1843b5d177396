//! Simulated tools. None of them does anything, and their results say so.

use std::{io, io::Write, time::Duration};

use serde_json::{Value, json};

use super::{
    process::{Answer, Stop},
    speech::{Words, new_id},
    turn::Turn,
};

const PRETENDED: &str = "Only pretended: nothing was read, run or changed.";
const COLOUR: &str = "Which colour is the parrot?";

/// The decision on a tool call.
enum Verdict {
    Allowed {
        input: Value,
        rules: Vec<String>,
    },
    Denied {
        why: String,
        interrupt: bool,
    },
    /// The answer was invalid.
    Unclear {
        why: String,
    },
}

impl<W: Write> Turn<'_, W> {
    /// Simulates a tool call that needs no permission, takes `takes` and succeeds.
    pub(super) fn pretend(&mut self, name: &str, takes: Duration) -> Result<(), Stop> {
        let input = match name {
            "Bash" => json!({"command": "true", "description": PRETENDED}),
            "Read" | "Write" | "Edit" => json!({"file_path": "pretended.txt"}),
            _ => json!({"description": PRETENDED}),
        };
        let id = self.call(name, &input)?;
        self.parrot.pause(takes)?;
        self.result(&id, PRETENDED, true)?;
        self.say(&format!("The tool {name} was only pretended."))
    }

    /// Asks whether a shell command may run.
    pub(super) fn ask_for(&mut self, command: &str) -> Result<(), Stop> {
        let input = json!({"command": command, "description": "Pretended; nothing will run"});
        let id = self.call("Bash", &input)?;
        if self.parrot.allowed.iter().any(|rule| rule == command) {
            self.result(&id, PRETENDED, true)?;
            let text = format!("`{command}` was allowed for this session, so I did not ask.");
            return self.say(&text);
        }
        let rule = json!({"toolName": "Bash", "ruleContent": command});
        let request = json!({"subtype": "can_use_tool", "tool_name": "Bash",
            "display_name": "Bash", "input": input, "description": input["description"],
            "tool_use_id": id, "permission_suggestions": [{"type": "addRules",
                "rules": [rule], "behavior": "allow", "destination": "localSettings"}]});
        match self.decide(&request)? {
            Verdict::Allowed { input, rules } => {
                let session = if rules.is_empty() { "" } else { " for this session" };
                self.parrot.allowed.extend(rules);
                self.result(&id, PRETENDED, true)?;
                let ran = input["command"].as_str().unwrap_or(command);
                self.say(&format!("You allowed `{ran}`{session}. I only pretend, so nothing ran."))
            }
            Verdict::Denied { why, interrupt } => {
                self.deny(&id, "Bash", &input, &why, interrupt)?;
                self.say(&format!("You refused `{command}`: {why}"))
            }
            Verdict::Unclear { why } => self.fail(&id, &why),
        }
    }

    /// Asks a person to choose a colour.
    pub(super) fn question(&mut self) -> Result<(), Stop> {
        let name = "AskUserQuestion";
        let options = ["Green", "Red", "Blue"]
            .map(|label| json!({"label": label, "description": format!("{label} feathers")}));
        let input = json!({"questions": [{"question": COLOUR, "header": "Colour",
            "options": options, "multiSelect": false}]});
        let id = self.call(name, &input)?;
        let request = json!({"subtype": "can_use_tool", "tool_name": name, "display_name": name,
            "input": input, "tool_use_id": id, "requires_user_interaction": true});
        match self.decide(&request)? {
            Verdict::Allowed { input, .. } => {
                let chosen = input["answers"][COLOUR].as_str().unwrap_or("nothing");
                self.result(&id, &format!("{COLOUR} {chosen}"), true)?;
                self.say(&format!("You chose {chosen}."))
            }
            Verdict::Denied { why, interrupt } => {
                self.deny(&id, name, &input, &why, interrupt)?;
                self.say(&format!("You did not answer: {why}"))
            }
            Verdict::Unclear { why } => self.fail(&id, &why),
        }
    }

    /// Writes a tool call as the last block of the open message, and ends that message.
    fn call(&mut self, name: &str, input: &Value) -> Result<String, Stop> {
        let id = format!("toolu_{}", new_id());
        let mut message = self.open()?;
        message.use_tool(&mut self.parrot.voice, &id, name, input)?;
        self.message = Some(message);
        self.close("tool_use")?;
        self.tool = Some(id.clone());
        Ok(id)
    }

    fn decide(&mut self, request: &Value) -> Result<Verdict, Stop> {
        Ok(match self.parrot.ask(request)? {
            Answer::Given(response) => verdict(&response),
            Answer::Never => Verdict::Denied {
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
    ) -> Result<(), Stop> {
        self.denials.push(json!({"tool_name": name, "tool_use_id": id, "tool_input": input}));
        if interrupt {
            return Err(Stop::Interrupted);
        }
        self.result(id, why, false)?;
        Ok(())
    }

    fn fail(&mut self, id: &str, why: &str) -> Result<(), Stop> {
        let text = format!("Tool permission request failed: {why}");
        self.result(id, &text, false)?;
        self.say(&text)
    }

    pub(super) fn result(&mut self, id: &str, text: &str, ok: bool) -> io::Result<()> {
        self.tool = None;
        self.heard += Words::count(text);
        let content = json!([{"type": "tool_result", "tool_use_id": id, "content": text,
            "is_error": !ok}]);
        self.parrot.voice.told(&content, json!({"tool_use_result": text}))
    }
}

fn verdict(response: &Value) -> Verdict {
    let text = |value: &Value, default: &str| value.as_str().unwrap_or(default).to_owned();
    if response["subtype"] != "success" {
        let why = text(&response["error"], "the other side reported an error");
        return Verdict::Unclear { why };
    }
    let decision = &response["response"];
    match decision["behavior"].as_str() {
        Some("allow") => Verdict::Allowed {
            input: decision["updatedInput"].clone(),
            rules: session_rules(&decision["updatedPermissions"]),
        },
        Some("deny") => Verdict::Denied {
            why: text(&decision["message"], "no reason was given"),
            interrupt: decision["interrupt"] == true,
        },
        _ => Verdict::Unclear { why: "the answer is neither `allow` nor `deny`".to_owned() },
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
