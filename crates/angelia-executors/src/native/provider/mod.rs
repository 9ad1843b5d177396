//! The model APIs: they turn a conversation into the bytes of a request, and the bytes of an answer
//! into events. Everything here is pure: no clock, no I/O.
//!
//! - [`conversation`]: what the model knows: content, parts of answers, tool results.
//! - [`normalise`]: makes any conversation acceptable to an API.
//! - [`request`]: the settings of a request, and its encoding in any of the APIs.
//! - [`encoded_history`]: encodes a growing conversation, each message only once.
//! - `element_list`: the encoded messages, and the places for cache marks.
//! - [`stream`]: decodes the bytes of an answer in any of the APIs into events.
//! - [`event`]: those events.
//! - [`messages`], [`chat`], [`responses`]: one API each, with `wire`, `encode` and `decode`.
//! - [`quirks`]: the differences between hosts; the only file that names hosts.
//! - [`error`]: what an error of a provider means.
//! - [`window`]: how much a model can read and write.
//! - `frame_json`: reads the JSON of a frame, even if it is not quite valid.
//! - `image`: encodes images as base64 and as data URLs.

pub mod chat;
pub mod conversation;
mod element_list;
pub mod encoded_history;
pub mod error;
pub mod event;
mod frame_json;
mod image;
pub mod messages;
pub mod normalise;
pub mod quirks;
pub mod request;
pub mod responses;
pub mod stream;
pub mod window;

pub use conversation::{
    AssistantMessage, AssistantPart, CallResult, Conversation, Issuer, Message, ModelCall,
    Reasoning, ReasoningSeal, ResultBatch,
};
pub use encoded_history::EncodedHistory;
pub use error::{ErrorClass, ErrorReply, ProviderError};
pub use event::{AnswerPart, ProviderEvent, ReceivedCall, ReportedTokens, StopReason};
pub use normalise::{WireTarget, normalise};
pub use quirks::{QuirkOverrides, Quirks};
pub use request::{ProviderRequest, RequestSettings, encode_request};
pub use stream::AnswerDecoder;

/// An API that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `POST /v1/messages`.
    Messages,
    /// `POST /chat/completions`.
    Chat,
    /// `POST /responses`.
    Responses,
}

impl Api {
    pub const ALL: [Self; 3] = [Self::Messages, Self::Chat, Self::Responses];

    /// Returns the name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }

    /// Returns the path after the base URL, which has the form that the vendor's own library
    /// accepts.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
        }
    }

    /// Returns the maximum length of a tool call's id in this API.
    pub const fn max_call_id_chars(self) -> usize {
        match self {
            Self::Chat => 40,
            Self::Messages | Self::Responses => 64,
        }
    }
}
