//! Encodes the requests of a conversation that grows. Most of a request was sent with the one before,
//! so each message is normalised and encoded once, and a request is those bytes and the new ones.
//!
//! The result is that of encoding the whole conversation anew: [`encode_request`] does so with an
//! empty history, and a property test compares the two.
//!
//! [`encode_request`]: super::encode_request

use super::{Message, ProviderRequest, Quirks, element_list::ElementList, normalise::Normaliser};

/// The messages that requests have carried so far, encoded.
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
    /// Has read these messages, and keeps the last of them if it can grow.
    normaliser: Normaliser,
    /// The quirks with which the other messages were encoded.
    quirks: Quirks,
    elements: ElementList,
}

impl EncodedHistory {
    /// Returns the body of a request. A history that does not fit the request is begun anew.
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

/// Returns how many messages stay as they are: all but a last one of the user's side, which grows while
/// results and words of the person come in, and is taken back if it is never answered.
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

    /// Whether the request is for the same reader, and its conversation begins with these messages.
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
