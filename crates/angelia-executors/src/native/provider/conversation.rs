//! The conversation as a model sees it, independent of any particular API.

use std::sync::Arc;

use angelia_core::model::{Content, RawJson};

use super::Api;

/// Everything that precedes the next answer.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// The system prompt; empty if there is none.
    pub system: Arc<str>,
    pub messages: Vec<Message>,
    /// Changes when the system prompt or messages are replaced. Otherwise, only the end of the
    /// messages changes.
    pub revision: u64,
}

#[derive(Clone, Debug)]
pub enum Message {
    User(Vec<Content>),
    Assistant(AssistantMessage),
    /// The results of the calls in the preceding answer.
    Results(ResultBatch),
}

impl Message {
    /// Returns the content that came from the user and from tools.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        let (said, results): (&[Content], &[CallResult]) = match self {
            Self::User(content) => (content, &[]),
            Self::Assistant(_) => (&[], &[]),
            Self::Results(batch) => (&batch.steering, &batch.results),
        };
        results.iter().flat_map(|result| &result.content).chain(said)
    }

    pub fn contents_mut(&mut self) -> impl Iterator<Item = &mut Content> {
        let (said, results): (&mut [Content], &mut [CallResult]) = match self {
            Self::User(content) => (content, &mut []),
            Self::Assistant(_) => (&mut [], &mut []),
            Self::Results(batch) => (&mut batch.steering, &mut batch.results),
        };
        results.iter_mut().flat_map(|result| &mut result.content).chain(said)
    }
}

/// An answer of a model.
#[derive(Clone, Debug)]
pub struct AssistantMessage {
    pub issuer: Issuer,
    pub parts: Vec<AssistantPart>,
}

impl AssistantMessage {
    /// Creates an answer whose text did not come from a provider.
    pub fn told(text: &str) -> Self {
        Self { issuer: Issuer::nobody(), parts: vec![AssistantPart::Text(text.into())] }
    }
}

impl Issuer {
    /// Returns the issuer of text that did not come from a provider.
    pub fn nobody() -> Self {
        Self { provider: "".into(), api: Api::Chat, model: "".into() }
    }
}

/// The provider and the model that gave an answer. Reasoning is sent back only to its issuer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Issuer {
    /// The name of the provider in the configuration.
    pub provider: Arc<str>,
    pub api: Api,
    pub model: Arc<str>,
}

#[derive(Clone, Debug)]
pub enum AssistantPart {
    Text(Arc<str>),
    Reasoning(Reasoning),
    Call(ModelCall),
}

/// A model's reasoning, with the seal that its provider wants back.
#[derive(Clone, Debug)]
pub struct Reasoning {
    /// The part that the provider shows; may be empty.
    pub text: Arc<str>,
    pub seal: ReasoningSeal,
}

/// The data by which a provider recognises its own reasoning.
#[derive(Clone, Debug)]
pub enum ReasoningSeal {
    /// No seal: there is only the text.
    Plain,
    /// The signature of a block, which is sent back with its text.
    Signature(Arc<str>),
    /// A block whose text the provider does not show.
    Redacted(Arc<str>),
    /// The content of an item, which only the provider can read.
    Encrypted { summary: RawJson, content: Arc<str> },
    /// A list that is sent back unchanged.
    Details(RawJson),
}

/// A tool call of a model. Its arguments are a JSON object.
#[derive(Clone, Debug)]
pub struct ModelCall {
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub arguments: RawJson,
    /// A field of the call that its provider wants back unchanged.
    pub extra: Option<RawJson>,
}

/// The results of all calls of an answer, and what the person wrote in the meantime.
#[derive(Clone, Debug, Default)]
pub struct ResultBatch {
    pub results: Vec<CallResult>,
    /// Content of the user that follows the results; never part of a tool's output.
    pub steering: Vec<Content>,
}

#[derive(Clone, Debug)]
pub struct CallResult {
    /// The id of the call.
    pub id: Arc<str>,
    /// The name of the tool.
    pub name: Arc<str>,
    pub ok: bool,
    pub content: Vec<Content>,
}
