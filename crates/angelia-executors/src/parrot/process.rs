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
    options::ParrotOptions,
    output::{ProtocolWriter, VERSION, WordCount},
    stdin::{StdinError, StdinEvent, StdinMessage, StdinReader, UserPrompt},
    turn,
};

/// Limits the message ids that are remembered, to drop a message that is sent twice.
const MAX_REMEMBERED_IDS: usize = 64;
/// Ends `!hang` after stdin has ended, when nothing can interrupt it any more.
const MAX_HANG_AFTER_EOF: Duration = Duration::from_mins(10);

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
    let ended = ParrotOptions::read(arguments)
        .map_err(|error| EarlyExit::Failed(error.to_string()))
        .and_then(|options| ParrotProcess::new(options, input, output)?.serve_turns());
    match ended {
        Ok(code) | Err(EarlyExit::Code(code)) => code,
        Err(EarlyExit::Failed(why)) => {
            let _nobody_reads = writeln!(errors, "parrot: {why}");
            1
        }
    }
}

/// Why the process ends before its input does.
#[derive(Debug)]
pub(super) enum EarlyExit {
    Code(u8),
    Failed(String),
}

impl From<io::Error> for EarlyExit {
    /// Every I/O error here is a failed write to stdout.
    fn from(error: io::Error) -> Self {
        Self::Failed(format!("stdout could not be written: {error}"))
    }
}

impl From<StdinError> for EarlyExit {
    fn from(broken: StdinError) -> Self {
        Self::Failed(broken.to_string())
    }
}

/// Why a turn ends before its script does.
#[derive(Debug)]
pub(super) enum TurnAbort {
    Interrupted,
    Exit(EarlyExit),
}

impl<E: Into<EarlyExit>> From<E> for TurnAbort {
    fn from(error: E) -> Self {
        Self::Exit(error.into())
    }
}

/// The result of a control request to the other side.
#[derive(Debug)]
pub(super) enum ControlReply {
    Received(Value),
    /// Stdin ended before an answer came.
    InputClosed,
}

#[derive(Debug)]
pub(super) struct ParrotProcess<W> {
    stdin: StdinReader,
    pub(super) output: ProtocolWriter<W>,
    pub(super) model: String,
    pub(super) turns: u32,
    /// Of all turns.
    pub(super) total: WordCount,
    /// Commands that were allowed for the whole session.
    pub(super) allowed_commands: Vec<String>,
    pub(super) last_failed: bool,
    queue: VecDeque<UserPrompt>,
    seen_uuids: VecDeque<String>,
    /// The id of our unanswered control request.
    pending_request: Option<String>,
    pending_response: Option<Value>,
    busy: bool,
    interrupted: bool,
}

impl<W: Write> ParrotProcess<W> {
    fn new(
        options: ParrotOptions,
        input: impl BufRead + Send + 'static,
        output: W,
    ) -> Result<Self, EarlyExit> {
        let inbox = StdinReader::open(input)
            .map_err(|error| EarlyExit::Failed(format!("no thread for stdin: {error}")))?;
        Ok(Self {
            stdin: inbox,
            output: ProtocolWriter::new(output, options.session),
            model: options.model,
            turns: 0,
            total: WordCount::default(),
            allowed_commands: Vec::new(),
            last_failed: false,
            queue: VecDeque::new(),
            seen_uuids: VecDeque::new(),
            pending_request: None,
            pending_response: None,
            busy: false,
            interrupted: false,
        })
    }

    fn serve_turns(&mut self) -> Result<u8, EarlyExit> {
        loop {
            if self.queue.is_empty() {
                match self.stdin.next_event(None)? {
                    StdinEvent::Message(heard) => self.handle_message(heard)?,
                    StdinEvent::Timeout => {}
                    StdinEvent::Closed => return Ok(self.last_failed.into()),
                }
            } else {
                // As in Claude Code, messages that queued up during a turn form the next turn
                // together.
                let prompts: Vec<UserPrompt> = self.queue.drain(..).collect();
                self.busy = true;
                self.interrupted = false;
                turn::run_turn(self, &prompts)?;
                self.busy = false;
            }
        }
    }

