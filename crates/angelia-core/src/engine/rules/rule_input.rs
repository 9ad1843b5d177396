//! A bus message in the form that rules work on. Every message can be converted: an unusual body is
//! shown unchanged rather than lost, and does not affect other messages.

use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{SessionId, bus::BusMessage};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInput {
    pub id: Arc<str>,
    /// Empty if the message names no sender.
    pub from: Arc<str>,
    /// The bus has verified that `from` is the sender.
    pub verified: bool,
    /// `body.type`. If it is absent, rules with a `type` condition do not match.
    pub kind: Option<Arc<str>>,
    pub text: Arc<str>,
    /// The channel to reply to; `None` if the reply goes to the sender.
    pub channel: Option<Arc<str>>,
    pub at: Timestamp,
    /// The session whose agent sent the message.
    pub sender_session: Option<SessionId>,
}

impl RuleInput {
    /// Converts a message. Uses `now` if the message has no valid time.
    pub fn from_message(message: &BusMessage, now: Timestamp) -> Self {
        let content = message.content();
        Self {
            id: Arc::clone(&message.id),
            from: message.from.clone().unwrap_or_default(),
            verified: message.verified,
            kind: content.kind.map(Into::into),
            text: content.text.into(),
            channel: content.channel.filter(|name| !name.is_empty()).map(Into::into),
            at: parse_unix_seconds(content.ts).unwrap_or(now),
            sender_session: content.sender_session,
        }
    }

    /// Returns a copy that is safe to print on a terminal: the sender cannot move the cursor or set
    /// the title.
    #[must_use]
    pub fn for_terminal(&self) -> Self {
        let plain = |text: &Arc<str>| super::strip_terminal_codes(text).into();
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
fn parse_unix_seconds(seconds: f64) -> Option<Timestamp> {
    const MAX_UNIX_SECONDS: f64 = 253_402_300_000.0;
    if !(seconds.is_finite() && (1.0..MAX_UNIX_SECONDS).contains(&seconds)) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range was checked, and what is below a microsecond may go"
    )]
    let micros = (seconds * 1e6) as i64;
    Timestamp::from_microsecond(micros).ok()
}
