//! The conversation of a request, split into its history and the new messages.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Content, HistoryMessage, MessagePart, Role, ToolId};

use super::{InvalidRequest, ModelRequest, RequestHints, content::is_blank};
use crate::http::dialect::matching::{ConversationHasher, HashBytes};

#[derive(Clone, Debug)]
pub(in crate::http) struct RequestConversation {
    /// All messages up to the last answer.
    pub(in crate::http) history: Vec<HistoryMessage>,
    /// All messages after the last answer.
    pub(in crate::http) new_messages: Vec<HistoryMessage>,
    /// The hash of the whole conversation. Equal requests of one caller have equal hashes.
    pub(in crate::http) fingerprint: HashBytes,
    /// The hash for looking up the session of this conversation, or `None` for an empty history.
    pub(in crate::http) lookup_hash: Option<HashBytes>,
    /// The hash of the whole conversation in each of its scopes.
    full_hashes: Vec<ConversationHasher>,
}

/// The result of one of the caller's tools.
#[derive(Clone, Debug)]
pub(in crate::http) struct ToolOutput {
    pub(in crate::http) id: ToolId,
    pub(in crate::http) ok: bool,
    pub(in crate::http) content: Vec<Content>,
}

impl RequestConversation {
    pub(super) fn new(body: &ModelRequest, caller: &str, hints: &RequestHints) -> Self {
        let messages = &body.messages;
        let last_answer = messages.iter().rposition(|message| message.role == Role::Assistant);
        let (history, new_messages) = messages.split_at(last_answer.map_or(0, |at| at + 1));
        let hash = |scope: &str| {
            let before = ConversationHasher::from_messages(scope, history);
            let lookup_hash = (!before.is_empty()).then(|| before.hash());
            let mut after = before;
            for message in new_messages {
                after.push(message);
            }
            (lookup_hash, after)
        };
        let (mut lookup_hash, full_hash) = hash(caller);
        let fingerprint = full_hash.hash();
        let mut full_hashes = vec![full_hash];
        if let Some(name) = &hints.conversation_name {
            // The client's name for the conversation narrows the search. A caller's name has no
            // line break, so the scope is unambiguous.
            let (narrowed, full_hash) = hash(&format!("{caller}\n{name}"));
            lookup_hash = narrowed;
            full_hashes.push(full_hash);
        }
        Self {
            history: history.to_vec(),
            new_messages: new_messages.to_vec(),
            fingerprint,
            lookup_hash,
            full_hashes,
        }
    }

    /// Returns the hashes by which the conversation can be found once it includes this answer.
    pub(in crate::http) fn hashes_with_answer(
        &self,
        answer: &HistoryMessage,
    ) -> impl Iterator<Item = HashBytes> {
        self.full_hashes.iter().map(|hasher| {
            let mut hasher = hasher.clone();
            hasher.push(answer);
            hasher.hash()
        })
    }

    /// Returns the ids of the tool calls in the last answer.
    pub(in crate::http) fn calls(&self) -> Vec<&ToolId> {
        let last = self.history.last().into_iter();
        last.flat_map(|message| &message.parts)
            .filter_map(|part| match part {
                MessagePart::ToolUse { id, .. } => Some(id),
                MessagePart::Content(_)
                | MessagePart::Thinking { .. }
                | MessagePart::ToolResult { .. } => None,
            })
            .collect()
    }

    /// Returns the results of the caller's tools. Other text is appended to the last result.
    pub(in crate::http) fn results(&self) -> Vec<ToolOutput> {
        let mut results: Vec<ToolOutput> = Vec::new();
        let mut beside = Vec::new();
        for part in self.new_messages.iter().flat_map(|message| &message.parts) {
            match part {
                MessagePart::ToolResult { id, ok, content } => {
                    results.push(ToolOutput { id: id.clone(), ok: *ok, content: content.clone() });
                }
                MessagePart::Content(content) if !is_blank(content) => {
                    beside.push(content.clone());
                }
                MessagePart::Content(_)
                | MessagePart::Thinking { .. }
                | MessagePart::ToolUse { .. } => {}
            }
        }
        if let Some(last) = results.last_mut() {
            last.content.append(&mut beside);
        }
        results
    }

    /// Returns the input of a new turn: the new content without tool results.
    pub(in crate::http) fn input(&self) -> Vec<Content> {
        let parts = self.new_messages.iter().flat_map(|message| &message.parts);
        parts
            .filter_map(|part| match part {
                MessagePart::Content(content) if !is_blank(content) => Some(content.clone()),
                _ => None,
            })
            .collect()
    }

    /// Refuses a request that has nothing to answer.
    pub(super) fn check(&self) -> Result<(), InvalidRequest> {
        let continues_answer = self.new_messages.is_empty() && !self.history.is_empty();
        if continues_answer || !self.input().is_empty() || !self.results().is_empty() {
            return Ok(());
        }
        Err(InvalidRequest::new("there is nothing to answer: the last message is empty"))
    }

    pub(super) fn has_images(&self) -> bool {
        let messages = self.history.iter().chain(&self.new_messages);
        let mut parts = messages.flat_map(|message| &message.parts);
        parts.any(|part| match part {
            MessagePart::Content(content) => is_image(content),
            MessagePart::ToolResult { content, .. } => content.iter().any(is_image),
            MessagePart::Thinking { .. } | MessagePart::ToolUse { .. } => false,
        })
    }
}

const fn is_image(content: &Content) -> bool {
    matches!(content, Content::Image { .. })
}

/// Renders a conversation as text, for agents that do not accept one with real roles.
pub(in crate::http) fn render_history(history: &[HistoryMessage]) -> Arc<str> {
    let mut text = String::from("[The conversation so far]\n");
    for message in history {
        let speaker = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
        };
        for part in &message.parts {
            let line = match part {
                MessagePart::Content(Content::Text(text)) => text.to_string(),
                MessagePart::Content(Content::Image { .. }) => "[an image]".to_owned(),
                MessagePart::Thinking { .. } => continue,
                MessagePart::ToolUse { name, input, .. } => format!("[calls {name} with {input}]"),
                MessagePart::ToolResult { content, .. } => {
                    let texts = content.iter().filter_map(|content| match content {
                        Content::Text(text) => Some(&**text),
                        Content::Image { .. } => None,
                    });
                    let texts: Vec<&str> = texts.collect();
                    format!("[the tool answered: {}]", texts.join("\n"))
                }
            };
            let _infallible = write!(text, "\n{speaker}: {line}\n");
        }
    }
    text.push_str("\n[End of the conversation so far]\n\n");
    text.into()
}
