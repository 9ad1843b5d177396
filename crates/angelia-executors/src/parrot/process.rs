//! The parrot's process: one conversation with many turns, until stdin ends.
//!
//! There are two threads: one reads stdin, the main thread does everything else. A turn that waits
//! (for the next word, for an answer, or in `!hang`) handles input meanwhile, so control requests
//! are answered and interrupts obeyed at any moment.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::fd::AsFd as _,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    inbox::{Broken, Heard, Inbox, Next, Prompt},
    options::Options,
    speech::{VERSION, Voice, Words},
    turn,
};

/// Limits the message ids that are remembered, to drop a message that is sent twice.
const REMEMBERED: usize = 64;
/// Ends `!hang` after stdin has ended, when nothing can interrupt it any more.
const ABANDONED_HANG: Duration = Duration::from_mins(10);

/// Runs the hidden subcommand: [`run`] on this process's own pipes. Needs no Tokio runtime. Call it
/// before anything large is set up, because every session may have a process of its own.
pub fn main(arguments: impl IntoIterator<Item = String>) -> u8 {
    let input = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(input) => BufReader::new(File::from(input)),
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "parrot: stdin is closed: {error}");
            return 1;
        }
    };
    run(arguments, input, io::stdout().lock(), &mut io::stderr())
}

/// Serves turns until `input` ends, and returns the exit code: 0, or 1 if the last turn or the
/// process failed. A failure of the process is described in `errors`.
pub fn run(
    arguments: impl IntoIterator<Item = String>,
    input: impl BufRead + Send + 'static,
    output: impl Write,
    errors: &mut impl Write,
) -> u8 {
    let ended = Options::read(arguments)
        .map_err(|error| Halt::Broken(error.to_string()))
        .and_then(|options| Parrot::new(options, input, output)?.live());
    match ended {
        Ok(code) | Err(Halt::Exit(code)) => code,
        Err(Halt::Broken(why)) => {
            let _nobody_reads = writeln!(errors, "parrot: {why}");
            1
        }
    }
}

/// Why the process ends before its input does.
#[derive(Debug)]
pub(super) enum Halt {
    Exit(u8),
    Broken(String),
}

impl From<io::Error> for Halt {
    /// Every I/O error here is a failed write to stdout.
    fn from(error: io::Error) -> Self {
        Self::Broken(format!("stdout could not be written: {error}"))
    }
}

impl From<Broken> for Halt {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken.to_string())
    }
}

/// Why a turn ends before its script does.
#[derive(Debug)]
pub(super) enum Stop {
    Interrupted,
    Halt(Halt),
}

impl<E: Into<Halt>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Halt(error.into())
    }
}

/// The result of a control request to the other side.
#[derive(Debug)]
pub(super) enum Answer {
    Given(Value),
    /// Stdin ended before an answer came.
    Never,
}

#[derive(Debug)]
pub(super) struct Parrot<W> {
    inbox: Inbox,
    pub(super) voice: Voice<W>,
    pub(super) model: String,
    pub(super) turns: u32,
    /// Of all turns.
    pub(super) total: Words,
    /// Commands that were allowed for the whole session.
    pub(super) allowed: Vec<String>,
    pub(super) last_failed: bool,
    queue: VecDeque<Prompt>,
    remembered: VecDeque<String>,
    /// The id of our unanswered control request.
    question: Option<String>,
    answer: Option<Value>,
    busy: bool,
    interrupted: bool,
}

impl<W: Write> Parrot<W> {
    fn new(
        options: Options,
        input: impl BufRead + Send + 'static,
        output: W,
    ) -> Result<Self, Halt> {
        let inbox = Inbox::open(input)
            .map_err(|error| Halt::Broken(format!("no thread for stdin: {error}")))?;
        Ok(Self {
            inbox,
            voice: Voice::new(output, options.session),
            model: options.model,
            turns: 0,
            total: Words::default(),
            allowed: Vec::new(),
            last_failed: false,
            queue: VecDeque::new(),
            remembered: VecDeque::new(),
            question: None,
            answer: None,
            busy: false,
            interrupted: false,
        })
    }

    fn live(&mut self) -> Result<u8, Halt> {
        loop {
            if self.queue.is_empty() {
                match self.inbox.next(None)? {
                    Next::Line(heard) => self.hear(heard)?,
                    Next::Quiet => {}
                    Next::Closed => return Ok(self.last_failed.into()),
                }
            } else {
                // As in Claude Code, messages that queued up during a turn form the next turn
                // together.
                let prompts: Vec<Prompt> = self.queue.drain(..).collect();
                self.busy = true;
                self.interrupted = false;
                turn::play(self, &prompts)?;
                self.busy = false;
            }
        }
    }

