//! The conversation that asks for a summary: everything as it was sent before, so that it hits the
//! provider's cache, plus one more message. If that is too long, the oldest tool results are
//! digested, and then the oldest messages are dropped.

use std::sync::Arc;

use angelia_core::model::Content;

use super::{
    digest::{can_be_digested, digest_results},
    size::messages_tokens,
};
use crate::native::provider::{
    AssistantMessage, AssistantPart, CallResult, Conversation, Message, ResultBatch,
};

const REFUSED_CALL: &str = "not run: no tool may be called while a summary is written";
const TEXT_ONLY: &str = "Do not call any tool. Write the summary now, as text.";

/// Each step of shortening leaves at most three quarters.
const SHARE_LEFT: (u64, u64) = (3, 4);

#[derive(Clone, Debug)]
pub struct SummaryRequest(Conversation);

impl SummaryRequest {
    /// `summary_tokens`: about how long the summary may be.
    pub fn new(conversation: &Conversation, summary_tokens: u64) -> Self {
        let mut conversation = conversation.clone();
        // An unanswered message is kept as it is, so the summary does not have to cover it.
        if conversation.messages.len() > 1
            && matches!(conversation.messages.last(), Some(Message::User(_)))
        {
            conversation.messages.pop();
        }
        let instruction = instruction(summary_tokens);
        conversation.messages.push(Message::User(vec![Content::text(instruction)]));
        Self(conversation)
    }

    pub fn conversation(&self) -> &Conversation {
        &self.0
    }

    /// Refuses the calls that the model made instead of writing the summary, and asks again.
    pub fn refuse_calls(&mut self, answer: AssistantMessage) {
        let calls = answer.parts.iter().filter_map(|part| match part {
            AssistantPart::Call(call) => Some(CallResult {
                id: Arc::clone(&call.id),
                name: Arc::clone(&call.name),
                ok: false,
                content: vec![Content::text(REFUSED_CALL)],
            }),
            AssistantPart::Text(_) | AssistantPart::Reasoning(_) => None,
        });
        let results: Vec<_> = calls.collect();
        let steering = vec![Content::text(TEXT_ONLY)];
        self.0.messages.push(Message::Assistant(answer));
        self.0.messages.push(Message::Results(ResultBatch { results, steering }));
    }

    /// Shortens the request. Returns `false` if there is nothing left to leave out.
    pub fn shorten(&mut self) -> bool {
        let (share, of) = SHARE_LEFT;
        let before = messages_tokens(&self.0.messages);
        let wanted = before * share / of;
        let has_digested = self.digest_oldest(wanted);
        let has_dropped = self.drop_oldest(wanted);
        (has_digested || has_dropped) && self.0.messages.len() > 1
    }

    fn digest_oldest(&mut self, wanted: u64) -> bool {
        let mut has_changed = false;
        let mut total = messages_tokens(&self.0.messages);
        for message in &mut self.0.messages {
            let Message::Results(batch) = message else { continue };
            if total <= wanted || !can_be_digested(batch) {
                continue;
            }
            let digest = Message::Results(digest_results(batch));
            let before = messages_tokens(std::slice::from_ref(message));
            total = total.saturating_sub(before) + messages_tokens(std::slice::from_ref(&digest));
            *message = digest;
            has_changed = true;
        }
        has_changed
    }

    /// Drops the oldest messages, but never the last one.
    fn drop_oldest(&mut self, wanted: u64) -> bool {
        let messages = &mut self.0.messages;
        let mut total = messages_tokens(messages);
        let mut dropped = 0;
        while total > wanted && dropped + 2 < messages.len() {
            total = total.saturating_sub(messages_tokens(&messages[dropped..=dropped]));
            dropped += 1;
            // Results are useless without their calls.
            while dropped + 1 < messages.len() && matches!(messages[dropped], Message::Results(_)) {
                total = total.saturating_sub(messages_tokens(&messages[dropped..=dropped]));
                dropped += 1;
            }
        }
        messages.drain(..dropped);
        dropped > 0
    }
}

fn instruction(summary_tokens: u64) -> String {
    let words = summary_tokens * 3 / 4;
    format!(
        "The conversation gets too long for your context window. Write a summary that replaces \
         everything above, so that you can go on from it alone. Do not call any tool, do not answer \
         the conversation, and write nothing but the summary, in at most {words} words, in the \
         language of the conversation, with these sections, each only if there is something in it:\n\
         1. Task: what the person wants, in their own words where they matter, and their constraints.\n\
         2. Done: what was done so far and what came of it; files that were read, made or changed, with \
         their paths; commands and results that still matter.\n\
         3. State: where the work stands, what is blocked, and errors that are not solved.\n\
         4. Decisions: what was decided and why.\n\
         5. Next: open questions, and the next steps.\n\
         Keep names, paths, numbers and identifiers exactly. If the conversation already begins with a \
         summary, carry over what still matters from it."
    )
}
