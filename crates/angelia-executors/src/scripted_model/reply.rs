//! The answers that the scripted model can give, independent of the dialect.

use std::time::Duration;

use serde_json::Value;

/// One answer to one model request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub body: ReplyBody,
    /// Added to the response; also on error statuses.
    pub headers: Vec<(String, String)>,
    /// The delay before the first byte of the response.
    pub wait: Duration,
}

#[derive(Clone, Debug)]
pub enum ReplyBody {
    Message(ReplyMessage),
    Status { code: u16, message: Option<String> },
    Fault(Fault),
}

/// A well-formed model message.
#[derive(Clone, Debug)]
pub struct ReplyMessage {
    pub blocks: Vec<ReplyBlock>,
    pub stop: ReplyStop,
    /// Between two deltas; zero sends the whole stream in one write.
    pub pause: Duration,
}

#[derive(Clone, Debug)]
pub enum ReplyBlock {
    Thinking(String),
    Text(String),
    /// This many words, one delta each.
    Words(usize),
    Tool {
        name: String,
        input: Value,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStop {
    /// `end_turn`, or `tool_use` when the message calls a tool.
    Natural,
    MaxTokens,
    Refusal,
}

/// A broken answer that clients must cope with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is read and never answered.
    HangHeaders,
    /// The head and the first delta, then silence.
    HangBody,
    /// The head and the first delta, then a connection reset.
    ConnectionReset,
    /// Status 200 and a stream whose second event is not JSON.
    BadJson,
    /// Status 200 and an error event after the start of the message.
    ErrorEvent,
    /// Status 200 and an HTML page instead of an answer.
    Html,
    /// Status 200 and an empty body.
    Empty,
    /// A stream that ends cleanly but before its closing event.
    MissingStop,
}

/// Token counts reported for every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write_5m: u64,
    pub cache_write_1h: u64,
}

impl Default for ReplyUsage {
    fn default() -> Self {
        Self { input: 11, output: 25, cache_read: 3000, cache_write_5m: 20, cache_write_1h: 100 }
    }
}

impl ReplyUsage {
    pub fn cache_write(self) -> u64 {
        self.cache_write_5m + self.cache_write_1h
    }
}

impl Reply {
    pub fn message(blocks: Vec<ReplyBlock>) -> Self {
        Self::new(ReplyBody::Message(ReplyMessage {
            blocks,
            stop: ReplyStop::Natural,
            pause: Duration::ZERO,
        }))
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::message(vec![ReplyBlock::Text(text.into())])
    }

    /// `count` words (`w0 w1 …`), one delta each, with a pause between them.
    pub fn words(count: usize, pause: Duration) -> Self {
        Self::message(vec![ReplyBlock::Words(count)]).with_pause(pause)
    }

    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::message(vec![ReplyBlock::Tool { name: name.into(), input }])
    }

    pub fn status(code: u16) -> Self {
        Self::new(ReplyBody::Status { code, message: None })
    }

    pub fn status_with(code: u16, message: impl Into<String>) -> Self {
        Self::new(ReplyBody::Status { code, message: Some(message.into()) })
    }

    pub fn fault(fault: Fault) -> Self {
        Self::new(ReplyBody::Fault(fault))
    }

    /// Refuses the request: the subscription's five-hour limit is used up until `resets_at` (Unix
    /// seconds).
    pub fn subscription_limit(resets_at: u64) -> Self {
        let reset = resets_at.to_string();
        Self::status_with(429, "This request would exceed your account's rate limit.")
            .with_header("anthropic-ratelimit-unified-status", "rejected")
            .with_header("anthropic-ratelimit-unified-reset", &reset)
            .with_header("anthropic-ratelimit-unified-representative-claim", "five_hour")
            .with_header("anthropic-ratelimit-unified-5h-status", "rejected")
            .with_header("anthropic-ratelimit-unified-5h-reset", &reset)
            .with_header("anthropic-ratelimit-unified-5h-utilization", "1")
            .with_header("anthropic-ratelimit-unified-overage-status", "rejected")
            .with_header(
                "anthropic-ratelimit-unified-overage-disabled-reason",
                "org_level_disabled",
            )
    }

    /// Adds to a normal answer the headers that warn of a nearly used-up subscription window.
    #[must_use]
    pub fn with_limit_warning(self, resets_at: u64) -> Self {
        let reset = resets_at.to_string();
        self.with_header("anthropic-ratelimit-unified-status", "allowed_warning")
            .with_header("anthropic-ratelimit-unified-reset", &reset)
            .with_header("anthropic-ratelimit-unified-representative-claim", "five_hour")
            .with_header("anthropic-ratelimit-unified-5h-status", "allowed_warning")
            .with_header("anthropic-ratelimit-unified-5h-reset", &reset)
            .with_header("anthropic-ratelimit-unified-5h-utilization", "0.91")
            .with_header("anthropic-ratelimit-unified-5h-surpassed-threshold", "0.9")
    }

    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Delays the first byte of the response.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sends a message's deltas one by one with this pause; no effect on other answers.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        if let ReplyBody::Message(message) = &mut self.body {
            message.pause = pause;
        }
        self
    }

    /// Ends a message for this reason; no effect on other answers.
    #[must_use]
    pub fn with_stop(mut self, stop: ReplyStop) -> Self {
        if let ReplyBody::Message(message) = &mut self.body {
            message.stop = stop;
        }
        self
    }

    fn new(body: ReplyBody) -> Self {
        Self { body, headers: Vec::new(), wait: Duration::ZERO }
    }
}

impl ReplyMessage {
    pub fn calls_tool(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, ReplyBlock::Tool { .. }))
    }
}

impl ReplyBlock {
    /// Returns the block's content in the chunks that a dialect sends as deltas.
    pub(super) fn chunks(&self) -> Vec<String> {
        match self {
            Self::Words(count) => (0..*count).map(|word| format!("w{word} ")).collect(),
            Self::Thinking(text)
            | Self::Text(text)
            | Self::Tool { input: Value::String(text), .. } => split_chunks(text),
            Self::Tool { input, .. } => split_chunks(&input.to_string()),
        }
    }

    /// Returns the block's whole content: the concatenated chunks.
    pub(super) fn full_text(&self) -> String {
        self.chunks().concat()
    }
}

/// Splits small texts into chunks of eight bytes and large ones into chunks of 16 KiB, at the next
/// character boundary.
fn split_chunks(text: &str) -> Vec<String> {
    let size = if text.len() > 4096 { 16 * 1024 } else { 8 };
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = size.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece.to_owned());
        rest = tail;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_text_in_any_script() {
        for text in ["", "short", "καλημέρα κόσμε, τι κάνεις;", &"🦜".repeat(3000)]
        {
            assert_eq!(ReplyBlock::Text(text.to_owned()).full_text(), text);
        }
    }

    #[test]
    fn words_are_one_piece_each() {
        assert_eq!(ReplyBlock::Words(3).chunks(), ["w0 ", "w1 ", "w2 "]);
    }
}
