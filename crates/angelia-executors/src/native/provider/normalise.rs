//! Makes any conversation acceptable to an API, before every request. Nothing that a model, a tool,
//! an interrupt or another provider left in the history may make a request fail.
//!
//! Afterwards:
//! - the first message is the user's, and no message is empty;
//! - each call has exactly one result, right after its answer and in the order of the calls;
//! - call ids are valid, not too long, and unique;
//! - there are images only if the model accepts them, and reasoning only if it is the model's own.
//!
//! How a message is normalised depends on the message and on earlier ones, never on later ones, so
//! that a longer conversation begins with the same bytes.

use std::{collections::HashSet, sync::Arc};

use angelia_core::model::Content;
use sha2::{Digest as _, Sha256};

use super::{AssistantMessage, AssistantPart, CallResult, Issuer, Message, ModelCall, ResultBatch};

const NO_BEGINNING: &str = "(The beginning of this conversation is not available.)";
const NO_RESULT: &str = "The tool was not run: the turn ended before.";
const NO_OUTPUT: &str = "(no output)";

/// The model that a request is prepared for, and what it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireTarget {
    pub issuer: Issuer,
    /// The model accepts images.
    pub images: bool,
    /// The model accepts its own reasoning.
    pub reasoning: bool,
    /// Two user messages in a row are refused.
    pub merge_user_turns: bool,
}

pub fn normalise(messages: &[Message], target: &WireTarget) -> Vec<Message> {
    let mut normaliser = Normaliser::new(target.clone());
    for message in messages {
        normaliser.push(message);
    }
    normaliser.finish()
}

/// A call without a result so far.
#[derive(Clone, Debug)]
struct OpenCall {
    /// The id in the history.
    id: Arc<str>,
    wire_id: Arc<str>,
    name: Arc<str>,
}

/// Normalises a conversation message by message.
#[derive(Clone, Debug)]
pub(super) struct Normaliser {
    target: WireTarget,
    ids: CallIds,
    open_calls: Vec<OpenCall>,
    out: Vec<Message>,
}

impl Normaliser {
    pub(super) fn new(target: WireTarget) -> Self {
        let ids = CallIds { limit: target.issuer.api.max_call_id_chars(), used: HashSet::new() };
        Self { target, ids, open_calls: Vec::new(), out: Vec::new() }
    }

    pub(super) const fn target(&self) -> &WireTarget {
        &self.target
    }

    pub(super) fn push(&mut self, message: &Message) {
        match message {
            Message::User(content) => {
                self.close_calls();
                self.push_user(content);
            }
            Message::Assistant(answer) => {
                self.close_calls();
                self.push_assistant(answer);
            }
            Message::Results(batch) => self.push_results(batch),
        }
    }

    /// Takes the messages that later ones cannot change: all but the last, which may be merged with
    /// the next.
    pub(super) fn take_final(&mut self) -> Vec<Message> {
        let last = self.out.pop();
        std::mem::replace(&mut self.out, last.into_iter().collect())
    }

    /// Ends the conversation, and returns the messages that were not taken yet.
    pub(super) fn finish(mut self) -> Vec<Message> {
        self.close_calls();
        self.out
    }

    fn push_user(&mut self, content: &[Content]) {
        let content = self.clean(content);
        if content.is_empty() {
            return;
        }
        match self.out.last_mut() {
            Some(Message::User(last)) if self.target.merge_user_turns => last.extend(content),
            Some(Message::Results(last)) if self.target.merge_user_turns => {
                last.steering.extend(content);
            }
            _ => self.out.push(Message::User(content)),
        }
    }

