//! Drives Codex's app-server with as little overhead as possible, and with the same settings that
//! our executor uses.

use std::{ffi::OsString, path::Path, time::Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{Timing, direct::ProcessPipes};

const FLAGS: [&str; 5] =
    ["app-server", "-c", "thread_unload_delay_secs=0", "-c", "features.plugins=false"];

/// A running app-server; killed when dropped.
pub(crate) struct AppServer {
    pipes: ProcessPipes,
    next: u64,
}

impl AppServer {
    /// Starts the app-server and initializes it.
    pub(crate) fn start(
        program: &Path,
        environment: &[(OsString, OsString)],
        folder: &Path,
    ) -> Result<Self> {
        let pipes = ProcessPipes::open(program, &FLAGS, environment, folder)?;
        let mut this = Self { pipes, next: 1 };
        let info = json!({"name": "bench", "title": "Bench", "version": "1"});
        let params = json!({"clientInfo": info, "capabilities": {"experimentalApi": true}});
        this.call("initialize", &params)?;
        this.pipes.write(&json!({"method": "initialized"}))?;
        Ok(this)
    }

    /// Starts a new thread the way our executor does.
    pub(crate) fn thread(&mut self, folder: &Path) -> Result<String> {
        let mut projects = serde_json::Map::new();
        let untrusted = json!({"trust_level": "untrusted"});
        projects.insert(folder.display().to_string(), untrusted);
        let config = json!({"projects": projects, "project_doc_max_bytes": 0});
        let params = json!({"cwd": folder, "permissions": ":read-only",
            "approvalPolicy": "untrusted", "config": config});
        let answer = self.call("thread/start", &params)?;
        let id = answer["result"]["thread"]["id"].as_str();
        Ok(id.with_context(|| format!("no thread: {answer}"))?.to_owned())
    }

    pub(crate) fn turn(&mut self, thread: &str, prompt: &str) -> Result<Timing> {
        self.turn_since(Instant::now(), thread, prompt)
    }

    /// Runs a turn whose timing starts at `begun`.
    pub(crate) fn turn_since(
        &mut self,
        begun: Instant,
        thread: &str,
        prompt: &str,
    ) -> Result<Timing> {
        let input = json!([{"type": "text", "text": prompt}]);
        let params = json!({"threadId": thread, "input": input, "permissions": ":workspace",
            "approvalPolicy": "untrusted"});
        self.send("turn/start", &params)?;
        self.pipes.read_until(br#""item/agentMessage/delta""#)?;
        let first = begun.elapsed();
        self.pipes.read_until(br#""turn/completed""#)?;
        Ok(Timing { first, end: begun.elapsed() })
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        let id = self.next;
        self.next += 1;
        let message = json!({"id": id, "method": method, "params": params});
        self.pipes.write(&message)?;
        Ok(id)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.send(method, params)?;
        let line = self.pipes.read_until(format!("{{\"id\":{id},").as_bytes())?;
        Ok(serde_json::from_slice(line)?)
    }
}
