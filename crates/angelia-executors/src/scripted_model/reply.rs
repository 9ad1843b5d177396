//! The answers that the scripted model can give, independent of the dialect.

use std::time::Duration;

use serde_json::Value;

use super::fault::{ApiError, Fault, StreamBreak, WireQuirk};

/// One answer to one model request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub body: ReplyBody,
    /// Added to the response, even to error responses.
    pub headers: Vec<(String, String)>,
    /// The delay before the first byte of the response.
    pub wait: Duration,
    /// The token counts of this answer; `None` uses the server's counts.
    pub usage: Option<ReplyUsage>,
}

#[derive(Clone, Debug)]
pub enum ReplyBody {
    Message(ReplyMessage),
    Status {
        code: u16,
        message: Option<String>,
    },
    Error(ApiError),
    /// Exactly this body, in every dialect.
    Json {
        code: u16,
        body: Value,
    },
    Fault(Fault),
}

/// A model message: well formed, unless it has a quirk or a cut.
#[derive(Clone, Debug, Default)]
pub struct ReplyMessage {
    pub blocks: Vec<ReplyBlock>,
    pub stop: ReplyStop,
    /// The pause between two deltas; zero sends the whole stream in one write.
    pub pause: Duration,
    pub quirk: Option<WireQuirk>,
    /// How the stream breaks off in the middle of the last block.
    pub cut: Option<StreamBreak>,
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
    /// A call with exactly these arguments, which need not be JSON.
    RawTool {
        name: String,
        arguments: String,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyStop {
    /// `end_turn`, or `tool_use` if the message calls a tool.
    #[default]
    Natural,
    MaxTokens,
    Refusal,
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

    /// Returns the input including its cached parts, as two dialects count it.
    pub(super) fn inclusive_input(self) -> u64 {
        self.input + self.cache_read + self.cache_write()
    }
}

impl Reply {
    pub fn message(blocks: Vec<ReplyBlock>) -> Self {
        Self::new(ReplyBody::Message(ReplyMessage { blocks, ..ReplyMessage::default() }))
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::message(vec![ReplyBlock::Text(text.into())])
    }

    /// Answers with `count` words (`w0 w1 …`), one delta each, with a pause between them.
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

    pub fn error(error: ApiError) -> Self {
        Self::new(ReplyBody::Error(error))
    }

    pub fn json(code: u16, body: Value) -> Self {
        Self::new(ReplyBody::Json { code, body })
    }

    pub fn fault(fault: Fault) -> Self {
        Self::new(ReplyBody::Fault(fault))
    }

    /// Calls a tool with exactly these arguments, which need not be JSON.
    pub fn raw_tool(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        let (name, arguments) = (name.into(), arguments.into());
        Self::message(vec![ReplyBlock::RawTool { name, arguments }])
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

    /// Reports these token counts, without any cache.
    #[must_use]
    pub fn with_tokens(mut self, input: u64, output: u64) -> Self {
        self.usage =
            Some(ReplyUsage { input, output, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 });
        self
    }

    /// Sends a message's deltas one by one with this pause in between; no effect on other answers.
    #[must_use]
    pub fn with_pause(self, pause: Duration) -> Self {
        self.with_message(|message| message.pause = pause)
    }

    /// Ends a message for this reason; no effect on other answers.
    #[must_use]
    pub fn with_stop(self, stop: ReplyStop) -> Self {
        self.with_message(|message| message.stop = stop)
    }

    /// Sends a message with this mistake; no effect on other answers.
    #[must_use]
    pub fn with_quirk(self, quirk: WireQuirk) -> Self {
        self.with_message(|message| message.quirk = Some(quirk))
    }

    /// Breaks off a message in the middle of its last block; no effect on other answers.
    #[must_use]
    pub fn with_cut(self, cut: StreamBreak) -> Self {
        self.with_message(|message| message.cut = Some(cut))
    }

    fn with_message(mut self, change: impl FnOnce(&mut ReplyMessage)) -> Self {
        if let ReplyBody::Message(message) = &mut self.body {
            change(message);
        }
        self
    }

    fn new(body: ReplyBody) -> Self {
        Self { body, headers: Vec::new(), wait: Duration::ZERO, usage: None }
    }
}

impl ReplyMessage {
    pub fn calls_tool(&self) -> bool {
        self.blocks.iter().any(|block| block.tool_name().is_some())
    }

    /// Reports whether the message must end with the stop reason for tool calls.
    pub(super) fn stops_for_tools(&self) -> bool {
        self.calls_tool() && self.quirk != Some(WireQuirk::StopWithCalls)
    }

    /// Returns the index with which a block is sent.
    pub(super) fn sent_index(&self, index: usize) -> usize {
        if self.quirk == Some(WireQuirk::SharedIndex) { 0 } else { index }
    }

    /// Returns the id with which the call at this index is sent, made from the prefix and the
    /// number of the answer.
    pub(super) fn call_id(&self, prefix: &str, answer: u64, index: usize) -> Option<String> {
        match self.quirk {
            Some(WireQuirk::NoCallId) => None,
            Some(WireQuirk::RepeatedCallId) => Some(format!("{prefix}_test{answer:04}_0")),
            _ => Some(format!("{prefix}_test{answer:04}_{index}")),
        }
    }
}

impl ReplyBlock {
    pub(super) fn tool_name(&self) -> Option<&str> {
        match self {
            Self::Tool { name, .. } | Self::RawTool { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns the block's content in the chunks that a dialect sends as deltas.
    pub(super) fn chunks(&self) -> Vec<String> {
        match self {
            Self::Words(count) => (0..*count).map(|word| format!("w{word} ")).collect(),
            Self::Thinking(text)
            | Self::Text(text)
            | Self::RawTool { arguments: text, .. }
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