    fn push_assistant(&mut self, answer: &AssistantMessage) {
        let own = self.target.reasoning && answer.issuer == self.target.issuer;
        let mut parts = Vec::with_capacity(answer.parts.len());
        for part in &answer.parts {
            match part {
                AssistantPart::Text(text) if text.trim().is_empty() => {}
                AssistantPart::Reasoning(_) if !own => {}
                AssistantPart::Call(call) => parts.push(AssistantPart::Call(self.open(call, own))),
                kept => parts.push(kept.clone()),
            }
        }
        // Reasoning alone is not an answer; no API accepts it back.
        if parts.iter().all(|part| matches!(part, AssistantPart::Reasoning(_))) {
            return;
        }
        if self.out.is_empty() {
            self.out.push(Message::User(vec![Content::text(NO_BEGINNING)]));
        }
        self.out
            .push(Message::Assistant(AssistantMessage { issuer: answer.issuer.clone(), parts }));
    }

    fn open(&mut self, call: &ModelCall, own: bool) -> ModelCall {
        let wire_id = self.ids.wire_id(&call.id);
        self.open_calls.push(OpenCall {
            id: Arc::clone(&call.id),
            wire_id: Arc::clone(&wire_id),
            name: Arc::clone(&call.name),
        });
        let extra = call.extra.clone().filter(|_| own);
        ModelCall { id: wire_id, extra, ..call.clone() }
    }

    fn push_results(&mut self, batch: &ResultBatch) {
        if self.open_calls.is_empty() {
            return self.push_user(&batch.steering);
        }
        let mut given: Vec<_> = batch.results.iter().collect();
        let calls = std::mem::take(&mut self.open_calls);
        let results = calls.into_iter().map(|call| {
            let found = given.iter().position(|result| result.id == call.id);
            match found.map(|place| given.remove(place)) {
                Some(result) => CallResult {
                    id: call.wire_id,
                    name: call.name,
                    ok: result.ok,
                    content: or_note(self.clean(&result.content), NO_OUTPUT),
                },
                None => missing_result(call),
            }
        });
        let results = results.collect();
        let steering = self.clean(&batch.steering);
        self.out.push(Message::Results(ResultBatch { results, steering }));
    }

    /// Adds results to open calls, which say that the tools were not run.
    fn close_calls(&mut self) {
        if !self.open_calls.is_empty() {
            self.push_results(&ResultBatch::default());
        }
    }

    /// Removes empty texts, and replaces images that the model does not accept with a note.
    fn clean(&self, content: &[Content]) -> Vec<Content> {
        let kept = content.iter().filter_map(|part| match part {
            Content::Text(text) if text.trim().is_empty() => None,
            Content::Image { media_type, data } if !self.target.images => {
                let note = format!(
                    "[an image ({media_type}, {} bytes) is not shown: this model takes no images]",
                    data.len()
                );
                Some(Content::text(note))
            }
            kept => Some(kept.clone()),
        });
        kept.collect()
    }
}

fn or_note(content: Vec<Content>, note: &str) -> Vec<Content> {
    if content.is_empty() { vec![Content::text(note)] } else { content }
}

fn missing_result(call: OpenCall) -> CallResult {
    let content = vec![Content::text(NO_RESULT)];
    CallResult { id: call.wire_id, name: call.name, ok: false, content }
}

/// Gives each call an id that the API accepts. The ids depend only on earlier ones, so the same
/// conversation always gets the same ids.
#[derive(Clone, Debug)]
struct CallIds {
    limit: usize,
    used: HashSet<Arc<str>>,
}

impl CallIds {
    fn wire_id(&mut self, id: &Arc<str>) -> Arc<str> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_legal = !id.is_empty() && id.len() <= self.limit && id.bytes().all(legal);
        if is_legal && self.used.insert(Arc::clone(id)) {
            return Arc::clone(id);
        }
        let mut repetition = 0_u64;
        loop {
            let hash = format!("{:x}", Sha256::digest(format!("{repetition}\0{id}")));
            let made: Arc<str> = format!("call_{}", &hash[..24]).into();
            if self.used.insert(Arc::clone(&made)) {
                return made;
            }
            repetition += 1;
        }
    }
}
