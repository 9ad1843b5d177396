//! The adapters between a host and an agent: none (direct pipes), our bridge, our ACP frontend, and
//! claude-agent-acp, which people use today.

use std::{path::Path, process::Command, time::Instant};

use angelia_testkit::{benchmark::BenchHome, programs};
use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use serde_json::{Value, json};

use crate::{Timing, peer::LineProcess};

const ANGELIA: &str = env!("CARGO_BIN_EXE_angelia");

/// One adapter, with a hot session.
pub(crate) trait Adapter {
    /// Runs a turn whose answer has this many words.
    fn turn(&mut self, words: u32) -> Result<Timing>;

    /// Returns the pid of the program that the host talks to.
    fn pid(&self) -> u32;
}

/// The meaning of a line for the timing.
enum LineKind {
    Delta,
    End,
    Other,
}

/// Sends a turn's request and reads its lines to the last one.
fn time_turn(
    peer: &mut LineProcess,
    request: &Value,
    look: impl Fn(&[u8]) -> Result<LineKind>,
) -> Result<Timing> {
    let begun = Instant::now();
    peer.send(request)?;
    let (mut first, mut deltas) = (None, 0);
    loop {
        match look(peer.next_line()?)? {
            LineKind::Delta => {
                first.get_or_insert_with(|| begun.elapsed());
                deltas += 1;
            }
            LineKind::End => break,
            LineKind::Other => {}
        }
    }
    Ok(Timing { first: first.context("the turn had no text")?, end: begun.elapsed(), deltas })
}

fn has(line: &[u8], sign: &str) -> bool {
    memmem::find(line, sign.as_bytes()).is_some()
}

/// Returns one of our commands, in its own home whose only profile runs the agent program.
fn angelia_command(place: &BenchHome, name: &str) -> Result<Command> {
    let config = json!({"profiles": {"default": place.profile(0)}});
    let mut command = place.configured_command(ANGELIA, name, &config)?;
    command.arg(name).current_dir(place.work_dir());
    Ok(command)
}

/// Returns a foreign program in the agent program's environment.
#[expect(clippy::disallowed_methods, reason = "what is compared is started here")]
fn foreign_command(place: &BenchHome, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(place.environment()).current_dir(place.work_dir());
    command
}

/// The agent program, driven by the host directly: the baseline for the other adapters.
pub(crate) struct DirectAdapter {
    peer: LineProcess,
    request_count: u32,
}

impl DirectAdapter {
    pub(crate) fn start(place: &BenchHome) -> Result<Self> {
        let flags = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-partial-messages",
        ];
        let mut command = foreign_command(place, &place.program);
        let peer = LineProcess::start(command.args(flags))?;
        Ok(Self { peer, request_count: 0 })
    }
}

impl Adapter for DirectAdapter {
    fn turn(&mut self, words: u32) -> Result<Timing> {
        self.request_count += 1;
        let request = json!({"type": "user", "parent_tool_use_id": null,
            "message": {"role": "user", "content": format!("WORDS:{words}")},
            "uuid": format!("00000000-0000-4000-8000-{:012}", self.request_count)});
        time_turn(&mut self.peer, &request, |line| {
            Ok(if has(line, r#""text_delta""#) {
                LineKind::Delta
            } else if has(line, r#""type":"result""#) {
                LineKind::End
            } else {
                LineKind::Other
            })
        })
    }

    fn pid(&self) -> u32 {
        self.peer.pid()
    }
}

pub(crate) struct BridgeAdapter {
    peer: LineProcess,
    request_count: u32,
}

impl BridgeAdapter {
    pub(crate) fn start(place: &BenchHome) -> Result<Self> {
        let flags = ["--native-stream", "--native-assistant-delta", "--assistant-delta"];
        let peer = LineProcess::start(angelia_command(place, "bridge")?.args(flags))?;
        Ok(Self { peer, request_count: 0 })
    }
}

impl Adapter for BridgeAdapter {
    fn turn(&mut self, words: u32) -> Result<Timing> {
        self.request_count += 1;
        let request = json!({"type": "run", "request_id": self.request_count.to_string(),
            "session_id": "bench", "message": format!("WORDS:{words}")});
        time_turn(&mut self.peer, &request, |line| {
            if line.starts_with(br#"{"type":"assistant_delta","#) {
                return Ok(LineKind::Delta);
            }
            if !line.starts_with(br#"{"type":"final""#) {
                return Ok(LineKind::Other);
            }
            let completed = has(line, r#""status":"completed""#);
            ensure!(completed, "{}", String::from_utf8_lossy(line));
            Ok(LineKind::End)
        })
    }

    fn pid(&self) -> u32 {
        self.peer.pid()
    }
}

pub(crate) struct AcpAdapter {
    peer: LineProcess,
    session: String,
    request_count: u32,
}

impl AcpAdapter {
    pub(crate) fn start_angelia(place: &BenchHome) -> Result<Self> {
        let peer = LineProcess::start(&mut angelia_command(place, "acp")?)?;
        Self::open(peer, &place.work_dir())
    }

    pub(crate) fn start_claude_agent_acp(place: &BenchHome) -> Result<Self> {
        let script = "target/npm/acp-agents/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js";
        let script = programs::workspace_root().join(script);
        let mut node = foreign_command(place, Path::new("node"));
        node.arg(script).env("CLAUDE_CODE_EXECUTABLE", &place.program);
        let peer = LineProcess::start(&mut node)?;
        Self::open(peer, &place.work_dir())
    }

    fn open(mut peer: LineProcess, folder: &Path) -> Result<Self> {
        peer.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": 1, "clientCapabilities": {}}}))?;
        peer.read_until(r#""id":0"#)?;
        peer.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
            "params": {"cwd": folder, "mcpServers": []}}))?;
        let opened = peer.read_until(r#""id":1"#)?;
        let session = opened["result"]["sessionId"].as_str();
        let session = session.with_context(|| format!("no session: {opened}"))?;
        Ok(Self { peer, session: session.to_owned(), request_count: 1 })
    }
}

impl Adapter for AcpAdapter {
    fn turn(&mut self, words: u32) -> Result<Timing> {
        self.request_count += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.request_count, "method": "session/prompt",
            "params": {"sessionId": self.session,
                "prompt": [{"type": "text", "text": format!("WORDS:{words}")}]}});
        time_turn(&mut self.peer, &request, |line| {
            if has(line, r#""agent_message_chunk""#) {
                return Ok(LineKind::Delta);
            }
            let is_end = has(line, r#""stopReason""#);
            let is_good =
                if is_end { has(line, r#""end_turn""#) } else { !has(line, r#""error":"#) };
            ensure!(is_good, "{}", String::from_utf8_lossy(line));
            Ok(if is_end { LineKind::End } else { LineKind::Other })
        })
    }

    fn pid(&self) -> u32 {
        self.peer.pid()
    }
}
