//! The lines of a chat that begin with `/`.

/// All commands, each with its name, argument and effect.
pub(super) const COMMANDS: [(&str, &str, &str); 10] = [
    ("/model", "[NAME]", "shows the model, or changes it from the next turn on"),
    ("/profile", "[NAME]", "shows the profile, or starts a new session with another"),
    ("/new", "", "starts a new session"),
    ("/fork", "", "continues in a copy of this session; the original stays as it is"),
    ("/resume", "[SESSION]", "continues another session: a name, an id, `last`; or lists them"),
    ("/compact", "", "shortens the conversation: a summary replaces its older part"),
    ("/usage", "", "what this session has used so far"),
    ("/stop", "", "typed while a turn runs: interrupts it, as Ctrl-C does"),
    ("/help", "", "this list"),
    ("/quit", "", "leaves, as Ctrl-D does"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatCommand {
    Model(Option<String>),
    Profile(Option<String>),
    New,
    Fork,
    Resume(Option<String>),
    Compact,
    Usage,
    Stop,
    Help,
    Quit,
}

impl ChatCommand {
    /// Parses a line. Returns `None` for a prompt, even one that begins with a file path.
    pub(super) fn parse(line: &str) -> Option<Result<Self, String>> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if !word.starts_with('/') || word[1..].contains('/') {
            return None;
        }
        let rest = rest.trim();
        let value = (!rest.is_empty()).then(|| rest.to_owned());
        let command = match word {
            "/model" => Self::Model(value),
            "/profile" => Self::Profile(value),
            "/resume" => Self::Resume(value),
            _ if value.is_some() && COMMANDS.iter().any(|(name, ..)| *name == word) => {
                return Some(Err(format!("{word} takes nothing after it")));
            }
            "/new" => Self::New,
            "/fork" => Self::Fork,
            "/compact" => Self::Compact,
            "/usage" => Self::Usage,
            "/stop" => Self::Stop,
            "/help" => Self::Help,
            "/quit" | "/exit" => Self::Quit,
            _ => return Some(Err(format!("there is no command {word}"))),
        };
        Some(Ok(command))
    }
}

/// Returns the text of `/help`.
pub(super) fn help() -> String {
    let mut lines: Vec<String> = COMMANDS
        .iter()
        .map(|(name, value, what)| format!("{:<20}{what}", format!("{name} {value}")))
        .collect();
    lines.extend([
        "A line that ends with \\ continues on the next one; Tab completes commands and files."
            .into(),
        "A picture is added by its path, a text file by @PATH.".into(),
        "Typed while a turn runs, d shows the diff of the last edit.".into(),
    ]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_a_prompt() {
        let parse = ChatCommand::parse;
        assert_eq!(parse(" /model  opus "), Some(Ok(ChatCommand::Model(Some("opus".into())))));
        assert_eq!(parse("/resume"), Some(Ok(ChatCommand::Resume(None))));
        for (line, command) in [
            ("/new", ChatCommand::New),
            ("/fork", ChatCommand::Fork),
            ("/compact", ChatCommand::Compact),
            ("/usage", ChatCommand::Usage),
            ("/stop", ChatCommand::Stop),
            ("/help", ChatCommand::Help),
            ("/quit", ChatCommand::Quit),
        ] {
            assert_eq!(parse(line), Some(Ok(command)));
        }
        for prompt in ["hello", "/pictures/one.png what is this?", "a /new idea"] {
            assert_eq!(parse(prompt), None, "{prompt}");
        }
        for wrong in ["/nonsense", "/", "/new idea"] {
            assert!(matches!(parse(wrong), Some(Err(_))), "{wrong}");
        }
        for (name, ..) in COMMANDS {
            assert!(matches!(parse(name), Some(Ok(_))), "{name}");
        }
    }
}
