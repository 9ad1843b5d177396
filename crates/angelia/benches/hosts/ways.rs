//! The adapters between a host and an agent: none (direct pipes), our bridge, our ACP frontend, and
//! claude-agent-acp, which people use today.

use std::{path::Path, process::Command, time::Instant};

use angelia_testkit::{measure::Place, programs};
use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use serde_json::{Value, json};

use crate::{Timing, peer::Peer};

const ANGELIA: &str = env!("CARGO_BIN_EXE_angelia");

/// One adapter, with a hot session.
pub(crate) trait Way {
    /// Runs a turn whose answer has this many words.
    fn turn(&mut self, words: u32) -> Result<Timing>;

    /// Returns the pid of the program that the host talks to.
    fn pid(&self) -> u32;
}

/// The meaning of a line for the timing.
enum Line {
    Delta,
    End,
    Other,
}

/// Sends a turn's request and reads its lines to the last one.
fn timed(peer: &mut Peer, request: &Value, look: impl Fn(&[u8]) -> Result<Line>) -> Result<Timing> {
    let begun = Instant::now();
    peer.send(request)?;
    let (mut first, mut deltas) = (None, 0);
    loop {
        match look(peer.next()?)? {
            Line::Delta => {
                first.get_or_insert_with(|| begun.elapsed());
                deltas += 1;
            }
            Line::End => break,
            Line::Other => {}
        }
    }
    Ok(Timing { first: first.context("the turn had no text")?, end: begun.elapsed(), deltas })
}

fn has(line: &[u8], sign: &str) -> bool {
    memmem::find(line, sign.as_bytes()).is_some()
}

/// Returns one of our commands, in its own home whose only profile runs the agent program.
fn angelia(place: &Place, name: &str) -> Result<Command> {
    let config = json!({"profiles": {"default": place.profile(0)}});
    let mut command = place.angelia(ANGELIA, name, &config)?;
    command.arg(name).current_dir(place.work());
    Ok(command)
}

/// Returns a foreign program in the agent program's environment.
#[expect(clippy::disallowed_methods, reason = "what is compared is started here")]
fn program(place: &Place, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(place.environment()).current_dir(place.work());
    command
}

/// The agent program, driven by the host directly: the baseline for the other adapters.
pub(crate) struct Direct {
    peer: Peer,
    asked: u32,
}

impl Direct {
    pub(crate) fn start(place: &Place) -> Result<Self> {
        let flags = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-partial-messages",
        ];
        let mut command = program(place, &place.program);
        let peer = Peer::start(command.args(flags))?;
        Ok(Self { peer, asked: 0 })
    }
}

impl Way for Direct {
    fn turn(&mut self, words: u32) -> Result<Timing> {
        self.asked += 1;
        let request = json!({"type": "user", "parent_tool_use_id": null,
            "message": {"role": "user", "content": format!("WORDS:{words}")},
            "uuid": format!("00000000-0000-4000-8000-{:012}", self.asked)});
        timed(&mut self.peer, &request, |line| {
            Ok(if has(line, r#""text_delta""#) {
                Line::Delta
            } else if has(line, r#""type":"result""#) {
                Line::End
            } else {
                Line::Other
            })
        })
    }

    fn pid(&self) -> u32 {
        self.peer.pid()
    }
}

pub(crate) struct Bridge {
    peer: Peer,
    asked: u32,
}

impl Bridge {
    pub(crate) fn start(place: &Place) -> Result<Self> {
        let flags = ["--native-stream", "--native-assistant-delta", "--assistant-delta"];
        let peer = Peer::start(angelia(place, "bridge")?.args(flags))?;
        Ok(Self { peer, asked: 0 })
    }
}

impl Way for Bridge {
    fn turn(&mut self, words: u32) -> Result<Timing> {
        self.asked += 1;
        let request = json!({"type": "run", "request_id": self.asked.to_string(),
            "session_id": "bench", "message": format!("WORDS:{words}")});
        timed(&mut self.peer, &request, |line| {
            if line.starts_with(br#"{"type":"assistant_delta","#) {
                return Ok(Line::Delta);
            }
            if !line.starts_with(br#"{"type":"final""#) {
                return Ok(Line::Other);
            }
            let completed = has(line, r#""status":"completed""#);
            ensure!(completed, "{}", String::from_utf8_lossy(line));
            Ok(Line::End)
        })
    }

    fn pid(&self) -> u32 {
        self.peer.pid()
    }
}

pub(crate) struct Acp {
    peer: Peer,
    session: String,
    asked: u32,
}

impl Acp {
    pub(crate) fn ours(place: &Place) -> Result<Self> {
        let peer = Peer::start(&mut angelia(place, "acp")?)?;
        Self::open(peer, &place.work())
    }

    pub(crate) fn claude_agent_acp(place: &Place) -> Result<Self> {
        let script = "target/npm/acp-agents/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js";
        let script = programs::workspace().join(script);
        let mut node = program(place, Path::new("node"));
        node.arg(script).env("CLAUDE_CODE_EXECUTABLE", &place.program);
        let peer = Peer::start(&mut node)?;
        Self::open(peer, &place.work())
    }

    fn open(mut peer: Peer, folder: &Path) -> Result<Self> {
        peer.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": 1, "clientCapabilities": {}}}))?;
        peer.until(r#""id":0"#)?;
        peer.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
            "params": {"cwd": folder, "mcpServers": []}}))?;
        let opened = peer.until(r#""id":1"#)?;
        let session = opened["result"]["sessionId"].as_str();
        let session = session.with_context(|| format!("no session: {opened}"))?;
        Ok(Self { peer, session: session.to_owned(), asked: 1 })
    }
}

impl Way for Acp {
    fn turn(&mut self, words: u32) -> Result<Timing> {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": "session/prompt",
            "params": {"sessionId": self.session,
                "prompt": [{"type": "text", "text": format!("WORDS:{words}")}]}});
        timed(&mut self.peer, &request, |line| {
            if has(line, r#""agent_message_chunk""#) {
                return Ok(Line::Delta);
            }
            let is_end = has(line, r#""stopReason""#);
            let is_good =
                if is_end { has(line, r#""end_turn""#) } else { !has(line, r#""error":"#) };
            ensure!(is_good, "{}", String::from_utf8_lossy(line));
            Ok(if is_end { Line::End } else { Line::Other })
        })
    }

    fn pid(&self) -> u32 {
        self.peer.pid()
    }
}
