//! The process: one conversation with many turns, until stdin ends.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    lines::{LineWriter, merge_fields},
    result::TurnEnding,
    stdin::{StdinError, StdinEvent, StdinMessage, StdinReader, UserMessage},
    tokens::{TokenCounting, TokenCounts},
    turn::ScriptedTurn,
};

/// The number of message ids to remember, for dropping a message that is sent twice.
const MAX_REMEMBERED_IDS: usize = 64;
/// Ends a turn that still hangs after stdin has ended, because nothing can interrupt it any more.
const MAX_HANG_AFTER_EOF: Duration = Duration::from_mins(10);

/// The program's identity and its command-line options.
#[derive(Debug)]
pub struct ClaudeSetup {
    pub session: String,
    pub model: String,
    pub default_model: &'static str,
    pub version: String,
    pub permission_mode: String,
    /// Whether messages are also streamed in pieces, in addition to their complete blocks.
    pub partial_messages: bool,
    /// Whether lines refer to user messages by their ids. This also turns on the lines and fields
    /// that were introduced together with those ids.
    pub message_ids: bool,
    pub counting: TokenCounting,
    pub context_window: Option<u64>,
    /// Further fields of the response to `initialize`.
    pub initialize_fields: Value,
    /// Further fields of the `init` line of every turn.
    pub init_fields: Value,
    /// Receives a copy of every line of stdin.
    pub input_log: Option<File>,
}

/// Why the process ends before its input does.
#[derive(Debug)]
pub enum EarlyExit {
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
    fn from(error: StdinError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Why a turn ends before its script does.
#[derive(Debug)]
pub enum TurnAbort {
    Interrupted,
    Exit(EarlyExit),
}

impl<E: Into<EarlyExit>> From<E> for TurnAbort {
    fn from(error: E) -> Self {
        Self::Exit(error.into())
    }
}

#[derive(Debug)]
pub struct ScriptedClaude {
    pub(super) setup: ClaudeSetup,
    pub(super) lines: LineWriter,
    /// The number of turns so far, including the running one.
    pub(super) turns: u32,
    /// The token counts of all turns.
    pub(super) total: TokenCounts,
    pub(super) last_failed: bool,
    pub(super) queue: VecDeque<UserMessage>,
    /// The id of our control request that awaits an answer.
    pub(super) pending_request: Option<String>,
    pub(super) pending_response: Option<Value>,
    pub(super) interrupted: bool,
    /// The hook that is told about every tool call, if the other side has registered one.
    pub(super) report_hook: Option<String>,
    stdin: StdinReader,
    seen_uuids: VecDeque<String>,
}

impl ScriptedClaude {
    pub fn new(mut setup: ClaudeSetup, input: OwnedFd, output: OwnedFd) -> Self {
        let cwd = std::env::current_dir().unwrap_or_default();
        let init = json!({"type": "system", "subtype": "init", "cwd": cwd.to_string_lossy(),
            "mcp_servers": []});
        merge_fields(&mut setup.init_fields, init);
        Self {
            lines: LineWriter::new(output.into(), std::mem::take(&mut setup.session)),
            stdin: StdinReader::new(input, setup.input_log.take()),
            setup,
            turns: 0,
            total: TokenCounts::default(),
            last_failed: false,
            queue: VecDeque::new(),
            pending_request: None,
            pending_response: None,
            interrupted: false,
            report_hook: None,
            seen_uuids: VecDeque::new(),
        }
    }

    /// Serves turns until stdin ends. Returns the exit code, or the reason why the process failed.
    pub fn serve(
        mut self,
        script: impl FnMut(&mut ScriptedTurn<'_>) -> Result<TurnEnding, TurnAbort>,
    ) -> Result<u8, String> {
        let served = self.serve_turns(script);
        // Write the lines that were added before the end, whatever ended the process.
        let flushed = self.lines.flush().map_err(EarlyExit::from);
        match served.and_then(|code| flushed.map(|()| code)) {
            Ok(code) | Err(EarlyExit::Code(code)) => Ok(code),
            Err(EarlyExit::Failed(why)) => Err(why),
        }
    }

    fn serve_turns(
        &mut self,
        mut script: impl FnMut(&mut ScriptedTurn<'_>) -> Result<TurnEnding, TurnAbort>,
    ) -> Result<u8, EarlyExit> {
        loop {
            if self.queue.is_empty() {
                match self.next_event(None)? {
                    StdinEvent::Message(message) => self.handle_message(message)?,
                    StdinEvent::Timeout => {}
                    StdinEvent::Closed => return Ok(self.last_failed.into()),
                }
                // An interrupt only stops a running turn, not the next one.
                self.interrupted = false;
            } else {
                // As in Claude Code, messages queued during a turn form the next turn together.
                let messages = self.queue.drain(..).collect();
                let mut turn = ScriptedTurn::begin(self, messages)?;
                let ending = script(&mut turn);
                turn.finish(ending)?;
            }
        }
    }

    /// Writes all pending lines, then waits for the next line of stdin.
    fn next_event(&mut self, limit: Option<Duration>) -> Result<StdinEvent, EarlyExit> {
        if limit.is_none_or(|limit| !limit.is_zero()) {
            self.lines.flush()?;
        }
        Ok(self.stdin.next_event(limit)?)
    }

    /// Handles input for `duration`. If that is zero, handles only input that has already arrived.
    pub(super) fn handle_input_for(&mut self, duration: Duration) -> Result<(), TurnAbort> {
        let until = Instant::now() + duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.next_event(Some(left))? {
                StdinEvent::Message(message) => self.handle_in_turn(message)?,
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
        while self.handle_next()? {}
        thread::sleep(MAX_HANG_AFTER_EOF);
        Err(TurnAbort::Exit(EarlyExit::Code(1)))
    }

    /// Waits for the next line of stdin and handles it. Returns `false` if stdin has ended.
    pub(super) fn handle_next(&mut self) -> Result<bool, TurnAbort> {
        match self.next_event(None)? {
            StdinEvent::Message(message) => self.handle_in_turn(message)?,
            StdinEvent::Timeout => {}
            StdinEvent::Closed => return Ok(false),
        }
        Ok(true)
    }

    fn handle_in_turn(&mut self, message: StdinMessage) -> Result<(), TurnAbort> {
        self.handle_message(message)?;
        if std::mem::take(&mut self.interrupted) {
            return Err(TurnAbort::Interrupted);
        }
        Ok(())
    }

    fn handle_message(&mut self, message: StdinMessage) -> Result<(), EarlyExit> {
        match message {
            StdinMessage::User(message) => self.enqueue(message)?,
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

    /// Queues a message. Drops a message that was already sent, so that each one runs only once.
    fn enqueue(&mut self, message: UserMessage) -> io::Result<()> {
        if let Some(uuid) = &message.uuid {
            if self.seen_uuids.contains(uuid) {
                return Ok(());
            }
            if self.seen_uuids.len() == MAX_REMEMBERED_IDS {
                self.seen_uuids.pop_front();
            }
            self.seen_uuids.push_back(uuid.clone());
        }
        self.write_lifecycle(message.uuid.as_deref(), "queued")?;
        self.queue.push_back(message);
        Ok(())
    }

    /// Reports the state of one of the user's messages.
    pub(super) fn write_lifecycle(&mut self, uuid: Option<&str>, state: &str) -> io::Result<()> {
        match uuid {
            Some(uuid) if self.setup.message_ids => {
                self.lines.add(json!({"type": "command_lifecycle",
                "command_uuid": uuid, "state": state}))
            }
            _ => Ok(()),
        }
    }
}
