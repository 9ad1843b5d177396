//! The conversation as a model sees it, in the form of no particular API.

use std::sync::Arc;

use angelia_core::model::{Content, RawJson};

use super::Api;

/// Everything that precedes the next answer.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// The system prompt; empty if there is none.
    pub system: Arc<str>,
    pub messages: Vec<Message>,
    /// Changes when messages are replaced; otherwise they only grow at their end.
    pub revision: u64,
}

#[derive(Clone, Debug)]
pub enum Message {
    User(Vec<Content>),
    Assistant(AssistantMessage),
    /// The results of the calls in the assistant's message before.
    Results(ResultBatch),
}

impl Message {
    /// Returns the words and images of the user and of the tools.
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
    /// Words that no provider has given as an answer.
    pub fn told(text: &str) -> Self {
        Self { issuer: Issuer::nobody(), parts: vec![AssistantPart::Text(text.into())] }
    }
}

impl Issuer {
    /// The issuer of words that are no provider's.
    pub fn nobody() -> Self {
        Self { provider: "".into(), api: Api::Chat, model: "".into() }
    }
}

/// The provider and the model that gave an answer. Reasoning goes back only to its issuer.
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

/// The thoughts of a model, with the seal that its provider wants back.
#[derive(Clone, Debug)]
pub struct Reasoning {
    /// As far as the provider shows it; may be empty.
    pub text: Arc<str>,
    pub seal: ReasoningSeal,
}

/// The proof with which a provider recognises its own reasoning.
#[derive(Clone, Debug)]
pub enum ReasoningSeal {
    /// None: the text is all there is.
    Plain,
    /// The signature of a block, which goes back with its text.
    Signature(Arc<str>),
    /// A block whose text the provider does not show.
    Redacted(Arc<str>),
    /// The content of an item, readable by the provider alone.
    Encrypted { summary: RawJson, content: Arc<str> },
    /// A list that goes back unchanged.
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

/// The results of all calls of one answer, and what the person said meanwhile.
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
