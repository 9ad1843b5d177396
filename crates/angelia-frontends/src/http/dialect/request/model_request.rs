//! A request to a model API, independent of the dialect: the output of every decoder.

use std::{fmt, sync::Arc};

use angelia_core::model::{CallerTool, HistoryMessage, RawJson, ToolChoice, TurnId};

use crate::http::{ErrorKind, HttpError};

/// More than any caller needs, and few enough to scan every chunk for.
const MAX_STOP_WORDS: usize = 64;

/// A request for one answer from a model. The last messages may be results of the caller's tools.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The model id exactly as the caller wrote it.
    pub model: Arc<str>,
    /// All system texts that precede the conversation, joined.
    pub system: Option<Arc<str>>,
    /// Messages with their real roles. A `system` message in the middle of the conversation is a
    /// user message whose text is marked.
    pub messages: Vec<HistoryMessage>,
    pub tools: Vec<CallerTool>,
    pub tool_choice: ToolChoice,
    pub output_format: OutputFormat,
    /// An upper bound on the length of the answer, honoured where possible.
    pub max_tokens: Option<u64>,
    /// The answer ends before the first of these words.
    pub stop_words: Vec<Arc<str>>,
    pub stream: bool,
    /// The turn of the answer that this request continues. If set, it alone decides the session.
    pub previous_turn: Option<TurnId>,
    /// Whether the client wants a title, a tag or a summary for its own user interface. Such a
    /// request is not part of any conversation.
    pub is_utility: bool,
}

/// The required format of the answer.
#[derive(Clone, Debug, Default)]
pub enum OutputFormat {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    Schema(RawJson),
}

/// Why a request cannot be served as it is. Each dialect reports this in its own format, as a 400.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct InvalidRequest {
    pub message: String,
    /// The path of the offending field as the caller would write it: `messages.0.content`.
    pub field: Option<String>,
}

impl InvalidRequest {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), field: None }
    }

    /// Refuses a field. The message is `FIELD: WHY`.
    pub fn in_field(field: impl Into<String>, why: impl fmt::Display) -> Self {
        let field = field.into();
        Self { message: format!("{field}: {why}"), field: Some(field) }
    }

    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl From<InvalidRequest> for HttpError {
    fn from(invalid: InvalidRequest) -> Self {
        Self { field: invalid.field, ..Self::new(ErrorKind::Refused, invalid.message) }
    }
}

/// Checks the stop words of a request. Empty words are dropped.
pub fn check_stop_words(
    words: Vec<Arc<str>>,
    field: &str,
) -> Result<Vec<Arc<str>>, InvalidRequest> {
    if words.len() > MAX_STOP_WORDS {
        let message = format!("there may be at most {MAX_STOP_WORDS}");
        return Err(InvalidRequest::in_field(field, message));
    }
    Ok(words.into_iter().filter(|word| !word.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_refused_and_empty_ones_passed_over() {
        assert!(check_stop_words(vec!["x".into(); 65], "stop").is_err());
        let some = check_stop_words(vec!["".into(), "x".into()], "stop").unwrap();
        assert_eq!(some, ["x".into()]);
    }
}
