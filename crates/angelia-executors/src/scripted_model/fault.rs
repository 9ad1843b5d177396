//! The faults that an answer can have, independent of the dialect.

/// How a stream breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamBreak {
    /// The stream goes silent, and the connection stays open.
    Hang,
    /// Only keep-alives follow.
    KeepAlives,
    /// The connection is reset.
    Reset,
    /// The body ends as if it were complete.
    End,
    /// The stream reports an error, and the body ends.
    ErrorFrame,
    /// Like `ErrorFrame`, with the error for a key that is no longer accepted.
    RefusedKey,
}

/// A mistake that servers make in an otherwise complete answer. A quirk that a dialect cannot
/// express has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireQuirk {
    /// Every block has the index 0.
    SharedIndex,
    /// Calls have no id.
    NoCallId,
    /// All calls have the same id.
    RepeatedCallId,
    /// The arguments of a call are an object instead of JSON in a string.
    ObjectArguments,
    /// The message calls a tool but says that it ended naturally.
    StopWithCalls,
    /// Each space in a text is replaced by half of a surrogate pair.
    LoneSurrogate,
    /// Each space in a text is replaced by an unescaped tab.
    RawTab,
    /// Each frame has a field whose value is `NaN`.
    NotANumber,
}

/// An error that clients recognise by its type or wording, with the matching status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// The balance is used up. Two dialects report this with the status of a rate limit.
    InsufficientQuota,
    /// The conversation is longer than this window.
    Overflow { window: u64 },
    /// The model does not accept the reasoning that the client sent back.
    ReasoningRejected,
    /// The model does not accept images.
    ImageRefused,
    /// An image has too many bytes.
    ImageTooLarge,
    /// The request asks for more output than this limit.
    OutputCap { limit: u64 },
}

/// A broken answer that clients must cope with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is read but never answered.
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
    /// The first delta, then an error event.
    ErrorAfterText,
    /// The head and part of a tool call, then a connection reset.
    CutCall,
    /// The head, and then nothing but keep-alives.
    KeepAlives,
}
