//! The conversation of a session, built from its events. The loop applies its own events as it
//! emits them, and a resumed session applies the recorded ones. The same code builds the same
//! conversation, so a request after a restart begins with the same bytes.
//!
//! As with every executor, texts are in blocks and outputs in tool results. Events of our own hold
//! the rest: how an answer is composed and what its provider wants back, user content that is not a
//! turn's input, results that are not only text, and compactions.

use std::sync::Arc;

use angelia_core::{
    model::{
        BlockId, Content, EventKind, HistoryMessage, MessagePart, RawJson, Role, TextChannel,
        ToolId, ToolResult,
    },
    ports::RecordedTurn,
};
use base64::Engine as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    compaction::{
        record::{COMPACTION, read_compaction},
        shortened::Compaction,
    },
    provider::{
        Api, AssistantMessage, AssistantPart, CallResult, Conversation, Issuer, Message, ModelCall,
        Reasoning, ReasoningSeal, ResultBatch,
    },
};

const ANSWER: &str = "native/answer";
const USER: &str = "native/user";
const RESULT: &str = "native/result";

const BASE64: base64::engine::GeneralPurpose = base64::engine::general_purpose::STANDARD;

/// A conversation that grows by events.
#[derive(Debug, Default)]
pub struct ConversationLog {
    conversation: Conversation,
    /// The index of the running turn's input; `None` if the turn has none, or a summary has
    /// replaced it.
    turn_start: Option<usize>,
    /// The number of messages before the summary of the last compaction; `None` if there is no
    /// summary.
    compacted_head: Option<usize>,
    /// Complete blocks that do not belong to an answer yet.
    blocks: Vec<TextBlock>,
    /// The content of the next result, if it is not only text.
    content: Option<(ToolId, Vec<Content>)>,
}

#[derive(Debug)]
struct TextBlock {
    id: BlockId,
    channel: TextChannel,
    text: Arc<str>,
}

impl ConversationLog {
    /// Creates a conversation that begins with a history from elsewhere.
    pub fn new(system: Arc<str>, history: &[HistoryMessage]) -> Self {
        let mut log = Self::default();
        log.conversation.system = system;
        for message in history {
            log.push_history(message);
        }
        log
    }

    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Replaces the system prompt, with which every request begins.
    pub fn set_system(&mut self, system: Arc<str>) {
        self.conversation.system = system;
        self.conversation.revision += 1;
    }

    /// Adds a recorded turn.
    pub fn replay(&mut self, turn: &RecordedTurn) {
        self.begin_turn(turn.input.clone());
        for event in &turn.events {
            self.apply(event);
        }
        self.end_turn();
    }

    /// Returns whether the conversation contains an image.
    pub fn has_images(&self) -> bool {
        let mut contents = self.conversation.messages.iter().flat_map(Message::contents);
        contents.any(|part| matches!(part, Content::Image { .. }))
    }

    /// Changes the content of user messages and tool results, as the model sees it.
    pub fn change_content(&mut self, change: impl FnMut(&mut Content)) {
        let messages = self.conversation.messages.iter_mut();
        messages.flat_map(Message::contents_mut).for_each(change);
        self.conversation.revision += 1;
    }

    /// Returns whether there are blocks that do not belong to an answer yet.
    pub fn has_loose_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Returns the number of messages before the summary of the last compaction; `None` if there is
    /// no summary.
    pub const fn compacted_head(&self) -> Option<usize> {
        self.compacted_head
    }

    /// Begins a turn. A turn that compacts has no input.
    pub fn begin_turn(&mut self, input: Vec<Content>) {
        self.turn_start = (!input.is_empty()).then_some(self.conversation.messages.len());
        if !input.is_empty() {
            self.conversation.messages.push(Message::User(input));
        }
    }

