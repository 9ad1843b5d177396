//! Runs one turn: the steps of the prompt's script, and the end of the turn.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    message::{BlockChannel, MessageWriter},
    output::{VERSION, WordCount, merge_fields},
    process::{EarlyExit, ParrotProcess, TurnAbort},
    script::{self, ScriptStep},
    simulated_failure::SimulatedFailure,
    stdin::UserPrompt,
};

/// Text is written in chunks of about this many bytes.
const CHUNK_BYTES: usize = 24;

#[derive(Debug)]
pub(super) struct ParrotTurn<'p, W> {
    pub(super) parrot: &'p mut ParrotProcess<W>,
    /// The ids of the sender's messages, as fields for the lines that refer to them.
    pub(super) message_ids: Value,
    pub(super) began: Instant,
    /// Input words since the last message: those of the prompt, or of a tool result.
    pub(super) input_words: u64,
    pub(super) turn_words: WordCount,
    pub(super) message: Option<MessageWriter>,
    pub(super) messages: u32,
    /// The id of a tool call without a result.
    pub(super) open_tool: Option<String>,
    pub(super) denials: Vec<Value>,
    /// The text of the last message's answer.
    pub(super) answer: String,
    request_written: bool,
}

/// The end of a script.
#[derive(Debug)]
pub(super) enum TurnEnding {
    Done,
    Failed(SimulatedFailure),
    Interrupted,
}

/// Runs a turn. Several messages that waited together are one turn.
pub(super) fn run_turn<W: Write>(
    parrot: &mut ParrotProcess<W>,
    prompts: &[UserPrompt],
) -> Result<(), EarlyExit> {
    let uuids: Vec<&str> = prompts.iter().filter_map(|p| p.uuid.as_deref()).collect();
    for uuid in &uuids {
        parrot.output.write_lifecycle(Some(uuid), "started")?;
    }
    let marks = match uuids.last() {
        Some(last) => json!({"user_message_uuid": last, "user_message_uuids": uuids}),
        None => json!({}),
    };
    parrot.turns += 1;
    let texts: Vec<&str> = prompts.iter().map(|prompt| prompt.text.as_str()).collect();
    let text = texts.join("\n");
    let images = prompts.iter().map(|prompt| prompt.images).sum();
    let mut turn = ParrotTurn {
        parrot,
        message_ids: marks,
        began: Instant::now(),
        input_words: WordCount::count(&text),
        turn_words: WordCount::default(),
        message: None,
        messages: 0,
        open_tool: None,
        denials: Vec::new(),
        answer: String::new(),
        request_written: false,
    };
    turn.init()?;
    let ending = match turn.run_steps(&script::parse_script(&text), images) {
        Ok(ending) => ending,
        Err(TurnAbort::Interrupted) => TurnEnding::Interrupted,
        Err(TurnAbort::Exit(halt)) => return Err(halt),
    };
    turn.finish(&ending)?;
    let last = match ending {
        TurnEnding::Interrupted => "cancelled",
        TurnEnding::Done | TurnEnding::Failed(_) => "completed",
    };
    for prompt in prompts {
        parrot.output.write_lifecycle(prompt.uuid.as_deref(), last)?;
    }
    Ok(())
}

