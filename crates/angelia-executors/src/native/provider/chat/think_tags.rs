//! Separates reasoning that a model writes into its text: `<think>…</think>` at the very beginning
//! of an answer. Chunks may split the tags anywhere.

use super::super::ProviderEvent;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

#[derive(Debug, Default)]
pub(super) struct ThinkTags {
    state: State,
    /// Text that may be the beginning of a tag.
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Beginning,
    Thinking,
    /// After the closing tag, before the first word.
    Gap,
    Answer,
}

impl ThinkTags {
    /// Returns the next text as deltas. Holds back text that may be part of a tag.
    pub(super) fn split(&mut self, text: &str) -> Vec<ProviderEvent> {
        let mut deltas = Vec::new();
        self.held.push_str(text);
        while self.advance(&mut deltas) {}
        deltas
    }

    /// Ends the text, and returns what was held back.
    pub(super) fn finish(&mut self) -> Option<ProviderEvent> {
        let held = std::mem::take(&mut self.held);
        let is_thought = self.state == State::Thinking;
        self.state = State::Answer;
        delta(&held, is_thought)
    }

    /// Processes the held text. Returns whether the rest can be processed too.
    fn advance(&mut self, deltas: &mut Vec<ProviderEvent>) -> bool {
        match self.state {
            State::Beginning => {
                let word = self.held.trim_start();
                if let Some(rest) = word.strip_prefix(OPEN) {
                    self.held = rest.to_owned();
                    self.state = State::Thinking;
                    return true;
                }
                if OPEN.starts_with(word) {
                    return false;
                }
                self.state = State::Answer;
                true
            }
            State::Thinking => {
                if let Some(at) = self.held.find(CLOSE) {
                    deltas.extend(delta(&self.held[..at], true));
                    self.held.drain(..at + CLOSE.len());
                    self.state = State::Gap;
                    return true;
                }
                let certain = self.held.len() - tag_start(&self.held);
                deltas.extend(delta(&self.held[..certain], true));
                self.held.drain(..certain);
                false
            }
            State::Gap => {
                let blanks = self.held.len() - self.held.trim_start().len();
                self.held.drain(..blanks);
                if !self.held.is_empty() {
                    self.state = State::Answer;
                }
                !self.held.is_empty()
            }
            State::Answer => {
                deltas.extend(delta(&std::mem::take(&mut self.held), false));
                false
            }
        }
    }
}

fn delta(text: &str, is_thought: bool) -> Option<ProviderEvent> {
    let event = if is_thought { ProviderEvent::ReasoningDelta } else { ProviderEvent::TextDelta };
    (!text.is_empty()).then(|| event(text.into()))
}

/// Returns the length of the longest suffix of `text` that is a prefix of the closing tag.
fn tag_start(text: &str) -> usize {
    (1..CLOSE.len()).rev().find(|length| text.ends_with(&CLOSE[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&str]) -> (String, String) {
        let mut tags = ThinkTags::default();
        let mut deltas: Vec<_> = chunks.iter().flat_map(|chunk| tags.split(chunk)).collect();
        deltas.extend(tags.finish());
        let mut texts = (String::new(), String::new());
        for delta in deltas {
            match delta {
                ProviderEvent::ReasoningDelta(text) => texts.0.push_str(&text),
                ProviderEvent::TextDelta(text) => texts.1.push_str(&text),
                _ => panic!("not a delta"),
            }
        }
        texts
    }

    #[test]
    fn thoughts_are_separated_however_the_text_is_cut() {
        let table = [
            ("<think>a < b</think>\n\nanswer", "a < b", "answer"),
            ("\n<think>\nx</think>y", "\nx", "y"),
            ("<think>never ends </thin", "never ends </thin", ""),
            ("no <think>tags</think>", "", "no <think>tags</think>"),
            ("<thinking>", "", "<thinking>"),
            ("<thi", "", "<thi"),
            ("  plain", "", "  plain"),
            ("<think></think>", "", ""),
            ("<think>é</think>é", "é", "é"),
        ];
        for (text, thoughts, answer) in table {
            let expected = (thoughts.to_owned(), answer.to_owned());
            assert_eq!(split(&[text]), expected, "{text}");
            let characters: Vec<String> = text.chars().map(String::from).collect();
            let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
            assert_eq!(split(&characters), expected, "{text}");
        }
    }
}
