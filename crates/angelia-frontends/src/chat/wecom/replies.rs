//! Tracks how long something can be answered. A message allows one stream, which expires some minutes after it
//! begins; a press allows changing its card for seconds. We go by deadlines, before the server would refuse.
//! Pure.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;

/// How long a message can be answered with a stream.
const MESSAGE_WINDOW: Duration = Duration::from_mins(5);

/// How long after its beginning we use a stream. The server ends it after six minutes.
const STREAM_WINDOW: Duration = Duration::from_secs(330);

/// How long after a press we change a card. The server allows five seconds.
const PRESS_WINDOW: Duration = Duration::from_millis(4500);

/// The limit on messages and presses that are remembered.
const MAX_KEPT: usize = 1000;

/// What can currently be answered.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The newest message of each chat.
    messages: HashMap<Arc<str>, MessageWay>,
    /// The newest press on each card.
    presses: HashMap<Arc<str>, (Arc<str>, Timestamp)>,
    /// The last texts of ended streams.
    ended: HashMap<Arc<str>, String>,
}

#[derive(Debug)]
struct MessageWay {
    message_id: Arc<str>,
    req_id: Arc<str>,
    at: Timestamp,
    /// Whether a stream already answers this message.
    is_taken: bool,
}

impl Replies {
    /// Records a message. Returns whether its chat was unknown.
    pub(super) fn keep_message(
        &mut self,
        chat: &Arc<str>,
        message_id: Arc<str>,
        req_id: Arc<str>,
        at: Timestamp,
    ) -> bool {
        if self.messages.len() >= MAX_KEPT {
            self.messages.retain(|_, way| is_within(way.at, MESSAGE_WINDOW, at));
        }
        let way = MessageWay { message_id, req_id, at, is_taken: false };
        self.messages.insert(Arc::clone(chat), way).is_none()
    }

    /// Returns whether somebody has written in this chat, so that a stream may be possible.
    pub(super) fn knows(&self, chat: &str) -> bool {
        self.messages.contains_key(chat)
    }

    /// Takes the `req_id` for answering a message: the given one, or the newest of the chat.
    pub(super) fn take(
        &mut self,
        chat: &str,
        message_id: Option<&str>,
        now: Timestamp,
    ) -> Option<Arc<str>> {
        let way = self.messages.get_mut(chat)?;
        let is_meant = message_id.is_none_or(|id| *way.message_id == *id);
        if way.is_taken || !is_meant || !is_within(way.at, MESSAGE_WINDOW, now) {
            return None;
        }
        way.is_taken = true;
        Some(Arc::clone(&way.req_id))
    }

    pub(super) fn keep_press(&mut self, card: Arc<str>, req_id: Arc<str>, at: Timestamp) {
        if self.presses.len() >= MAX_KEPT {
            self.presses.retain(|_, (_, pressed)| is_within(*pressed, PRESS_WINDOW, at));
        }
        self.presses.insert(card, (req_id, at));
    }

    /// Returns the `req_id` for changing a card, if it was pressed just now.
    pub(super) fn press_of(&self, card: &str, now: Timestamp) -> Option<Arc<str>> {
        let (req_id, at) = self.presses.get(card)?;
        is_within(*at, PRESS_WINDOW, now).then(|| Arc::clone(req_id))
    }

    pub(super) fn keep_end(&mut self, stream: Arc<str>, text: String) {
        if self.ended.len() >= MAX_KEPT {
            self.ended.clear();
        }
        self.ended.insert(stream, text);
    }

    /// Returns whether a stream ended with this text.
    pub(super) fn has_ended(&self, stream: &str, text: &str) -> bool {
        self.ended.get(stream).is_some_and(|last| last == text)
    }
}

fn is_within(begin: Timestamp, window: Duration, now: Timestamp) -> bool {
    begin.checked_add(window).is_ok_and(|end| now < end)
}

/// A stream that has begun. Its text form serves as a message id and contains everything that a later process
/// needs to end the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamId {
    pub(super) req_id: String,
    pub(super) stream: String,
    pub(super) begun: Timestamp,
}

impl StreamId {
    pub(super) fn to_message_id(&self) -> Arc<str> {
        let Self { req_id, stream, begun } = self;
        format!("stream/{}/{stream}/{req_id}", begun.as_second()).into()
    }

    pub(super) fn parse(message_id: &str) -> Option<Self> {
        let mut parts = message_id.strip_prefix("stream/")?.splitn(3, '/');
        let begun = Timestamp::from_second(parts.next()?.parse().ok()?).ok()?;
        let (stream, req_id) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        Some(Self { req_id, stream, begun })
    }

    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        is_within(self.begun, STREAM_WINDOW, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_message_is_answered_once_and_in_time() {
        let mut replies = Replies::default();
        let chat: Arc<str> = "ada".into();
        assert!(replies.keep_message(&chat, "m1".into(), "r1".into(), at(0)));
        assert!(!replies.keep_message(&chat, "m2".into(), "r2".into(), at(1)));
        assert_eq!(replies.take("ada", Some("m1"), at(2)), None, "a newer one has come");
        assert_eq!(replies.take("ada", Some("m2"), at(2)).as_deref(), Some("r2"));
        assert_eq!(replies.take("ada", None, at(2)), None, "it is taken");
        replies.keep_message(&chat, "m3".into(), "r3".into(), at(3));
        assert_eq!(replies.take("ada", None, at(303)), None, "too late");
        assert!(replies.knows("ada") && !replies.knows("eve"));
    }

    #[test]
    fn a_card_changes_for_seconds_after_a_press() {
        let mut replies = Replies::default();
        replies.keep_press("card".into(), "r1".into(), at(10));
        assert_eq!(replies.press_of("card", at(14)).as_deref(), Some("r1"));
        assert_eq!(replies.press_of("card", at(15)), None);
        assert_eq!(replies.press_of("other", at(10)), None);
    }

    #[test]
    fn a_stream_is_left_before_it_dies_also_by_a_later_process() {
        let id = StreamId { req_id: "a/b_1".into(), stream: "s".into(), begun: at(1000) };
        let known = StreamId::parse(&id.to_message_id()).unwrap();
        assert_eq!(known, id);
        assert!(known.is_open(at(1329)) && !known.is_open(at(1330)));
        for foreign in ["", "stream/", "stream/x/y/z", "task", "stream/1/y"] {
            assert_eq!(StreamId::parse(foreign), None, "{foreign}");
        }
    }
}
