//! A request's conversation: what was said before, and what is new.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Content, Message, Part, Role, ToolId};

use super::{
    Ask, Refused,
    canonical::{Chain, Hash},
    marks::Marks,
};

/// The conversation of a request.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    /// Everything up to the last answer.
    pub(super) history: Vec<Message>,
    /// What came after it.
    pub(super) fresh: Vec<Message>,
    /// Of the history.
    pub(super) before: Chain,
    /// Of all of it.
    pub(super) after: Chain,
    /// The same under the name that the client has given to the conversation.
    narrowed: Option<(Chain, Chain)>,
}

/// A result of one of the caller's tools.
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
            // No caller's name has a line break.
            narrowed: narrowed.map(|name| chains(&format!("{caller}\n{name}"))),
        }
    }

    /// Under which hash the session of this conversation is looked for.
    pub(super) fn sought(&self) -> Option<Hash> {
        let (before, _) =
            self.narrowed.as_ref().map_or((&self.before, &self.after), |(a, b)| (a, b));
        (!before.is_empty()).then(|| before.hash())
    }

    /// Under which hashes it will be found after this answer.
    pub(super) fn found_by(&self, answer: &Message) -> impl Iterator<Item = Hash> {
        let chains = [Some(&self.after), self.narrowed.as_ref().map(|(_, after)| after)];
        chains.into_iter().flatten().map(|chain| {
            let mut chain = chain.clone();
            chain.push(answer);
            chain.hash()
        })
    }

    /// What is asked, as one hash: an equal request of the same caller has the same.
    pub(super) fn fingerprint(&self) -> Hash {
        self.after.hash()
    }

    /// The calls of the last answer.
    pub(super) fn calls(&self) -> Vec<&ToolId> {
        let last = self.history.last().into_iter();
        last.flat_map(|message| &message.parts)
            .filter_map(|part| match part {
                Part::ToolUse { id, .. } => Some(id),
                Part::Content(_) | Part::Thinking { .. } | Part::ToolResult { .. } => None,
            })
            .collect()
    }

    /// What the caller's tools have answered. Text beside the results travels inside the last.
    pub(super) fn results(&self) -> Vec<Given> {
        let mut results: Vec<Given> = Vec::new();
        let mut beside = Vec::new();
        for part in self.fresh.iter().flat_map(|message| &message.parts) {
            match part {
                Part::ToolResult { id, ok, content } => {
                    results.push(Given { id: id.clone(), ok: *ok, content: content.clone() })
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

    /// The input of a new turn: what is new, without results of tools.
    pub(super) fn input(&self) -> Vec<Content> {
        let parts = self.fresh.iter().flat_map(|message| &message.parts);
        parts
            .filter_map(|part| match part {
                Part::Content(content) if says_something(content) => Some(content.clone()),
                _ => None,
            })
            .collect()
    }

    /// Is there anything to answer?
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

/// A conversation as text, for agents that cannot be given one with true roles.
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
