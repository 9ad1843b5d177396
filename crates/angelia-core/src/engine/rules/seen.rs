//! A bus message as rules see it. Every message can be converted: an unusual body affects only this
//! message, and is shown as it is instead of being lost.

use std::sync::Arc;

use jiff::Timestamp;

use crate::model::bus::Message;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: Arc<str>,
    /// Empty if the message names no sender.
    pub from: Arc<str>,
    /// The bus has verified that `from` is the sender.
    pub verified: bool,
    /// `body.type`. Without one, no rule with a `type` condition matches.
    pub kind: Option<Arc<str>>,
    pub text: Arc<str>,
    /// Where a reply goes, if not to the sender.
    pub channel: Option<Arc<str>>,
    pub at: Timestamp,
}

impl Seen {
    /// Uses `now` if the message has no valid time.
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

    /// Returns a copy that is safe to print on a terminal: the sender cannot move the cursor or set
    /// the title.
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

/// Parses Unix seconds with microsecond precision; zero means that the message has no time.
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
