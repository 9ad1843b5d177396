//! The conversation of a request, split into its history and the new messages.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Content, Message, Part, Role, ToolId};

use super::{
    Ask, Refused,
    canonical::{Chain, Hash},
    marks::Marks,
};

#[derive(Clone, Debug)]
pub(super) struct Incoming {
    /// All messages up to the last answer.
    pub(super) history: Vec<Message>,
    /// All messages after the last answer.
    pub(super) fresh: Vec<Message>,
    /// The hash of the history.
    pub(super) before: Chain,
    /// The hash of the whole conversation.
    pub(super) after: Chain,
    /// Both hashes, scoped to the name that the client gave to the conversation.
    narrowed: Option<(Chain, Chain)>,
}

/// The result of one of the caller's tools.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) id: ToolId,
    pub(super) ok: bool,
    pub(super) content: Vec<Content>,
}

impl Incoming {
    pub(super) fn new(ask: &Ask, caller: &str, marks: &Marks) -> Self {
        let messages = &ask.messages;
        let last_answer = messages.iter().rposition(|message| message.role == Role::Assistant);
        let (history, fresh) = messages.split_at(last_answer.map_or(0, |at| at + 1));
        let chains = |caller: &str| {
            let before = Chain::of(caller, history);
            let mut after = before.clone();
            for message in fresh {
                after.push(message);
            }
            (before, after)
        };
        let (before, after) = chains(caller);
        let narrowed = marks.narrowed.as_ref();
        Self {
            history: history.to_vec(),
            fresh: fresh.to_vec(),
            before,
            after,
            // A caller's name has no line break, so the scope is unambiguous.
            narrowed: narrowed.map(|name| chains(&format!("{caller}\n{name}"))),
        }
    }

    /// Returns the hash under which the session of this conversation is looked up; `None` for an
    /// empty history.
    pub(super) fn sought(&self) -> Option<Hash> {
        let (before, _) =
            self.narrowed.as_ref().map_or((&self.before, &self.after), |(a, b)| (a, b));
        (!before.is_empty()).then(|| before.hash())
    }

    /// Returns the hashes under which the conversation is found once this answer is part of it.
    pub(super) fn found_by(&self, answer: &Message) -> impl Iterator<Item = Hash> {
        let chains = [Some(&self.after), self.narrowed.as_ref().map(|(_, after)| after)];
        chains.into_iter().flatten().map(|chain| {
            let mut chain = chain.clone();
            chain.push(answer);
            chain.hash()
        })
    }

    /// Returns the hash of the whole conversation: equal requests of one caller have equal hashes.
    pub(super) fn fingerprint(&self) -> Hash {
        self.after.hash()
    }

    /// Returns the ids of the tool calls in the last answer.
    pub(super) fn calls(&self) -> Vec<&ToolId> {
        let last = self.history.last().into_iter();
        last.flat_map(|message| &message.parts)
            .filter_map(|part| match part {
                Part::ToolUse { id, .. } => Some(id),
                Part::Content(_) | Part::Thinking { .. } | Part::ToolResult { .. } => None,
            })
            .collect()
    }

    /// Returns the results of the caller's tools. Text beside the results is appended to the last
    /// one.
    pub(super) fn results(&self) -> Vec<Given> {
        let mut results: Vec<Given> = Vec::new();
        let mut beside = Vec::new();
        for part in self.fresh.iter().flat_map(|message| &message.parts) {
            match part {
                Part::ToolResult { id, ok, content } => {
                    results.push(Given { id: id.clone(), ok: *ok, content: content.clone() });
                }
                Part::Content(content) if says_something(content) => beside.push(content.clone()),
                Part::Content(_) | Part::Thinking { .. } | Part::ToolUse { .. } => {}
            }
        }
        if let Some(last) = results.last_mut() {
            last.content.append(&mut beside);
        }
        results
    }

    /// Returns the input of a new turn: the new content without tool results.
    pub(super) fn input(&self) -> Vec<Content> {
        let parts = self.fresh.iter().flat_map(|message| &message.parts);
        parts
            .filter_map(|part| match part {
                Part::Content(content) if says_something(content) => Some(content.clone()),
                _ => None,
            })
            .collect()
    }

    /// Refuses a request that has nothing to answer.
    pub(super) fn check(&self) -> Result<(), Refused> {
        let answers = self.fresh.is_empty() && !self.history.is_empty();
        if answers || !self.input().is_empty() || !self.results().is_empty() {
            return Ok(());
        }
        Err(Refused::new("there is nothing to answer: the last message is empty"))
    }

    pub(super) fn has_images(&self) -> bool {
        let messages = self.history.iter().chain(&self.fresh);
        let mut parts = messages.flat_map(|message| &message.parts);
        parts.any(|part| match part {
            Part::Content(content) => is_image(content),
            Part::ToolResult { content, .. } => content.iter().any(is_image),
            Part::Thinking { .. } | Part::ToolUse { .. } => false,
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
pub(super) fn as_text(history: &[Message]) -> Arc<str> {
    let mut text = String::from("[The conversation so far]\n");
    for message in history {
        let who = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
        };
        for part in &message.parts {
            let said = match part {
                Part::Content(Content::Text(text)) => text.to_string(),
                Part::Content(Content::Image { .. }) => "[an image]".to_owned(),
                Part::Thinking { .. } => continue,
                Part::ToolUse { name, input, .. } => format!("[calls {name} with {input}]"),
                Part::ToolResult { content, .. } => {
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
