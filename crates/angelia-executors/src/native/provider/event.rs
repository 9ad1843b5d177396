//! The parts of a provider's answer, as they arrive.

use std::sync::Arc;

use angelia_core::model::RawJson;

use super::{ProviderError, Reasoning};

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum ProviderEvent {
    /// The answer has begun.
    Begin { id: Option<Arc<str>>, model: Option<Arc<str>> },
    /// A piece of the answer's text.
    TextDelta(Arc<str>),
    /// A piece of the reasoning's text.
    ReasoningDelta(Arc<str>),
    /// The model has begun to write a tool call.
    CallBegin { name: Arc<str> },
    /// A complete part of the answer. Its text is that of the deltas.
    Part(AnswerPart),
    /// Token counts so far; later ones replace earlier ones.
    Usage(ReportedTokens),
    /// The model has finished. An answer without this event was cut off.
    Stop(StopReason),
    /// The provider reports an error inside the answer.
    Error(ProviderError),
    /// The connection is alive, but the model has written nothing.
    KeepAlive,
    /// Any other frame, unchanged; if it is not JSON, as a JSON string.
    Unknown { name: Box<str>, raw: RawJson },
}

/// A complete part of an answer.
#[derive(Clone, Debug)]
pub enum AnswerPart {
    Text(Arc<str>),
    Reasoning(Reasoning),
    Call(ReceivedCall),
}

/// A tool call as the model wrote it, so the arguments may be any text.
#[derive(Clone, Debug)]
pub struct ReceivedCall {
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub arguments: Arc<str>,
    /// A field of the call that the provider wants back unchanged.
    pub extra: Option<RawJson>,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    EndTurn,
    ToolUse,
    /// The output limit was reached, so the last part is cut off.
    MaxTokens,
    /// The model continues the answer if it is sent back unchanged.
    Pause,
    /// The model or a filter refused to answer.
    Refused,
    /// The context window was full.
    WindowExceeded,
    /// An unknown reason; the answer counts as finished.
    Other(Arc<str>),
}

impl StopReason {
    /// Corrects a reason that contradicts the answer: servers report an ordinary end for an answer
    /// with calls, and vice versa.
    #[must_use]
    pub(super) fn with_calls(self, has_calls: bool) -> Self {
        match self {
            Self::EndTurn | Self::Other(_) if has_calls => Self::ToolUse,
            Self::ToolUse if !has_calls => Self::EndTurn,
            other => other,
        }
    }
}

/// Token counts as our usage reports define them: `input` excludes what was read from or written to
/// a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedTokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl ReportedTokens {
    /// Converts counts whose input includes the cached part, as two of the APIs report it.
    pub(super) fn from_inclusive(
        input: u64,
        output: u64,
        cache_read: u64,
        cache_write: u64,
    ) -> Self {
        let input = input.saturating_sub(cache_read).saturating_sub(cache_write);
        Self { input, output, cache_read, cache_write }
    }

    /// Returns the tokens of the prompt, cached or not.
    pub const fn prompt(self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }
}

/// Appends a delta, unless the text is empty.
pub(super) fn push_delta(
    text: &str,
    event: impl FnOnce(Arc<str>) -> ProviderEvent,
    out: &mut Vec<ProviderEvent>,
) {
    if !text.is_empty() {
        out.push(event(text.into()));
    }
}
