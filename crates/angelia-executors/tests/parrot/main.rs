//! The parrot's process, driven over pipes as its executor drives it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod acting;
mod listening;
mod talking;

use std::{
    io::{BufRead as _, BufReader, PipeWriter, Write as _, pipe},
    sync::mpsc::{Receiver, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use angelia_executors::parrot::process::run;
use serde_json::{Value, json};

/// No step here takes long; a step that exceeds this has failed.
const DEADLINE: Duration = Duration::from_secs(20);

/// A parrot on its own thread, connected by real pipes.
struct ParrotThread {
    input: Option<PipeWriter>,
    lines: Receiver<String>,
    process: JoinHandle<(u8, String)>,
}

/// The exit of a parrot.
struct ParrotExit {
    code: u8,
    stderr: String,
    /// The lines that the test had not read yet.
    rest: Vec<Value>,
}

impl ParrotThread {
    fn start(arguments: &[&str]) -> Self {
        let (to_read, input) = pipe().unwrap();
        let (output, to_write) = pipe().unwrap();
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let process = thread::spawn(move || {
            let mut stderr = Vec::new();
            let code = run(arguments, to_read.into(), to_write.into(), &mut stderr);
            (code, String::from_utf8(stderr).unwrap())
        });
        let (sender, lines) = sync_channel(10_000);
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                sender.send(line.unwrap()).unwrap();
            }
        });
        Self { input: Some(input), lines, process }
    }

    fn send_raw(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn send(&mut self, line: &Value) {
        self.send_raw(&line.to_string());
    }

    fn prompt(&mut self, text: &str) {
        self.send(&user(text));
    }

    fn control(&mut self, request: &Value) {
        self.send(&json!({"type": "control_request", "request_id": "c", "request": request}));
    }

    fn answer(&mut self, question: &Value, response: &Value) {
        self.send(&json!({"type": "control_response", "response": {"subtype": "success",
            "request_id": question["request_id"], "response": response}}));
    }

    /// Returns every line up to and including the first one that `fits`.
    fn until(&self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(DEADLINE) else {
                panic!("nothing fitting came; seen: {seen:#?}");
            };
            seen.push(parse(&line));
            if fits(&seen[seen.len() - 1]) {
                return seen;
            }
        }
    }

    fn response(&self) -> Value {
        let mut lines = self.until(|line| line["type"] == "control_response");
        lines.pop().unwrap()["response"].take()
    }

    /// Returns the lines of a turn whose message has no uuid, up to its result.
    fn turn(&self) -> Vec<Value> {
        self.until(|line| line["type"] == "result")
    }

    fn question(&self) -> Value {
        let mut lines = self.until(|line| line["type"] == "control_request");
        lines.pop().unwrap()
    }

    /// Closes stdin and waits for the parrot to exit.
    fn close(mut self) -> ParrotExit {
        self.input = None;
        self.wait()
    }

    fn wait(self) -> ParrotExit {
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            rest.push(parse(&line));
        }
        let (code, stderr) = self.process.join().unwrap();
        ParrotExit { code, stderr, rest }
    }
}

/// Parses a line and asserts the promise for every line: a JSON object with a type.
fn parse(line: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    assert!(value["type"].is_string(), "{line}");
    value
}

fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

fn user_with_uuid(text: &str, uuid: &str) -> Value {
    let mut line = user(text);
    line["uuid"] = uuid.into();
    line
}

/// Returns a short name for each line's kind.
fn kinds(lines: &[Value]) -> Vec<String> {
    lines
        .iter()
        .map(|line| {
            let kind = line["type"].as_str().unwrap();
            let more = [&line["event"]["type"], &line["subtype"], &line["state"]];
            match more.into_iter().find_map(Value::as_str) {
                Some(more) => format!("{kind} {more}"),
                None => kind.to_owned(),
            }
        })
        .collect()
}

fn deltas(lines: &[Value]) -> String {
    lines.iter().filter_map(|line| line["event"]["delta"]["text"].as_str()).collect()
}

fn last(lines: &[Value]) -> &Value {
    lines.last().unwrap()
}