    /// Ends a turn. Keeps the text that was shown of an unfinished answer. Removes the input of a
    /// turn without an answer, because there is nothing to continue from.
    pub fn end_turn(&mut self) {
        let shown = std::mem::take(&mut self.blocks).into_iter();
        let shown = shown.filter(|block| block.channel == TextChannel::Answer);
        let parts: Vec<_> = shown.map(|block| AssistantPart::Text(block.text)).collect();
        if !parts.is_empty() {
            self.push_assistant(parts);
        }
        self.content = None;
        let count = self.conversation.messages.len();
        if self.turn_start.take().is_some_and(|start| start + 1 == count) {
            self.conversation.messages.pop();
        }
    }

    pub fn apply(&mut self, event: &EventKind) {
        match event {
            EventKind::Block { block, channel, text } => {
                self.blocks.retain(|known| known.id != *block);
                if !text.is_empty() {
                    let (id, channel, text) = (*block, *channel, Arc::clone(text));
                    self.blocks.push(TextBlock { id, channel, text });
                }
            }
            EventKind::Native { name, raw } => self.apply_native(name, raw.get()),
            EventKind::ToolResult(result) => self.push_result(result),
            _ => {}
        }
    }

    fn apply_native(&mut self, name: &str, raw: &str) {
        // If a later version wrote a record that cannot be read here, only this message is lost,
        // not the conversation.
        match name {
            ANSWER => {
                if let Ok(record) = serde_json::from_str(raw) {
                    self.push_answer(record);
                }
            }
            USER => {
                if let Ok(record) = serde_json::from_str::<Vec<ContentRecord>>(raw) {
                    self.push_user(record.into_iter().filter_map(ContentRecord::content).collect());
                }
            }
            RESULT => {
                if let Ok(ResultRecord { id, content }) = serde_json::from_str(raw) {
                    let content = content.into_iter().filter_map(ContentRecord::content).collect();
                    self.content = Some((ToolId::new(id), content));
                }
            }
            COMPACTION => {
                if let Some(compaction) = read_compaction(raw) {
                    self.compact(&compaction);
                }
            }
            _ => {}
        }
    }

    /// Replaces the messages with those that the compaction leaves.
    fn compact(&mut self, compaction: &Compaction) {
        let before = &self.conversation.messages;
        let Some(left) = compaction.shorten(before) else { return };
        self.turn_start = self.turn_start.and_then(|start| compaction.place_of(start, before));
        self.conversation.messages = left;
        self.conversation.revision += 1;
        if !compaction.plan.only_trims() {
            self.compacted_head = Some(compaction.plan.head);
        }
    }

    fn push_answer(&mut self, record: AnswerRecord) {
        let AnswerRecord { provider, api, model, parts } = record;
        let Some(api) = Api::ALL.into_iter().find(|known| known.as_str() == &*api) else { return };
        let parts = parts.into_iter().filter_map(|part| match part {
            PartRecord::Text => Some(AssistantPart::Text(self.take_block(TextChannel::Answer)?)),
            PartRecord::Reasoning { is_shown, seal } => {
                let block = is_shown.then(|| self.take_block(TextChannel::Reasoning));
                let text = block.flatten().unwrap_or_default();
                Some(AssistantPart::Reasoning(Reasoning { text, seal: seal.into() }))
            }
            PartRecord::Call { id, name, arguments, extra } => {
                Some(AssistantPart::Call(ModelCall { id, name, arguments, extra }))
            }
        });
        let parts: Vec<_> = parts.collect();
        // The remaining blocks belong to this answer too, but are not sent back: they are reasoning
        // of an answer that broke off.
        self.blocks.clear();
        if !parts.is_empty() {
            let issuer = Issuer { provider, api, model };
            self.conversation.messages.push(Message::Assistant(AssistantMessage { issuer, parts }));
        }
    }

    /// Takes the first block of a channel. An answer refers to its blocks by their order, not by
    /// their ids, because the engine numbers blocks across all segments of a turn.
    fn take_block(&mut self, channel: TextChannel) -> Option<Arc<str>> {
        let place = self.blocks.iter().position(|block| block.channel == channel)?;
        Some(self.blocks.remove(place).text)
    }

    /// Adds assistant output that is not known to be an answer of any provider.
    fn push_assistant(&mut self, parts: Vec<AssistantPart>) {
        let issuer = Issuer::nobody();
        self.conversation.messages.push(Message::Assistant(AssistantMessage { issuer, parts }));
    }