    /// Handles input for `duration`; if that is zero, only what has already arrived.
    pub(super) fn handle_input_for(&mut self, duration: Duration) -> Result<(), TurnAbort> {
        let until = Instant::now() + duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.stdin.next_event(Some(left))? {
                StdinEvent::Message(heard) => self.handle_in_turn(heard)?,
                StdinEvent::Timeout => return Ok(()),
                StdinEvent::Closed => {
                    thread::sleep(left);
                    return Ok(());
                }
            }
        }
    }

    /// Handles input until the turn is interrupted.
    pub(super) fn hang(&mut self) -> Result<(), TurnAbort> {
        loop {
            match self.stdin.next_event(None)? {
                StdinEvent::Message(heard) => self.handle_in_turn(heard)?,
                StdinEvent::Timeout => {}
                StdinEvent::Closed => {
                    thread::sleep(MAX_HANG_AFTER_EOF);
                    return Err(TurnAbort::Exit(EarlyExit::Code(1)));
                }
            }
        }
    }

    /// Sends a control request and handles input until it is answered.
    pub(super) fn send_request(&mut self, request: &Value) -> Result<ControlReply, TurnAbort> {
        let id = super::output::new_id();
        self.output
            .write_raw(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        self.pending_request = Some(id);
        loop {
            match self.stdin.next_event(None)? {
                StdinEvent::Message(heard) => self.handle_in_turn(heard)?,
                StdinEvent::Timeout => {}
                StdinEvent::Closed => {
                    self.pending_request = None;
                    return Ok(ControlReply::InputClosed);
                }
            }
            if let Some(answer) = self.pending_response.take() {
                return Ok(ControlReply::Received(answer));
            }
        }
    }

    fn handle_in_turn(&mut self, heard: StdinMessage) -> Result<(), TurnAbort> {
        self.handle_message(heard)?;
        if std::mem::take(&mut self.interrupted) {
            return Err(TurnAbort::Interrupted);
        }
        Ok(())
    }

    fn handle_message(&mut self, heard: StdinMessage) -> Result<(), EarlyExit> {
        match heard {
            StdinMessage::User(prompt) => self.enqueue(prompt)?,
            StdinMessage::Request { id, request } => self.answer_request(&id, &request)?,
            StdinMessage::Response { id, response } => {
                if self.pending_request.as_ref() == Some(&id) {
                    self.pending_request = None;
                    self.pending_response = Some(response);
                }
            }
            StdinMessage::Other => {}
        }
        Ok(())
    }

    /// Queues a message. A message that was sent before is dropped, so that each one runs only
    /// once.
    fn enqueue(&mut self, prompt: UserPrompt) -> io::Result<()> {
        if let Some(uuid) = &prompt.uuid {
            if self.seen_uuids.contains(uuid) {
                return Ok(());
            }
            if self.seen_uuids.len() == MAX_REMEMBERED_IDS {
                self.seen_uuids.pop_front();
            }
            self.seen_uuids.push_back(uuid.clone());
        }
        self.output.write_lifecycle(prompt.uuid.as_deref(), "queued")?;
        self.queue.push_back(prompt);
        Ok(())
    }

    fn answer_request(&mut self, id: &Value, request: &Value) -> Result<(), EarlyExit> {
        let subtype = request["subtype"].as_str().unwrap_or_default();
        match subtype {
            "initialize" => self.output.respond_success(id, Some(initialize_response()))?,
            "mcp_status" => self.output.respond_success(id, Some(json!({"mcpServers": []})))?,
            "get_settings" => {
                let settings = json!({"effective": {}, "applied": {"model": self.model}});
                self.output.respond_success(id, Some(settings))?;
            }
            "interrupt" => self.interrupt(id, request["cancel_queued"] == true)?,
            "set_model" => {
                let wanted = request["model"].as_str().filter(|name| *name != "default");
                wanted.unwrap_or(ParrotOptions::DEFAULT_MODEL).clone_into(&mut self.model);
                let model = json!({"model": self.model});
                self.output.respond_success(id, Some(model))?;
            }
            "set_permission_mode" => {
                let mode = json!({"mode": request["mode"]});
                self.output.respond_success(id, Some(mode))?;
            }
            "cancel_async_message" => {
                let wanted = request["message_uuid"].as_str();
                let cancelled = self.cancel(|uuid| wanted == Some(uuid))?;
                let cancelled = json!({"cancelled": !cancelled.is_empty()});
                self.output.respond_success(id, Some(cancelled))?;
            }
            "end_session" => {
                self.output.respond_success(id, None)?;
                return Err(EarlyExit::Code(0));
            }
            other => {
                self.output
                    .respond_error(id, &format!("Unsupported control request subtype: {other}"))?;
            }
        }
        Ok(())
    }

    fn interrupt(&mut self, id: &Value, cancel_queued: bool) -> io::Result<()> {
        if let Some(question) = self.pending_request.take() {
            self.output
                .write_raw(&json!({"type": "control_cancel_request", "request_id": question}))?;
        }
        let mut response = json!({});
        if cancel_queued {
            response["cancelled"] = self.cancel(|_| true)?.into();
        }
        let waiting: Vec<&str> = self.queue.iter().filter_map(|p| p.uuid.as_deref()).collect();
        response["still_queued"] = waiting.into();
        self.output.respond_success(id, Some(response))?;
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
            self.output.write_lifecycle(Some(uuid), "cancelled")?;
        }
        Ok(dropped)
    }
}

/// Returns the response to `initialize`.
fn initialize_response() -> Value {
    json!({
        "commands": [], "agents": [], "output_style": "default",
        "models": [{"value": ParrotOptions::DEFAULT_MODEL, "resolvedModel": ParrotOptions::DEFAULT_MODEL,
            "displayName": "Parrot", "description": "Angelia's built-in demo; repeats"}],
        "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "parrot"},
        "pid": std::process::id(),
        "version": VERSION,
    })
}
