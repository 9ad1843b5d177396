//! A request to a model API, in no dialect: what every decoder produces.

use std::sync::Arc;

use angelia_core::model::{CallerTool, Message, RawJson, TurnId};

/// What somebody asks of a model. The last messages may be results of the caller's tools.
#[derive(Clone, Debug)]
pub struct Ask {
    /// As the caller spelled it.
    pub model: Arc<str>,
    /// Everything that precedes the conversation, joined.
    pub system: Option<Arc<str>>,
    /// With true roles. Messages that claim to be the system's own stand here as marked text of
    /// the user.
    pub messages: Vec<Message>,
    pub tools: Vec<CallerTool>,
    pub tool_choice: ToolChoice,
    pub output: Output,
    /// A ceiling for the answer, honoured where it can be.
    pub max_tokens: Option<u64>,
    /// The answer ends before the first of them.
    pub stop: Vec<Arc<str>>,
    pub stream: bool,
    /// The answer that this request continues; decides the session alone.
    pub previous: Option<TurnId>,
    /// A title, a tag, a summary for the caller's own window: not part of any conversation.
    pub is_utility: bool,
}

/// Whether the model may call one of the caller's tools, or must.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named(Arc<str>),
}

/// The form the answer must have.
#[derive(Clone, Debug, Default)]
pub enum Output {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    Schema(RawJson),
}

/// Why a request cannot be served as it stands; each dialect says it in its own shape, as a 400.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub message: String,
    /// The field that is meant, in the caller's words: `messages.0.content`.
    pub field: Option<String>,
}

impl Refused {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), field: None }
    }

    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}
