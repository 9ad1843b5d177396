//! A host application: starts a bridge, writes requests to it and reads its events.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::machine::{DEADLINE, Machine};

/// Both flags that native deltas need.
pub(crate) const NATIVE: [&str; 2] = ["--native-stream", "--native-assistant-delta"];

pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    /// The bridge's stdout, until a thread starts to read it.
    stdout: Option<ChildStdout>,
    events: Option<Receiver<Value>>,
    stderr: Option<JoinHandle<String>>,
}

/// A bridge that has ended.
#[derive(Debug)]
pub(crate) struct BridgeExit {
    pub(crate) code: Option<i32>,
    /// The events that the test had not read yet.
    pub(crate) events: Vec<Value>,
    pub(crate) stderr: String,
}

impl Host {
    pub(crate) fn start(machine: &Machine, flags: &[&str]) -> Self {
        let mut host = Self::start_unread(machine, flags);
        host.read();
        host
    }

    /// Starts a bridge whose output is not read until [`Self::read`] is called.
    pub(crate) fn start_unread(machine: &Machine, flags: &[&str]) -> Self {
        let mut command = machine.command(&[&["bridge"], flags].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            events: None,
            stderr: Some(stderr),
            child,
        }
    }

    /// Starts to read line by line; each line must be an object with a type.
    pub(crate) fn read(&mut self) {
        let stdout = self.stdout.take().unwrap();
        let (sender, events) = sync_channel(1 << 20);
        thread::spawn(move || {
            for line in BufReader::with_capacity(1 << 20, stdout).split(b'\n') {
                let line = line.unwrap();
                let event: Value = match serde_json::from_slice(&line) {
                    Ok(event) => event,
                    Err(error) => {
                        json!({"type": "NOT AN EVENT", "error": error.to_string(),
                            "line": String::from_utf8_lossy(&line)})
                    }
                };
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        self.events = Some(events);
    }

    /// Closes the read end of the bridge's stdout.
    pub(crate) fn stop_reading(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn send(&mut self, request: &Value) {
        self.write(format!("{request}\n").as_bytes());
    }

    #[track_caller]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Like [`Host::write`], on a separate thread.
    pub(crate) fn write_in_thread(&mut self, bytes: Vec<u8>) -> JoinHandle<ChildStdin> {
        let mut stdin = self.stdin.take().unwrap();
        thread::spawn(move || {
            stdin.write_all(&bytes).unwrap();
            stdin
        })
    }

    pub(crate) fn restore_stdin(&mut self, stdin: ChildStdin) {
        self.stdin = Some(stdin);
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        self.next_within(DEADLINE)
    }

    #[track_caller]
    pub(crate) fn next_within(&mut self, patience: Duration) -> Value {
        match self.events.as_ref().unwrap().recv_timeout(patience) {
            Ok(event) => {
                assert_ne!(event["type"], "NOT AN EVENT", "{event}");
                event
            }
            Err(RecvTimeoutError::Timeout) => panic!("nothing more is told"),
            Err(RecvTimeoutError::Disconnected) => {
                let code = self.child.wait();
                let stderr = self.stderr.take().map(|stderr| stderr.join().unwrap());
                panic!("the bridge has ended: {code:?} {stderr:?}")
            }
        }
    }

    /// Returns the events up to and including the first one that is `wanted`.
    #[track_caller]
    pub(crate) fn read_until(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next();
            let found = wanted(&event);
            events.push(event);
            if found {
                return events;
            }
        }
    }

    #[track_caller]
    pub(crate) fn read_until_type(&mut self, kind: &str) -> Vec<Value> {
        self.read_until(|event| event["type"] == kind)
    }

    /// Runs a turn to its end; no other run may be active.
    #[track_caller]
    pub(crate) fn run(&mut self, request_id: &str, session: &str, message: &str) -> Vec<Value> {
        self.run_with(request_id, session, message, json!({}))
    }

    #[track_caller]
    pub(crate) fn run_with(
        &mut self,
        request_id: &str,
        session: &str,
        message: &str,
        more: Value,
    ) -> Vec<Value> {
        self.send(&run_request_with(request_id, session, message, more));
        self.read_until(|event| event["type"] == "final" || event["type"] == "error")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the bridge to exit by itself.
    #[track_caller]
    pub(crate) fn wait_for_exit(mut self) -> BridgeExit {
        let over = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < over, "the bridge does not end");
            thread::sleep(Duration::from_millis(2));
        };
        let events = self.events.take();
        BridgeExit {
            code: status.code(),
            events: events.map(|left| left.iter().collect()).unwrap_or_default(),
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }

    /// Closes stdin and waits for the bridge to exit.
    #[track_caller]
    pub(crate) fn shut_down(mut self) -> BridgeExit {
        self.send(&json!({"type": "shutdown"}));
        let ended = self.wait_for_exit();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
        ended
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The process may have exited already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

pub(crate) fn run_request(request_id: &str, session: &str, message: &str) -> Value {
    json!({"type": "run", "request_id": request_id, "session_id": session, "message": message})
}

pub(crate) fn run_request_with(
    request_id: &str,
    session: &str,
    message: &str,
    more: Value,
) -> Value {
    let mut request = run_request(request_id, session, message);
    let Value::Object(more) = more else { panic!("more fields are an object") };
    request.as_object_mut().unwrap().extend(more);
    request
}

pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

pub(crate) fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Returns the last event, which must be the end of a run with this status.
#[track_caller]
pub(crate) fn assert_final<'a>(events: &'a [Value], status: &str) -> &'a Value {
    let end = events.last().unwrap();
    assert_eq!(end["type"], "final", "{events:#?}");
    assert_eq!(end["status"], status, "{events:#?}");
    for flag in ["completed", "interrupted", "partial", "failed"] {
        assert_eq!(end[flag], flag == status, "{flag}: {end:#}");
    }
    end
}

/// Returns the last event, which must be an error with this code.
#[track_caller]
pub(crate) fn assert_error<'a>(events: &'a [Value], code: &str) -> &'a Value {
    let error = events.last().unwrap();
    assert_eq!(error["type"], "error", "{events:#?}");
    assert_eq!(error["code"], code, "{events:#?}");
    error
}

pub(crate) fn response(events: &[Value]) -> &str {
    events.last().unwrap()["response"].as_str().unwrap()
}

/// Returns the texts of all events of a type, joined.
pub(crate) fn joined_text(events: &[Value], kind: &str) -> String {
    let texts = of_type(events, kind).into_iter();
    texts.map(|event| event["text"].as_str().unwrap()).collect()
}
