//! A message as rules see it. Whatever was sent can be seen: a body of a strange shape affects
//! this message only, and is shown rather than lost.

use std::sync::Arc;

use jiff::Timestamp;

use crate::model::bus::Message;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: Arc<str>,
    /// Empty when nobody said.
    pub from: Arc<str>,
    /// The sender is who it says it is.
    pub verified: bool,
    /// `body.type`; without one no rule about types matches.
    pub kind: Option<Arc<str>>,
    pub text: Arc<str>,
    /// Where a reply goes, if not to the sender.
    pub channel: Option<Arc<str>>,
    pub at: Timestamp,
}

impl Seen {
    /// `now` stands for a time that the message does not tell, or tells in a way nobody can read.
    pub fn of(message: &Message, now: Timestamp) -> Self {
        let content = message.content();
        Self {
            id: Arc::clone(&message.id),
            from: message.from.clone().unwrap_or_default(),
            verified: message.verified,
            kind: content.kind.map(Into::into),
            text: content.text.into(),
            channel: content.channel.filter(|name| !name.is_empty()).map(Into::into),
            at: moment(content.ts).unwrap_or(now),
        }
    }

    /// As it may be put on a terminal: what senders wrote cannot move cursors or set titles.
    #[must_use]
    pub fn for_terminal(&self) -> Self {
        let plain = |text: &Arc<str>| super::plain(text).into();
        Self {
            id: Arc::clone(&self.id),
            from: plain(&self.from),
            kind: self.kind.as_ref().map(plain),
            text: plain(&self.text),
            channel: self.channel.as_ref().map(plain),
            ..*self
        }
    }
}

/// Unix seconds, to the microsecond; zero is a time that was not told.
fn moment(seconds: f64) -> Option<Timestamp> {
    const LATEST: f64 = 253_402_300_000.0;
    if !(seconds.is_finite() && (1.0..LATEST).contains(&seconds)) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range was checked, and what is below a microsecond may go"
    )]
    let micros = (seconds * 1e6) as i64;
    Timestamp::from_microsecond(micros).ok()
}
