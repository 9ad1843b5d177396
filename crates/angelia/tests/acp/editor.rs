//! A scripted editor: starts the agent, writes lines, and reads lines, each of which must be valid.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::{Arc, Condvar, Mutex, mpsc},
    thread,
};

use serde_json::{Value, json};

use crate::{
    machine::{ANGELIA, DEADLINE, Machine},
    schema,
};

pub(crate) struct Editor {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
    gate: Gate,
    /// The methods of our requests, by request id.
    sent_requests: HashMap<i64, &'static str>,
    /// Answers that the test has not read yet.
    answers: HashMap<i64, Value>,
    /// Every message of the agent except the answers to our requests.
    pub(crate) received: Vec<Value>,
    /// The kind of option that is chosen for a permission request.
    pub(crate) permission_choice: &'static str,
}

/// Whether the editor reads the agent's output.
type Gate = Arc<(Mutex<bool>, Condvar)>;

/// While this guard exists, the editor reads nothing.
pub(crate) struct PauseGuard(Gate);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }
}

/// An answer to a request.
pub(crate) type RpcResult = Result<Value, Value>;

impl Editor {
    /// Starts the agent and initializes it.
    pub(crate) fn open(machine: &Machine) -> Self {
        Self::open_with(machine, &[], &json!({}))
    }

    pub(crate) fn open_with(machine: &Machine, arguments: &[&str], can: &Value) -> Self {
        let mut editor = Self::start(machine, arguments);
        let hello = json!({"protocolVersion": 1, "clientCapabilities": can});
        editor.call("initialize", hello).unwrap();
        editor
    }

    pub(crate) fn start(machine: &Machine, arguments: &[&str]) -> Self {
        let (mut child, stdout) = spawn(machine, arguments);
        #[expect(
            clippy::disallowed_methods,
            reason = "a test that is behind must not hold the agent up"
        )]
        let (sender, lines) = mpsc::channel();
        let gate = Gate::default();
        let shut = Arc::clone(&gate);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let closed = shut.0.lock().unwrap();
                drop(shut.1.wait_while(closed, |closed| *closed).unwrap());
                let Ok(line) = line else { return };
                let line = match serde_json::from_str(&line) {
                    Ok(line) => line,
                    Err(error) => json!({"no": error.to_string(), "line": line}),
                };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            gate,
            sent_requests: HashMap::new(),
            answers: HashMap::new(),
            received: Vec::new(),
            permission_choice: "none",
        }
    }

    /// Stops reading, except for lines that have been read already.
    pub(crate) fn pause(&self) -> PauseGuard {
        *self.gate.0.lock().unwrap() = true;
        PauseGuard(Arc::clone(&self.gate))
    }

    /// Writes bytes unchanged.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    fn line(&mut self, line: &Value) {
        self.write_bytes(format!("{line}\n").as_bytes());
    }

    /// Returns a request as a line, to be sent later.
    pub(crate) fn request_line(&mut self, method: &'static str, params: &Value) -> (i64, String) {
        let id = i64::try_from(self.sent_requests.len()).unwrap();
        self.sent_requests.insert(id, method);
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, format!("{line}\n"))
    }

    pub(crate) fn send_request(&mut self, method: &'static str, params: &Value) -> i64 {
        let (id, line) = self.request_line(method, params);
        self.write_bytes(line.as_bytes());
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "parameters are written down where they are used"
    )]
    pub(crate) fn call(&mut self, method: &'static str, params: Value) -> RpcResult {
        let id = self.send_request(method, &params);
        self.answer(id)
    }

    /// Reads and checks the next line.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE).unwrap();
        schema::assert_valid(&line, |id| self.sent_requests.get(&id.as_i64()?).copied());
        line
    }

    /// Reads until a message matches, and answers the agent's requests meanwhile.
    #[track_caller]
    pub(crate) fn read_until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let line = self.next();
            let found = is_it(&line);
            if line.get("method").is_some() {
                self.received.push(line.clone());
            } else if let Some(id) = line["id"].as_i64() {
                self.answers.insert(id, line.clone());
            }
            if found {
                return line;
            }
            if line["method"] == "session/request_permission" && self.permission_choice != "none" {
                self.answer_permission(&line, self.permission_choice);
            }
        }
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, id: i64) -> RpcResult {
        if !self.answers.contains_key(&id) {
            self.read_until(|line| line["id"] == id && line.get("method").is_none());
        }
        let line = self.answers.remove(&id).unwrap();
        match line.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(line["result"].clone()),
        }
    }

    /// Answers a permission request by the kind of an option.
    pub(crate) fn answer_permission(&mut self, request: &Value, kind: &str) {
        let options = request["params"]["options"].as_array().unwrap();
        let outcome = match options.iter().find(|option| option["kind"] == kind) {
            Some(option) => json!({"outcome": "selected", "optionId": option["optionId"]}),
            None => json!({"outcome": "cancelled"}),
        };
        self.send_result(request, &json!({"outcome": outcome}));
    }

    pub(crate) fn send_result(&mut self, request: &Value, result: &Value) {
        self.line(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Creates a session in the machine's working folder.
    #[track_caller]
    pub(crate) fn session(&mut self, machine: &Machine) -> String {
        let new = json!({"cwd": machine.work(), "mcpServers": []});
        let new = self.call("session/new", new).unwrap();
        new["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn send_prompt(&mut self, session: &str, text: &str) -> i64 {
        let prompt = [json!({"type": "text", "text": text})];
        self.send_request("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    #[track_caller]
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> RpcResult {
        let id = self.send_prompt(session, text);
        self.answer(id)
    }

    /// Returns the updates of one kind so far.
    pub(crate) fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.received.iter().map(|line| &line["params"]["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// Returns the text of all chunks of one kind so far.
    pub(crate) fn update_text(&self, kind: &str) -> String {
        let chunks = self.updates(kind).into_iter();
        chunks.filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }

    /// Closes stdin, and returns the remaining messages and the exit code.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Vec<Value>, Option<i32>) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            schema::assert_valid(&line, |id| self.sent_requests.get(&id.as_i64()?).copied());
            rest.push(line);
        }
        let status = self.child.wait().unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        (rest, status.code())
    }
}

fn spawn(machine: &Machine, arguments: &[&str]) -> (Child, ChildStdout) {
    let mut command = machine.program(ANGELIA);
    command.arg("acp").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    (child, stdout)
}

impl Drop for Editor {
    fn drop(&mut self) {
        // The process may have exited already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
