//! Decides whether an answer is finished. Some servers report an ordinary stop for an answer that
//! was cut off. The token counts reveal that, and for servers known to do it, the last characters.

use super::provider::StopReason;

/// In scripts whose sentences need no closing punctuation, a final letter counts as an ending only
/// if the text is longer than this.
const LONG_TEXT_CHARS: usize = 200;

/// Punctuation after which a sentence continues.
const CONTINUING: [char; 14] =
    [',', ';', '-', '–', '—', '(', '[', '{', '、', '，', '；', '،', '（', '「'];

/// The facts about the end of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerEnd<'a> {
    pub text: &'a str,
    pub stop: &'a StopReason,
    /// `None` if the server did not count them.
    pub output_tokens: Option<u64>,
    /// `None` if no limit was set.
    pub max_output_tokens: Option<u64>,
    /// The server has the quirk of this name.
    pub stop_unreliable: bool,
}

/// Returns whether the model has said everything it wanted to.
pub fn is_finished(end: &AnswerEnd<'_>) -> bool {
    match end.stop {
        StopReason::MaxTokens | StopReason::Pause | StopReason::WindowExceeded => return false,
        StopReason::ToolUse | StopReason::Refused => return true,
        StopReason::EndTurn | StopReason::Other(_) => {}
    }
    if has_reached_limit(end.output_tokens, end.max_output_tokens) {
        return false;
    }
    !end.stop_unreliable || ends_naturally(end.text)
}

/// Returns whether an answer has reached its token limit. Some servers call such an answer
/// complete.
pub fn has_reached_limit(output_tokens: Option<u64>, max_output_tokens: Option<u64>) -> bool {
    let counts = output_tokens.zip(max_output_tokens);
    counts.is_some_and(|(written, limit)| written + 1 >= limit)
}

/// Returns whether a text looks complete.
fn ends_naturally(text: &str) -> bool {
    let text = text.trim_end();
    let Some(last) = text.chars().next_back() else { return true };
    if has_open_fence(text) {
        return false;
    }
    let last_line = text.lines().next_back().unwrap_or_default().trim_start();
    if is_list_item(last_line) {
        return true;
    }
    if last.is_alphanumeric() {
        return needs_no_mark(last) && text.chars().nth(LONG_TEXT_CHARS).is_some();
    }
    !CONTINUING.contains(&last)
}

fn has_open_fence(text: &str) -> bool {
    text.lines().filter(|line| line.trim_start().starts_with("```")).count() % 2 == 1
}

fn is_list_item(line: &str) -> bool {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_number.len() < line.len() && after_number.starts_with(". ");
    is_numbered || ["- ", "* ", "+ ", "• "].iter().any(|bullet| line.starts_with(bullet))
}

/// Returns whether a letter belongs to a script that often ends sentences without punctuation:
/// Arabic, Thai, Chinese, Japanese, Korean.
fn needs_no_mark(letter: char) -> bool {
    matches!(u32::from(letter),
        0x0600..=0x06ff | 0x0e00..=0x0e7f | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xac00..=0xd7af
        | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(text: &str, stop_unreliable: bool, counts: (u64, u64)) -> bool {
        is_finished(&AnswerEnd {
            text,
            stop: &StopReason::EndTurn,
            output_tokens: Some(counts.0),
            max_output_tokens: Some(counts.1),
            stop_unreliable,
        })
    }

    #[test]
    fn the_last_characters_tell() {
        let complete = [
            "Done.",
            "Really?",
            "完成。",
            "Fertig ⚡",
            "Sure 👍🏽",
            "Love ❤️",
            "Family 👨‍👩‍👧",
            "Press 1️⃣",
            "see ^",
            "(yes)",
            "“quoted”",
            "»fin«",
            "```rust\nfn main() {}\n```",
            "| a | b |",
            "- one\n- two",
            "1. first\n2. second",
            "",
            "let x = 1;\n```\n```",
        ];
        for text in complete {
            assert!(finished(text, true, (10, 100)), "{text}");
        }
        let cut =
            ["I will now", "first, second,", "```rust\nfn main() {", "the value (", "还有", "a -"];
        for text in cut {
            assert!(!finished(text, true, (10, 100)), "{text}");
            assert!(finished(text, false, (10, 100)), "a reliable server is believed: {text}");
        }
        assert!(finished(&"你好".repeat(120), true, (10, 100)));
        assert!(!finished(&"word ".repeat(120), true, (10, 100)));
    }

    #[test]
    fn the_counts_tell_first() {
        assert!(!finished("Done.", false, (99, 100)));
        assert!(!finished("Done.", false, (100, 100)));
        assert!(finished("Done.", false, (98, 100)));
        let end = |stop: &StopReason| {
            is_finished(&AnswerEnd {
                text: "Done.",
                stop,
                output_tokens: None,
                max_output_tokens: None,
                stop_unreliable: true,
            })
        };
        assert!(!end(&StopReason::MaxTokens));
        assert!(end(&StopReason::Refused));
        assert!(end(&StopReason::Other("word".into())));
    }
}