    /// Handles input for `duration`; if that is zero, only what has already arrived.
    pub(super) fn pause(&mut self, duration: Duration) -> Result<(), Stop> {
        let until = Instant::now() + duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.next(Some(left))? {
                Next::Line(heard) => self.hear_in_turn(heard)?,
                Next::Quiet => return Ok(()),
                Next::Closed => {
                    thread::sleep(left);
                    return Ok(());
                }
            }
        }
    }

    /// Handles input until the turn is interrupted.
    pub(super) fn hang(&mut self) -> Result<(), Stop> {
        loop {
            match self.inbox.next(None)? {
                Next::Line(heard) => self.hear_in_turn(heard)?,
                Next::Quiet => {}
                Next::Closed => {
                    thread::sleep(ABANDONED_HANG);
                    return Err(Stop::Halt(Halt::Exit(1)));
                }
            }
        }
    }

    /// Sends a control request and handles input until it is answered.
    pub(super) fn ask(&mut self, request: &Value) -> Result<Answer, Stop> {
        let id = super::speech::new_id();
        self.voice
            .bare(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        self.question = Some(id);
        loop {
            match self.inbox.next(None)? {
                Next::Line(heard) => self.hear_in_turn(heard)?,
                Next::Quiet => {}
                Next::Closed => {
                    self.question = None;
                    return Ok(Answer::Never);
                }
            }
            if let Some(answer) = self.answer.take() {
                return Ok(Answer::Given(answer));
            }
        }
    }

    fn hear_in_turn(&mut self, heard: Heard) -> Result<(), Stop> {
        self.hear(heard)?;
        if std::mem::take(&mut self.interrupted) {
            return Err(Stop::Interrupted);
        }
        Ok(())
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Halt> {
        match heard {
            Heard::User(prompt) => self.queue(prompt)?,
            Heard::Request { id, request } => self.serve(&id, &request)?,
            Heard::Answer { id, response } => {
                if self.question.as_ref() == Some(&id) {
                    self.question = None;
                    self.answer = Some(response);
                }
            }
            Heard::Other => {}
        }
        Ok(())
    }

    /// Queues a message. A message that was sent before is dropped, so that each one runs only
    /// once.
    fn queue(&mut self, prompt: Prompt) -> io::Result<()> {
        if let Some(uuid) = &prompt.uuid {
            if self.remembered.contains(uuid) {
                return Ok(());
            }
            if self.remembered.len() == REMEMBERED {
                self.remembered.pop_front();
            }
            self.remembered.push_back(uuid.clone());
        }
        self.voice.lifecycle(prompt.uuid.as_deref(), "queued")?;
        self.queue.push_back(prompt);
        Ok(())
    }

    fn serve(&mut self, id: &Value, request: &Value) -> Result<(), Halt> {
        let subtype = request["subtype"].as_str().unwrap_or_default();
        match subtype {
            "initialize" => self.voice.agreed(id, Some(introduction()))?,
            "mcp_status" => self.voice.agreed(id, Some(json!({"mcpServers": []})))?,
            "get_settings" => {
                let settings = json!({"effective": {}, "applied": {"model": self.model}});
                self.voice.agreed(id, Some(settings))?;
            }
            "interrupt" => self.interrupt(id, request["cancel_queued"] == true)?,
            "set_model" => {
                let wanted = request["model"].as_str().filter(|name| *name != "default");
                wanted.unwrap_or(Options::MODEL).clone_into(&mut self.model);
                let model = json!({"model": self.model});
                self.voice.agreed(id, Some(model))?;
            }
            "set_permission_mode" => {
                let mode = json!({"mode": request["mode"]});
                self.voice.agreed(id, Some(mode))?;
            }
            "cancel_async_message" => {
                let wanted = request["message_uuid"].as_str();
                let cancelled = self.cancel(|uuid| wanted == Some(uuid))?;
                let cancelled = json!({"cancelled": !cancelled.is_empty()});
                self.voice.agreed(id, Some(cancelled))?;
            }
            "end_session" => {
                self.voice.agreed(id, None)?;
                return Err(Halt::Exit(0));
            }
            other => {
                self.voice.refused(id, &format!("Unsupported control request subtype: {other}"))?;
            }
        }
        Ok(())
    }

    fn interrupt(&mut self, id: &Value, cancel_queued: bool) -> io::Result<()> {
        if let Some(question) = self.question.take() {
            self.voice.bare(&json!({"type": "control_cancel_request", "request_id": question}))?;
        }
        let mut response = json!({});
        if cancel_queued {
            response["cancelled"] = self.cancel(|_| true)?.into();
        }
        let waiting: Vec<&str> = self.queue.iter().filter_map(|p| p.uuid.as_deref()).collect();
        response["still_queued"] = waiting.into();
        self.voice.agreed(id, Some(response))?;
        self.interrupted = self.busy;
        Ok(())
    }

    /// Removes the chosen messages from the queue and returns their ids.
    fn cancel(&mut self, chosen: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let (dropped, kept) = self
            .queue
            .drain(..)
            .partition::<VecDeque<_>, _>(|prompt| prompt.uuid.as_deref().is_some_and(&chosen));
        self.queue = kept;
        let dropped: Vec<String> = dropped.into_iter().filter_map(|p| p.uuid).collect();
        for uuid in &dropped {
            self.voice.lifecycle(Some(uuid), "cancelled")?;
        }
        Ok(dropped)
    }
}

/// Returns the response to `initialize`.
fn introduction() -> Value {
    json!({
        "commands": [], "agents": [], "output_style": "default",
        "models": [{"value": Options::MODEL, "resolvedModel": Options::MODEL,
            "displayName": "Parrot", "description": "Angelia's built-in demo; repeats"}],
        "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "parrot"},
        "pid": std::process::id(),
        "version": VERSION,
    })
}
