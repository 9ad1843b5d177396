//! Parses a prompt into the plan of a turn.
//!
//! `ECHO:text` · `BIG:n` (n bytes of text) · `WORDS:n` (one write per turn) · `WORDS:n:ms` (one
//! write per delta, ms apart) · `TOOL:{"name":…,"input":…}:END` · `ROUNDS:n` · `THINK` ·
//! `STATUS:nnn` · `NATIVE` (a line of an unknown type) · `HANG` (after the first delta) · `EXIT:n`
//! and `DIE` (after the first delta; `DIE` by SIGKILL in the middle of a line). Directives that the
//! model server also has mean the same there.

use std::time::Duration;

use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TurnPlan {
    pub(crate) chunks: Vec<String>,
    /// The pause between deltas; `None` writes the whole turn at once.
    pub(crate) pause: Option<Duration>,
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) think: bool,
    pub(crate) native: bool,
    pub(crate) status: Option<u16>,
    pub(crate) end: Option<AbnormalEnd>,
}

/// How the turn ends abnormally after the first delta of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbnormalEnd {
    Hang,
    Exit(u8),
    Die,
}

impl TurnPlan {
    pub(crate) fn parse(prompt: &str, words: Option<usize>) -> Self {
        let mut plan = Self::default();
        let rest = plan.take_calls(prompt);
        let (rest, echo) = match rest.split_once("ECHO:") {
            Some((before, echo)) => (before, Some(echo)),
            None => (rest.as_str(), None),
        };
        let mut words = words;
        let mut big = None;
        for word in rest.split_whitespace() {
            let (name, value) = word.split_once(':').unwrap_or((word, ""));
            match name {
                "WORDS" => {
                    let (count, pause) = value.split_once(':').unwrap_or((value, ""));
                    words = count.parse().ok();
                    plan.pause = pause.parse().map(Duration::from_millis).ok();
                }
                "BIG" => big = value.parse().ok(),
                "ROUNDS" => plan.add_rounds(value.parse().unwrap_or(1)),
                "THINK" => plan.think = true,
                "NATIVE" => plan.native = true,
                "STATUS" => plan.status = value.parse().ok(),
                "HANG" => plan.end = Some(AbnormalEnd::Hang),
                "EXIT" => plan.end = Some(AbnormalEnd::Exit(value.parse().unwrap_or(1))),
                "DIE" => plan.end = Some(AbnormalEnd::Die),
                _ => {}
            }
        }
        plan.chunks = match (echo, words) {
            (None, None) if big.is_some() => large(big.unwrap_or_default()),
            (Some(echo), _) => vec![echo.to_owned()],
            (None, Some(count)) => (0..count).map(|word| format!("w{word} ")).collect(),
            (None, None) if !plan.calls.is_empty() => vec!["Tool ".into(), "finished.".into()],
            (None, None) => ["Hello ", "from ", "the ", "fake ", "CLI."].map(Into::into).into(),
        };
        plan
    }

    fn take_calls(&mut self, prompt: &str) -> String {
        let mut rest = prompt.to_owned();
        while let Some(start) = rest.find("TOOL:")
            && let Some(length) = rest[start..].find(":END")
        {
            let call = serde_json::from_str(&rest[start + 5..start + length]);
            let mut call: Value = call.unwrap_or_default();
            rest.replace_range(start..start + length + 4, " ");
            let name = call["name"].as_str().unwrap_or("Bash").to_owned();
            self.calls.push((name, call["input"].take()));
        }
        rest
    }

    fn add_rounds(&mut self, count: usize) {
        let command = |round| json!({"command": format!("echo round-{round}")});
        self.calls.extend((0..count).map(|round| ("Bash".to_owned(), command(round))));
    }
}

/// Returns `bytes` bytes of text in chunks of 64 KiB.
fn large(bytes: usize) -> Vec<String> {
    const CHUNK_BYTES: usize = 64 * 1024;
    let piece = |start| "x".repeat(CHUNK_BYTES.min(bytes - start));
    (0..bytes).step_by(CHUNK_BYTES).map(piece).collect()
}
