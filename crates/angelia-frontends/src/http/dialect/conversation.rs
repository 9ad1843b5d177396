//! The conversation of a request, split into its history and the new messages.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Content, HistoryMessage, MessagePart, Role, ToolId};

use super::{
    InvalidRequest, ModelRequest,
    conversation_hash::{ConversationHasher, HashBytes},
    request_hints::RequestHints,
};

#[derive(Clone, Debug)]
pub(super) struct RequestConversation {
    /// All messages up to the last answer.
    pub(super) history: Vec<HistoryMessage>,
    /// All messages after the last answer.
    pub(super) new_messages: Vec<HistoryMessage>,
    /// The hash of the history.
    pub(super) history_hash: ConversationHasher,
    /// The hash of the whole conversation.
    pub(super) full_hash: ConversationHasher,
    /// Both hashes, scoped to the name that the client gave to the conversation.
    scoped_hashes: Option<(ConversationHasher, ConversationHasher)>,
}

/// The result of one of the caller's tools.
#[derive(Clone, Debug)]
pub(super) struct ToolOutput {
    pub(super) id: ToolId,
    pub(super) ok: bool,
    pub(super) content: Vec<Content>,
}

impl RequestConversation {
    pub(super) fn new(ask: &ModelRequest, caller: &str, marks: &RequestHints) -> Self {
        let messages = &ask.messages;
        let last_answer = messages.iter().rposition(|message| message.role == Role::Assistant);
        let (history, fresh) = messages.split_at(last_answer.map_or(0, |at| at + 1));
        let chains = |caller: &str| {
            let before = ConversationHasher::from_messages(caller, history);
            let mut after = before.clone();
            for message in fresh {
                after.push(message);
            }
            (before, after)
        };
        let (before, after) = chains(caller);
        let narrowed = marks.conversation_name.as_ref();
        Self {
            history: history.to_vec(),
            new_messages: fresh.to_vec(),
            history_hash: before,
            full_hash: after,
            // A caller's name has no line break, so the scope is unambiguous.
            scoped_hashes: narrowed.map(|name| chains(&format!("{caller}\n{name}"))),
        }
    }

    /// Returns the hash under which the session of this conversation is looked up; `None` for an
    /// empty history.
    pub(super) fn lookup_hash(&self) -> Option<HashBytes> {
        let (before, _) = self
            .scoped_hashes
            .as_ref()
            .map_or((&self.history_hash, &self.full_hash), |(a, b)| (a, b));
        (!before.is_empty()).then(|| before.hash())
    }

    /// Returns the hashes under which the conversation is found once this answer is part of it.
    pub(super) fn hashes_with_answer(
        &self,
        answer: &HistoryMessage,
    ) -> impl Iterator<Item = HashBytes> {
        let chains = [Some(&self.full_hash), self.scoped_hashes.as_ref().map(|(_, after)| after)];
        chains.into_iter().flatten().map(|chain| {
            let mut chain = chain.clone();
            chain.push(answer);
            chain.hash()
        })
    }

    /// Returns the hash of the whole conversation: equal requests of one caller have equal hashes.
    pub(super) fn fingerprint(&self) -> HashBytes {
        self.full_hash.hash()
    }

    /// Returns the ids of the tool calls in the last answer.
    pub(super) fn calls(&self) -> Vec<&ToolId> {
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

    /// Returns the results of the caller's tools. Text beside the results is appended to the last
    /// one.
    pub(super) fn results(&self) -> Vec<ToolOutput> {
        let mut results: Vec<ToolOutput> = Vec::new();
        let mut beside = Vec::new();
        for part in self.new_messages.iter().flat_map(|message| &message.parts) {
            match part {
                MessagePart::ToolResult { id, ok, content } => {
                    results.push(ToolOutput { id: id.clone(), ok: *ok, content: content.clone() });
                }
                MessagePart::Content(content) if says_something(content) => {
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
    pub(super) fn input(&self) -> Vec<Content> {
        let parts = self.new_messages.iter().flat_map(|message| &message.parts);
        parts
            .filter_map(|part| match part {
                MessagePart::Content(content) if says_something(content) => Some(content.clone()),
                _ => None,
            })
            .collect()
    }

    /// Refuses a request that has nothing to answer.
    pub(super) fn check(&self) -> Result<(), InvalidRequest> {
        let answers = self.new_messages.is_empty() && !self.history.is_empty();
        if answers || !self.input().is_empty() || !self.results().is_empty() {
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

fn says_something(content: &Content) -> bool {
    match content {
        Content::Text(text) => !text.trim().is_empty(),
        Content::Image { .. } => true,
    }
}

const fn is_image(content: &Content) -> bool {
    matches!(content, Content::Image { .. })
}

/// Renders a conversation as text, for agents that cannot be given one with real roles.
pub(super) fn render_history(history: &[HistoryMessage]) -> Arc<str> {
    let mut text = String::from("[The conversation so far]\n");
    for message in history {
        let who = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
        };
        for part in &message.parts {
            let said = match part {
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
            let _infallible = write!(text, "\n{who}: {said}\n");
        }
    }
    text.push_str("\n[End of the conversation so far]\n\n");
    text.into()
}
