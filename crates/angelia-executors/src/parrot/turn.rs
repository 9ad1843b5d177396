//! Runs one turn: the steps of the prompt's script.

use std::time::Duration;

use serde_json::json;

use super::{
    VERSION,
    script::{self, ScriptStep},
    simulated_failure::SimulatedFailure,
};
use crate::scripted_claude::{
    BlockChannel, EarlyExit, ScriptedTurn, TurnAbort, TurnEnding, UserMessage,
};

/// Text is written in chunks of about this many bytes.
const CHUNK_BYTES: usize = 24;
/// The time until a simulated rate limit resets.
const RATE_LIMIT_RESET: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct ParrotTurn<'p, 'c> {
    pub(super) turn: &'p mut ScriptedTurn<'c>,
}

impl ParrotTurn<'_, '_> {
    pub(super) fn run(&mut self) -> Result<TurnEnding, TurnAbort> {
        for step in script::parse_script(&self.turn.prompt()) {
            match step {
                ScriptStep::Say(text) => self.write_paragraph(&text)?,
                ScriptStep::Words { count, gap } => self.count_words(count, gap)?,
                ScriptStep::Think(text) => self.write_text(BlockChannel::Reasoning, &text)?,
                ScriptStep::Tool { name, takes } => self.simulate_tool(&name, takes)?,
                ScriptStep::Ask { command } => self.ask_permission(&command)?,
                ScriptStep::Write { path, lines } => self.ask_to_write(&path, lines)?,
                ScriptStep::Question => self.ask_question()?,
                ScriptStep::Who => {
                    let text = self.who();
                    self.write_paragraph(&text)?;
                }
                ScriptStep::Fail(failure) => return self.fail_turn(failure),
                ScriptStep::Hang => self.turn.hang()?,
                ScriptStep::Die => {
                    self.turn.write_text(BlockChannel::Answer, "I was told to d")?;
                    return Err(TurnAbort::Exit(EarlyExit::Failed(
                        "the prompt told me to die (!die)".to_owned(),
                    )));
                }
            }
        }
        let images: usize = self.turn.user_messages().iter().map(UserMessage::images).sum();
        if images > 0 {
            self.write_paragraph(&format!("(You sent {images} image(s); I cannot see them.)"))?;
        }
        Ok(TurnEnding::Done)
    }

    fn fail_turn(&mut self, failure: SimulatedFailure) -> Result<TurnEnding, TurnAbort> {
        self.turn.end_message("end_turn")?;
        if failure == SimulatedFailure::Rate {
            let resets_at =
                jiff::Timestamp::now().as_second() + RATE_LIMIT_RESET.as_secs().cast_signed();
            self.turn.write_line(json!({"type": "rate_limit_event", "rate_limit_info": {
                "status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour",
                "isUsingOverage": false}}))?;
        }
        Ok(TurnEnding::Failed(failure.as_api_failure()))
    }

    fn who(&self) -> String {
        format!(
            "Parrot {VERSION}, process {}, session {}, turn {} of this process, model {}.",
            std::process::id(),
            self.turn.session(),
            self.turn.number(),
            self.turn.model(),
        )
    }

    fn count_words(&mut self, count: u32, gap: Duration) -> Result<(), TurnAbort> {
        self.start_paragraph()?;
        for number in 1..=count {
            let end = if number == count { "" } else { " " };
            self.turn.write_text(BlockChannel::Answer, &format!("word{number}{end}"))?;
            let pause = if number == count { Duration::ZERO } else { gap };
            self.turn.handle_input_for(pause)?;
        }
        Ok(())
    }

    /// Writes a paragraph of the answer.
    pub(super) fn write_paragraph(&mut self, text: &str) -> Result<(), TurnAbort> {
        self.start_paragraph()?;
        self.write_text(BlockChannel::Answer, text)
    }

    fn start_paragraph(&mut self) -> Result<(), TurnAbort> {
        if self.turn.is_answering() {
            self.turn.write_text(BlockChannel::Answer, "\n\n")?;
        }
        Ok(())
    }

    fn write_text(&mut self, channel: BlockChannel, text: &str) -> Result<(), TurnAbort> {
        for chunk in split_chunks(text) {
            self.turn.write_text(channel, chunk)?;
            self.turn.handle_input_for(Duration::ZERO)?;
        }
        Ok(())
    }
}

/// Splits text after white space, so that every word arrives whole.
fn split_chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let from = rest.ceil_char_boundary(CHUNK_BYTES.min(rest.len()));
        let end = rest[from..]
            .find(char::is_whitespace)
            .map_or(rest.len(), |at| rest.ceil_char_boundary(from + at + 1));
        let (chunk, tail) = rest.split_at(end);
        rest = tail;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_text() {
        for text in ["", "a", "one two three four five six seven eight", "ääääääääääää\u{3000}ö x"]
        {
            assert_eq!(split_chunks(text).collect::<String>(), text);
        }
        assert_eq!(split_chunks(&"word ".repeat(20)).count(), 4);
    }
}
