//! Encodes the requests of a growing conversation. Most of a request was already part of the
//! previous one, so each message is normalised and encoded only once, and a request consists of the
//! old bytes and the new ones.
//!
//! The result is the same as encoding the whole conversation: [`encode_request`] does so with an
//! empty history, and a property test compares the two.
//!
//! [`encode_request`]: super::encode_request

use super::{Message, ProviderRequest, Quirks, element_list::ElementList, normalise::Normaliser};

/// The encoded messages of earlier requests.
#[derive(Debug, Default)]
pub struct EncodedHistory {
    kept: Option<KeptMessages>,
}

/// The messages that later ones cannot change.
#[derive(Debug)]
struct KeptMessages {
    /// The number of these messages.
    count: usize,
    /// The revision of the conversation that they belong to.
    revision: u64,
    /// Has processed these messages, and holds back the last one, which may still grow.
    normaliser: Normaliser,
    /// The quirks with which the elements were encoded.
    quirks: Quirks,
    elements: ElementList,
}

impl EncodedHistory {
    /// Returns the body of a request. Starts over if the history does not fit the request.
    pub fn encode(&mut self, request: &ProviderRequest<'_>) -> Vec<u8> {
        let messages = &request.conversation.messages;
        let final_count = final_count(messages);
        let kept = self.kept.take().filter(|kept| kept.fits(request, final_count));
        let kept = self.kept.insert(kept.unwrap_or_else(|| KeptMessages::new(request)));
        kept.extend(request, final_count);
        let mut normaliser = kept.normaliser.clone();
        for message in &messages[final_count..] {
            normaliser.push(message);
        }
        let mut rest = ElementList::default();
        for message in normaliser.finish() {
            request.push_message(&message, &mut rest);
        }
        ElementList::join(request.head(), &kept.elements, &rest)
    }
}

/// Returns how many messages are final: all but a last one that is not an answer. Such a message
/// grows while results and user messages arrive, and is removed if it is never answered.
fn final_count(messages: &[Message]) -> usize {
    let is_open = |message: &Message| !matches!(message, Message::Assistant(_));
    messages.len() - usize::from(messages.last().is_some_and(is_open))
}

impl KeptMessages {
    fn new(request: &ProviderRequest<'_>) -> Self {
        Self {
            count: 0,
            revision: request.conversation.revision,
            normaliser: Normaliser::new(request.wire_target()),
            quirks: request.quirks.clone(),
            elements: ElementList::default(),
        }
    }

    /// Returns whether the request has the same target, and its conversation begins with these
    /// messages.
    fn fits(&self, request: &ProviderRequest<'_>, final_count: usize) -> bool {
        self.count <= final_count
            && self.revision == request.conversation.revision
            && self.quirks == *request.quirks
            && *self.normaliser.target() == request.wire_target()
    }

    fn extend(&mut self, request: &ProviderRequest<'_>, final_count: usize) {
        for message in &request.conversation.messages[self.count..final_count] {
            self.normaliser.push(message);
        }
        self.count = final_count;
        for message in self.normaliser.take_final() {
            request.push_message(&message, &mut self.elements);
        }
    }
}
