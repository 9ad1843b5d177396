//! The APIs of models: a conversation to the bytes of a request, and the bytes of an answer to
//! events. Everything here is pure: no clock, no I/O.
//!
//! - [`conversation`]: what the model knows: content, parts of answers, results of tools.
//! - [`normalise`]: makes any conversation acceptable to an API.
//! - [`request`]: the settings of a request, and its encoding in any of the APIs.
//! - [`encoded_history`]: the same for a conversation that grows: each message is encoded once.
//! - `element_list`: the encoded messages, and where cache marks can stand.
//! - [`stream`]: the bytes of an answer in any of the APIs, as events.
//! - [`event`]: those events.
//! - [`messages`], [`chat`], [`responses`]: one API each, with `wire`, `encode` and `decode`.
//! - [`quirks`]: what differs from host to host; the only file that names one.
//! - [`error`]: what an error of a provider means.
//! - [`window`]: how much a model can read and write.
//! - `frame_json`: reads the JSON of a frame, also if it is not quite JSON.
//! - `image`: images in the form of a data URL.

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

    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }

    /// The path after the base URL, which is the one that the vendor's own library takes.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
        }
    }

    /// The longest id of a tool call that the API accepts.
    pub const fn max_call_id_chars(self) -> usize {
        match self {
            Self::Chat => 40,
            Self::Messages | Self::Responses => 64,
        }
    }
}
