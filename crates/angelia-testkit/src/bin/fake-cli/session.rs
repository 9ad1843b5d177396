//! The process's one conversation: its input, its queue of user messages and its counters.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
    process::ExitCode,
};

use serde_json::{Value, json};

use crate::{
    input::{ReadOutcome, StdinLines},
    line_writer::LineWriter,
    options::CliOptions,
};

#[derive(Debug)]
pub(crate) struct FakeSession {
    pub(crate) options: CliOptions,
    pub(crate) input: StdinLines,
    pub(crate) lines: LineWriter,
    pub(crate) queue: VecDeque<UserMessage>,
    /// Model calls so far; ids and cumulative counts derive from this number.
    pub(crate) model_calls: u64,
    pub(crate) results: u64,
    pub(crate) last_failed: bool,
    pub(crate) ending: bool,
    output: File,
    log: Option<File>,
}

#[derive(Debug)]
pub(crate) struct UserMessage {
    pub(crate) content: Value,
    pub(crate) id: Option<String>,
}

/// The effect of an input line on the running turn.
#[derive(Debug)]
pub(crate) enum InputEffect {
    Nothing,
    Interrupt,
    ControlResponse { request: String, response: Value },
}

impl FakeSession {
    pub(crate) fn open(options: CliOptions) -> io::Result<Self> {
        let mut log = match &options.log {
            Some(path) => Some(File::options().create(true).append(true).open(path)?),
            None => None,
        };
        if let Some(log) = &mut log {
            writeln!(log, "{}", json!({"arguments": options.arguments}))?;
        }
        Ok(Self {
            lines: LineWriter::new(&options.session, options.is_new()),
            options,
            input: StdinLines::default(),
            queue: VecDeque::new(),
            model_calls: 0,
            results: 0,
            last_failed: false,
            ending: false,
            output: io::stdout().as_fd().try_clone_to_owned()?.into(),
            log,
        })
    }

    pub(crate) fn run(&mut self) -> io::Result<ExitCode> {
        loop {
            if let Some(message) = self.queue.pop_front() {
                self.turn(&message)?;
                continue;
            }
            match self.input.next_line(None)? {
                ReadOutcome::Line(line) => {
                    self.handle_line(&line)?;
                    self.flush()?;
                }
                ReadOutcome::End | ReadOutcome::TimedOut => {
                    return Ok(ExitCode::from(u8::from(self.last_failed)));
                }
            }
            if self.ending {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    /// Handles one line of input: queues a user message or answers a control request, and returns
    /// the line's effect on the running turn.
    pub(crate) fn handle_line(&mut self, line: &[u8]) -> io::Result<InputEffect> {
        if line.is_empty() {
            return Ok(InputEffect::Nothing);
        }
        if let Some(log) = &mut self.log {
            log.write_all(&[line, b"\n"].concat())?;
        }
        let Ok(mut line) = serde_json::from_slice::<Value>(line) else {
            let length = line.len();
            self.exit_with_error(&format!(
                "Error parsing streaming input line (type=unknown, {length} chars): SyntaxError"
            ))
        };
        match line["type"].as_str() {
            Some("user") if line["message"]["role"] == "user" => {
                let id = line["uuid"].as_str().map(str::to_owned);
                self.lines.lifecycle(id.as_deref(), "queued");
                self.queue
                    .push_back(UserMessage { content: line["message"]["content"].take(), id });
            }
            Some("user") => self.exit_with_error("Error: Expected message role 'user'"),
            Some("control_request") => {
                let id = line["request_id"].as_str().unwrap_or_default().to_owned();
                return Ok(self.handle_control(&id, &line["request"]));
            }
            Some("control_response") => {
                let mut response = line["response"].take();
                let request = response["request_id"].as_str().unwrap_or_default().to_owned();
                return Ok(InputEffect::ControlResponse {
                    request,
                    response: response["response"].take(),
                });
            }
            _ => {}
        }
        Ok(InputEffect::Nothing)
    }

    /// Writes all collected lines at once.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.lines.buffer)?;
        self.lines.buffer.clear();
        Ok(())
    }

    fn exit_with_error(&mut self, reason: &str) -> ! {
        // Errors are ignored: the exit code reports the failure even if stderr is closed.
        let _ = self.flush();
        let _ = writeln!(io::stderr(), "{reason}");
        std::process::exit(1)
    }
}