impl<W: Write> ParrotTurn<'_, W> {
    fn init(&mut self) -> io::Result<()> {
        let cwd = std::env::current_dir().unwrap_or_default();
        let mut line = json!({"type": "system", "subtype": "init", "cwd": cwd.to_string_lossy(),
            "tools": ["AskUserQuestion", "Bash"], "mcp_servers": [], "model": self.parrot.model,
            "permissionMode": "default", "slash_commands": [], "apiKeySource": "none",
            "version": VERSION});
        merge_fields(&mut line, self.message_ids.clone());
        self.parrot.output.write_line(line)
    }

    fn run_steps(&mut self, steps: &[ScriptStep], images: usize) -> Result<TurnEnding, TurnAbort> {
        for step in steps {
            match step {
                ScriptStep::Say(text) => self.write_paragraph(text)?,
                ScriptStep::Words { count, gap } => self.count_words(*count, *gap)?,
                ScriptStep::Think(text) => self.write_text(BlockChannel::Reasoning, text)?,
                ScriptStep::Tool { name, takes } => self.simulate_tool(name, *takes)?,
                ScriptStep::Ask { command } => self.ask_permission(command)?,
                ScriptStep::Question => self.ask_question()?,
                ScriptStep::Who => {
                    let text = self.who();
                    self.write_paragraph(&text)?;
                }
                ScriptStep::Fail(failing) => {
                    self.end_message("end_turn")?;
                    return Ok(TurnEnding::Failed(*failing));
                }
                ScriptStep::Hang => {
                    self.write_requesting()?;
                    self.parrot.hang()?;
                }
                ScriptStep::Die => {
                    self.write_chunk(BlockChannel::Answer, "I was told to d")?;
                    return Err(TurnAbort::Exit(EarlyExit::Failed(
                        "the prompt told me to die (!die)".to_owned(),
                    )));
                }
            }
        }
        if images > 0 {
            self.write_paragraph(&format!("(You sent {images} image(s); I cannot see them.)"))?;
        }
        self.end_message("end_turn")?;
        Ok(TurnEnding::Done)
    }

    fn who(&self) -> String {
        format!(
            "Parrot {VERSION}, process {}, session {}, turn {} of this process, model {}.",
            std::process::id(),
            self.parrot.output.session(),
            self.parrot.turns,
            self.parrot.model,
        )
    }

    fn count_words(&mut self, count: u32, gap: Duration) -> Result<(), TurnAbort> {
        self.start_paragraph()?;
        for number in 1..=count {
            let end = if number == count { "" } else { " " };
            self.write_chunk(BlockChannel::Answer, &format!("word{number}{end}"))?;
            let pause = if number == count { Duration::ZERO } else { gap };
            self.parrot.handle_input_for(pause)?;
        }
        Ok(())
    }

    /// Writes a paragraph of the answer.
    pub(super) fn write_paragraph(&mut self, text: &str) -> Result<(), TurnAbort> {
        self.start_paragraph()?;
        self.write_text(BlockChannel::Answer, text)
    }

    fn start_paragraph(&mut self) -> Result<(), TurnAbort> {
        if self.message.as_ref().is_some_and(MessageWriter::is_answering) {
            self.write_chunk(BlockChannel::Answer, "\n\n")?;
        }
        Ok(())
    }

    fn write_text(&mut self, channel: BlockChannel, text: &str) -> Result<(), TurnAbort> {
        for piece in split_chunks(text) {
            self.write_chunk(channel, piece)?;
            self.parrot.handle_input_for(Duration::ZERO)?;
        }
        Ok(())
    }

    fn write_chunk(&mut self, channel: BlockChannel, piece: &str) -> Result<(), TurnAbort> {
        let mut message = self.take_message()?;
        message.write_chunk(&mut self.parrot.output, channel, piece)?;
        self.message = Some(message);
        Ok(())
    }

    /// Takes the open message, or starts a new one.
    pub(super) fn take_message(&mut self) -> io::Result<MessageWriter> {
        if let Some(message) = self.message.take() {
            return Ok(message);
        }
        self.write_requesting()?;
        self.request_written = false;
        self.messages += 1;
        let heard = std::mem::take(&mut self.input_words);
        let ParrotProcess { output: voice, model, .. } = &mut *self.parrot;
        MessageWriter::start(voice, model, heard, &self.message_ids)
    }

    /// Writes the status `requesting`, once per message: a real agent would now wait for its model.
    fn write_requesting(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.request_written, true) {
            return Ok(());
        }
        let mut line = json!({"type": "system", "subtype": "status", "status": "requesting"});
        if let Some(uuids) = self.message_ids.get("user_message_uuids") {
            line["user_message_uuids"] = uuids.clone();
        }
        self.parrot.output.write_line(line)
    }

    pub(super) fn end_message(&mut self, stop_reason: &str) -> io::Result<()> {
        if let Some(message) = self.message.take() {
            let said = message.end(&mut self.parrot.output, stop_reason)?;
            self.turn_words.add(said.words);
            self.answer = said.answer.unwrap_or_default();
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
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        Some(piece)
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
