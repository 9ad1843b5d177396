//! Runs one turn: the steps of the prompt's script, and the end of the turn.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    failing::Failing,
    inbox::Prompt,
    message::{Channel, Message},
    process::{Halt, Parrot, Stop},
    script::{self, Step},
    speech::{VERSION, Words, extend},
};

/// Text is written in chunks of about this many bytes.
const PIECE: usize = 24;

#[derive(Debug)]
pub(super) struct Turn<'p, W> {
    pub(super) parrot: &'p mut Parrot<W>,
    /// The ids of the sender's messages, as fields for the lines that refer to them.
    pub(super) marks: Value,
    pub(super) began: Instant,
    /// Input words since the last message: those of the prompt, or of a tool result.
    pub(super) heard: u64,
    pub(super) spent: Words,
    pub(super) message: Option<Message>,
    pub(super) messages: u32,
    /// The id of a tool call without a result.
    pub(super) tool: Option<String>,
    pub(super) denials: Vec<Value>,
    /// The text of the last message's answer.
    pub(super) answer: String,
    requested: bool,
}

/// The end of a script.
#[derive(Debug)]
pub(super) enum Ending {
    Done,
    Failed(Failing),
    Interrupted,
}

/// Runs a turn. Several messages that waited together are one turn.
pub(super) fn play<W: Write>(parrot: &mut Parrot<W>, prompts: &[Prompt]) -> Result<(), Halt> {
    let uuids: Vec<&str> = prompts.iter().filter_map(|p| p.uuid.as_deref()).collect();
    for uuid in &uuids {
        parrot.voice.lifecycle(Some(uuid), "started")?;
    }
    let marks = match uuids.last() {
        Some(last) => json!({"user_message_uuid": last, "user_message_uuids": uuids}),
        None => json!({}),
    };
    parrot.turns += 1;
    let texts: Vec<&str> = prompts.iter().map(|prompt| prompt.text.as_str()).collect();
    let text = texts.join("\n");
    let images = prompts.iter().map(|prompt| prompt.images).sum();
    let mut turn = Turn {
        parrot,
        marks,
        began: Instant::now(),
        heard: Words::count(&text),
        spent: Words::default(),
        message: None,
        messages: 0,
        tool: None,
        denials: Vec::new(),
        answer: String::new(),
        requested: false,
    };
    turn.init()?;
    let ending = match turn.act(&script::read(&text), images) {
        Ok(ending) => ending,
        Err(Stop::Interrupted) => Ending::Interrupted,
        Err(Stop::Halt(halt)) => return Err(halt),
    };
    turn.finish(&ending)?;
    let last = match ending {
        Ending::Interrupted => "cancelled",
        Ending::Done | Ending::Failed(_) => "completed",
    };
    for prompt in prompts {
        parrot.voice.lifecycle(prompt.uuid.as_deref(), last)?;
    }
    Ok(())
}

impl<W: Write> Turn<'_, W> {
    fn init(&mut self) -> io::Result<()> {
        let cwd = std::env::current_dir().unwrap_or_default();
        let mut line = json!({"type": "system", "subtype": "init", "cwd": cwd.to_string_lossy(),
            "tools": ["AskUserQuestion", "Bash"], "mcp_servers": [], "model": self.parrot.model,
            "permissionMode": "default", "slash_commands": [], "apiKeySource": "none",
            "version": VERSION});
        extend(&mut line, self.marks.clone());
        self.parrot.voice.say(line)
    }

    fn act(&mut self, steps: &[Step], images: usize) -> Result<Ending, Stop> {
        for step in steps {
            match step {
                Step::Say(text) => self.say(text)?,
                Step::Words { count, gap } => self.count_words(*count, *gap)?,
                Step::Think(text) => self.speak(Channel::Reasoning, text)?,
                Step::Tool { name, takes } => self.pretend(name, *takes)?,
                Step::Ask { command } => self.ask_for(command)?,
                Step::Question => self.question()?,
                Step::Who => {
                    let text = self.who();
                    self.say(&text)?;
                }
                Step::Fail(failing) => {
                    self.close("end_turn")?;
                    return Ok(Ending::Failed(*failing));
                }
                Step::Hang => {
                    self.request()?;
                    self.parrot.hang()?;
                }
                Step::Die => {
                    self.piece(Channel::Answer, "I was told to d")?;
                    return Err(Stop::Halt(Halt::Broken(
                        "the prompt told me to die (!die)".to_owned(),
                    )));
                }
            }
        }
        if images > 0 {
            self.say(&format!("(You sent {images} image(s); I cannot see them.)"))?;
        }
        self.close("end_turn")?;
        Ok(Ending::Done)
    }

    fn who(&self) -> String {
        format!(
            "Parrot {VERSION}, process {}, session {}, turn {} of this process, model {}.",
            std::process::id(),
            self.parrot.voice.session(),
            self.parrot.turns,
            self.parrot.model,
        )
    }

    fn count_words(&mut self, count: u32, gap: Duration) -> Result<(), Stop> {
        self.separate()?;
        for number in 1..=count {
            let end = if number == count { "" } else { " " };
            self.piece(Channel::Answer, &format!("word{number}{end}"))?;
            let pause = if number == count { Duration::ZERO } else { gap };
            self.parrot.pause(pause)?;
        }
        Ok(())
    }

    /// Writes a paragraph of the answer.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Stop> {
        self.separate()?;
        self.speak(Channel::Answer, text)
    }

    fn separate(&mut self) -> Result<(), Stop> {
        if self.message.as_ref().is_some_and(Message::is_answering) {
            self.piece(Channel::Answer, "\n\n")?;
        }
        Ok(())
    }

    fn speak(&mut self, channel: Channel, text: &str) -> Result<(), Stop> {
        for piece in pieces(text) {
            self.piece(channel, piece)?;
            self.parrot.pause(Duration::ZERO)?;
        }
        Ok(())
    }

    fn piece(&mut self, channel: Channel, piece: &str) -> Result<(), Stop> {
        let mut message = self.open()?;
        message.speak(&mut self.parrot.voice, channel, piece)?;
        self.message = Some(message);
        Ok(())
    }

    /// Takes the open message, or starts a new one.
    pub(super) fn open(&mut self) -> io::Result<Message> {
        if let Some(message) = self.message.take() {
            return Ok(message);
        }
        self.request()?;
        self.requested = false;
        self.messages += 1;
        let heard = std::mem::take(&mut self.heard);
        let Parrot { voice, model, .. } = &mut *self.parrot;
        Message::start(voice, model, heard, &self.marks)
    }

    /// Writes the status `requesting`, once per message: a real agent would now wait for its model.
    fn request(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.requested, true) {
            return Ok(());
        }
        let mut line = json!({"type": "system", "subtype": "status", "status": "requesting"});
        if let Some(uuids) = self.marks.get("user_message_uuids") {
            line["user_message_uuids"] = uuids.clone();
        }
        self.parrot.voice.say(line)
    }

    pub(super) fn close(&mut self, stop_reason: &str) -> io::Result<()> {
        if let Some(message) = self.message.take() {
            let said = message.end(&mut self.parrot.voice, stop_reason)?;
            self.spent.add(said.words);
            self.answer = said.answer.unwrap_or_default();
        }
        Ok(())
    }
}

/// Splits text after white space, so that every word arrives whole.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let from = rest.ceil_char_boundary(PIECE.min(rest.len()));
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
            assert_eq!(pieces(text).collect::<String>(), text);
        }
        assert_eq!(pieces(&"word ".repeat(20)).count(), 4);
    }
}