    fn push_user(&mut self, content: Vec<Content>) {
        match self.conversation.messages.last_mut() {
            Some(Message::Results(batch)) => batch.steering.extend(content),
            _ => self.conversation.messages.push(Message::User(content)),
        }
    }

    fn push_result(&mut self, result: &ToolResult) {
        let id: Arc<str> = result.id.as_str().into();
        let name = self.call_name(&id);
        let content = match self.content.take() {
            Some((of, content)) if of == result.id => content,
            _ => vec![Content::Text(Arc::clone(&result.output))],
        };
        self.push_call_result(CallResult { id, name, ok: result.ok, content });
    }

    fn push_call_result(&mut self, result: CallResult) {
        if let Some(Message::Results(batch)) = self.conversation.messages.last_mut() {
            batch.results.push(result);
        } else {
            let batch = ResultBatch { results: vec![result], steering: Vec::new() };
            self.conversation.messages.push(Message::Results(batch));
        }
    }

    /// Returns the name of the tool that the last answer called with this id.
    fn call_name(&self, id: &str) -> Arc<str> {
        let answers = self.conversation.messages.iter().rev();
        let mut parts = answers.filter_map(|message| match message {
            Message::Assistant(answer) => Some(&answer.parts),
            _ => None,
        });
        let call = parts.next().into_iter().flatten().find_map(|part| match part {
            AssistantPart::Call(call) if *call.id == *id => Some(Arc::clone(&call.name)),
            _ => None,
        });
        call.unwrap_or_default()
    }

    fn push_history(&mut self, message: &HistoryMessage) {
        match message.role {
            Role::Assistant => {
                let parts = message.parts.iter().filter_map(|part| match part {
                    MessagePart::Content(Content::Text(text)) => {
                        Some(AssistantPart::Text(Arc::clone(text)))
                    }
                    MessagePart::ToolUse { id, name, input } => {
                        Some(AssistantPart::Call(ModelCall {
                            id: id.as_str().into(),
                            name: Arc::clone(name),
                            arguments: input.clone(),
                            extra: None,
                        }))
                    }
                    // Another model's reasoning is never sent to this one.
                    MessagePart::Thinking { .. }
                    | MessagePart::Content(Content::Image { .. })
                    | MessagePart::ToolResult { .. } => None,
                });
                let parts = parts.collect();
                self.push_assistant(parts);
            }
            Role::User => {
                let mut content = Vec::new();
                for part in &message.parts {
                    match part {
                        MessagePart::Content(one) => content.push(one.clone()),
                        MessagePart::ToolResult { id, ok, content } => {
                            let id: Arc<str> = id.as_str().into();
                            let (name, content) = (self.call_name(&id), content.clone());
                            self.push_call_result(CallResult { id, name, ok: *ok, content });
                        }
                        MessagePart::Thinking { .. } | MessagePart::ToolUse { .. } => {}
                    }
                }
                if !content.is_empty() {
                    self.push_user(content);
                }
            }
        }
    }
}

/// One part of an answer. Its text is the next block of its channel.
#[derive(Clone, Debug)]
pub(super) enum RecordedPart {
    Text,
    Reasoning { is_shown: bool, seal: ReasoningSeal },
    Call(ModelCall),
}

/// Returns the event that combines the blocks and calls of an answer. Without parts, it discards
/// the blocks of an answer that is requested again.
pub(super) fn answer_event(issuer: &Issuer, parts: &[RecordedPart]) -> EventKind {
    let parts = parts.iter().map(|part| match part {
        RecordedPart::Text => PartRecord::Text,
        RecordedPart::Reasoning { is_shown, seal } => {
            PartRecord::Reasoning { is_shown: *is_shown, seal: seal.clone().into() }
        }
        RecordedPart::Call(ModelCall { id, name, arguments, extra }) => PartRecord::Call {
            id: Arc::clone(id),
            name: Arc::clone(name),
            arguments: arguments.clone(),
            extra: extra.clone(),
        },
    });
    let record = AnswerRecord {
        provider: Arc::clone(&issuer.provider),
        api: issuer.api.as_str().into(),
        model: Arc::clone(&issuer.model),
        parts: parts.collect(),
    };
    native_event(ANSWER, &record)
}

