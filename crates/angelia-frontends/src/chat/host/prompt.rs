//! Builds the prompt from a message: its words, its sender, and the message that it answers. Pure.

use std::fmt::Write as _;

use angelia_core::ports::{InboundMessage, Sender};
use jiff::{SignedDuration, Timestamp};

/// A message that waited longer than this is marked with its time.
const OLD_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// How many characters of a quoted message are passed on.
const MAX_QUOTE: usize = 1000;

/// Returns the words of a message. In a group, the sender's name precedes them.
pub(super) fn message_words(
    message: &InboundMessage,
    sender: &Sender,
    received_at: Timestamp,
) -> String {
    let mut words = String::new();
    let age = received_at.duration_since(message.sent_at);
    if message.sent_at > Timestamp::UNIX_EPOCH && age > OLD_AFTER {
        let _infallible = writeln!(words, "(sent {} minutes ago)", age.as_mins());
    }
    if let Some(quoted) = &message.quoted {
        let quoted: String = quoted.chars().take(MAX_QUOTE).collect();
        for line in quoted.lines() {
            let _infallible = writeln!(words, "> {line}");
        }
        words.push('\n');
    }
    if !message.is_direct {
        let _infallible = write!(words, "{}: ", sender.name);
    }
    words.push_str(&message.text);
    words
}

/// Returns the lines that tell the agent, once per session, where its messages come from and how it
/// can send files to the chat.
pub(super) fn source_lines(platform: &str, is_direct: bool, output: Option<&str>) -> String {
    let kind = if is_direct { "direct messages" } else { "a group" };
    let source = format!("**Source:** chat ({platform}, {kind})");
    match output {
        Some(folder) => {
            format!("{source}\nFiles that you write to `{folder}` are sent to this chat.")
        }
        None => source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_who_has_sent_them_when_and_what_they_answer() {
        let sent_at = Timestamp::from_second(1_000_000).unwrap();
        let mut message = InboundMessage {
            id: "1".into(),
            text: "why?".into(),
            is_direct: true,
            is_addressed: true,
            quoted: None,
            files: Vec::new(),
            sent_at,
        };
        let sender = Sender::new("7", "Ada");
        assert_eq!(message_words(&message, &sender, sent_at), "why?");
        message.quoted = Some("it fails\nhere".into());
        message.is_direct = false;
        let later = Timestamp::from_second(1_000_000 + 3600).unwrap();
        assert_eq!(
            message_words(&message, &sender, later),
            "(sent 60 minutes ago)\n> it fails\n> here\n\nAda: why?"
        );
    }
}
