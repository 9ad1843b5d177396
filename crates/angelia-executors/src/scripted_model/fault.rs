//! The faults of an answer, independent of the dialect.

/// The way in which a stream breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamBreak {
    /// Nothing more comes, and the connection stays open.
    Hang,
    /// Only keep-alives come.
    KeepAlives,
    /// The connection is reset.
    Reset,
    /// The body ends as if it were whole.
    End,
    /// An error is reported, and the body ends.
    ErrorFrame,
    /// The same with the error of a key that is not accepted any more.
    RefusedKey,
}

/// A mistake of servers in an answer that is otherwise whole. A quirk that a dialect cannot express
/// changes nothing.
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
    /// The message calls a tool and says that it ended naturally.
    StopWithCalls,
    /// Each space in a text is half of a surrogate pair.
    LoneSurrogate,
    /// Each space in a text is a tab that is not escaped.
    RawTab,
    /// Each frame has a field with `NaN`.
    NotANumber,
}

/// An error that clients recognise by its type or words, with the status that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// The balance is used up; in two dialects with the status of a rate limit.
    InsufficientQuota,
    /// The conversation is longer than this window.
    Overflow { window: u64 },
    /// The reasoning that was sent back is not accepted.
    ReasoningRejected,
    /// The model takes no images.
    ImageRefused,
    /// An image has too many bytes.
    ImageTooLarge,
    /// More output was asked for than this limit.
    OutputCap { limit: u64 },
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
    /// The first delta, then an error event.
    ErrorAfterText,
    /// The head and a part of a tool call, then a connection reset.
    CutCall,
    /// The head and then nothing but keep-alives.
    KeepAlives,
}