/// Returns the event for content of the user that is not the input of a turn.
pub(super) fn user_event(content: &[Content]) -> EventKind {
    let record: Vec<_> = content.iter().map(ContentRecord::of).collect();
    native_event(USER, &record)
}

/// Returns the events for the result of a call.
pub(super) fn result_events(id: &ToolId, ok: bool, content: &[Content]) -> Vec<EventKind> {
    let texts = content.iter().map(|part| match part {
        Content::Text(text) => Arc::clone(text),
        Content::Image { media_type, data } => {
            format!("[image: {media_type}, {} bytes]", data.len()).into()
        }
    });
    let texts: Vec<Arc<str>> = texts.collect();
    let mut events = Vec::new();
    let output = if let ([text], [Content::Text(_)]) = (&*texts, content) {
        Arc::clone(text)
    } else {
        let content = content.iter().map(ContentRecord::of).collect();
        events.push(native_event(RESULT, &ResultRecord { id: id.as_str().into(), content }));
        texts.join("\n").into()
    };
    events.push(EventKind::ToolResult(ToolResult::new(id.clone(), ok, output)));
    events
}

/// Wraps a record in an event of our own.
pub(super) fn native_event(name: &str, record: &impl Serialize) -> EventKind {
    let raw = serde_json::value::to_raw_value(record).unwrap_or_else(|_| RawValue::NULL.to_owned());
    EventKind::Native { name: name.into(), raw: raw.into() }
}

#[derive(Serialize, Deserialize)]
struct AnswerRecord {
    provider: Arc<str>,
    api: Arc<str>,
    model: Arc<str>,
    parts: Vec<PartRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartRecord {
    Text,
    Reasoning {
        #[serde(rename = "shown")]
        is_shown: bool,
        seal: SealRecord,
    },
    Call {
        id: Arc<str>,
        name: Arc<str>,
        arguments: RawJson,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<RawJson>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SealRecord {
    Plain,
    Signature(Arc<str>),
    Redacted(Arc<str>),
    Encrypted { summary: RawJson, content: Arc<str> },
    Details(RawJson),
}

impl From<ReasoningSeal> for SealRecord {
    fn from(seal: ReasoningSeal) -> Self {
        match seal {
            ReasoningSeal::Plain => Self::Plain,
            ReasoningSeal::Signature(text) => Self::Signature(text),
            ReasoningSeal::Redacted(data) => Self::Redacted(data),
            ReasoningSeal::Encrypted { summary, content } => Self::Encrypted { summary, content },
            ReasoningSeal::Details(details) => Self::Details(details),
        }
    }
}

impl From<SealRecord> for ReasoningSeal {
    fn from(seal: SealRecord) -> Self {
        match seal {
            SealRecord::Plain => Self::Plain,
            SealRecord::Signature(text) => Self::Signature(text),
            SealRecord::Redacted(data) => Self::Redacted(data),
            SealRecord::Encrypted { summary, content } => Self::Encrypted { summary, content },
            SealRecord::Details(details) => Self::Details(details),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct ResultRecord {
    id: String,
    content: Vec<ContentRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ContentRecord {
    Text(Arc<str>),
    Image { media_type: Arc<str>, base64: String },
}

impl ContentRecord {
    fn of(content: &Content) -> Self {
        match content {
            Content::Text(text) => Self::Text(Arc::clone(text)),
            Content::Image { media_type, data } => {
                Self::Image { media_type: Arc::clone(media_type), base64: BASE64.encode(data) }
            }
        }
    }

    fn content(self) -> Option<Content> {
        match self {
            Self::Text(text) => Some(Content::Text(text)),
            Self::Image { media_type, base64 } => {
                let data = BASE64.decode(base64).ok()?.into();
                Some(Content::Image { media_type, data })
            }
        }
    }
}
