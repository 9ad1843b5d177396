//! Parses commands as people type them: `/stop`, or `!stop` where the platform reserves the slash for
//! itself. Pure.

use angelia_core::ports::ChatCommandHint;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChatCommand {
    New,
    Sessions,
    Resume,
    Fork,
    Stop,
    Status,
    Usage,
    Model,
    Profile,
    Cwd,
    Compact,
    Steer,
    Approve,
    Deny,
    Schedule,
    Whoami,
    Help,
}

const fn hint(name: &'static str, about: &'static str) -> ChatCommandHint {
    ChatCommandHint { name, about }
}

/// The commands, in the order in which `/help` lists them.
const COMMANDS: [ChatCommand; 17] = [
    ChatCommand::New,
    ChatCommand::Sessions,
    ChatCommand::Resume,
    ChatCommand::Fork,
    ChatCommand::Stop,
    ChatCommand::Status,
    ChatCommand::Usage,
    ChatCommand::Model,
    ChatCommand::Profile,
    ChatCommand::Cwd,
    ChatCommand::Compact,
    ChatCommand::Steer,
    ChatCommand::Approve,
    ChatCommand::Deny,
    ChatCommand::Schedule,
    ChatCommand::Whoami,
    ChatCommand::Help,
];

/// The entries of a platform's menu, in the order of [`COMMANDS`].
pub(super) const COMMAND_HINTS: [ChatCommandHint; 17] = [
    hint("new", "begin a new session"),
    hint("sessions", "list the sessions of this chat"),
    hint("resume", "continue another session of this chat: /resume ID"),
    hint("fork", "continue in a copy of this session"),
    hint("stop", "stop what is running"),
    hint("status", "show the session and what it is doing"),
    hint("usage", "show what the sessions of this chat have used"),
    hint("model", "show or choose the model: /model NAME"),
    hint("profile", "show or choose the profile (approvers): /profile NAME"),
    hint("cwd", "show or choose the folder (approvers): /cwd PATH"),
    hint("compact", "compact the conversation"),
    hint("steer", "send a message to the running turn: /steer TEXT"),
    hint("approve", "approve an agent's request (approvers): /approve ID"),
    hint("deny", "deny an agent's request (approvers): /deny ID"),
    hint("schedule", "list or add schedules (approvers): /schedule every 1h: TEXT"),
    hint("whoami", "show your id and what you may do"),
    hint("help", "list the commands"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParsedCommand<'a> {
    /// A command and its argument.
    Known(ChatCommand, &'a str),
    /// A word that looks like a command but is none.
    Unknown(&'a str),
    /// An ordinary message.
    Words,
}

pub(super) fn parse_command(text: &str) -> ParsedCommand<'_> {
    let text = text.trim();
    let has_slash = text.starts_with('/');
    let Some(rest) = text.strip_prefix('/').or_else(|| text.strip_prefix('!')) else {
        return ParsedCommand::Words;
    };
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A path such as `/etc/hosts`, or an exclamation.
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return ParsedCommand::Words;
    }
    let found = COMMAND_HINTS.iter().position(|known| known.name.eq_ignore_ascii_case(name));
    match found {
        Some(index) => ParsedCommand::Known(COMMANDS[index], argument.trim()),
        // Some platforms send `/start` when a person opens the chat with the bot.
        None if has_slash && name == "start" => ParsedCommand::Known(ChatCommand::Help, ""),
        None if has_slash => ParsedCommand::Unknown(&text[..=name.len()]),
        None => ParsedCommand::Words,
    }
}

pub(super) fn help_text() -> String {
    let lines = COMMAND_HINTS.iter().map(|one| format!("- /{}: {}", one.name, one.about));
    format!("Write to the agent, or use a command:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_words() {
        let known = |command, argument| ParsedCommand::Known(command, argument);
        let table = [
            ("/stop", known(ChatCommand::Stop, "")),
            (" !STOP now ", known(ChatCommand::Stop, "now")),
            ("/approve ab12 session", known(ChatCommand::Approve, "ab12 session")),
            ("/start", known(ChatCommand::Help, "")),
            ("/yolo", ParsedCommand::Unknown("/yolo")),
            ("!wow", ParsedCommand::Words),
            ("/etc/hosts is what?", ParsedCommand::Words),
            ("/", ParsedCommand::Words),
            ("stop", ParsedCommand::Words),
        ];
        for (text, parsed) in table {
            assert_eq!(parse_command(text), parsed, "{text}");
        }
        for (index, command) in COMMANDS.iter().enumerate() {
            let text = format!("/{} x", COMMAND_HINTS[index].name);
            assert_eq!(parse_command(&text), known(*command, "x"));
        }
    }
}
