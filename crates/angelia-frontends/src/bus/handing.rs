//! Messages that were sent to a receiver and are not settled yet.
//!
//! A receiver that registered with `ack` acknowledges each message. A silent one counts as having a
//! message once it has read its socket. The system buffers at most [`SOCKET_BUFFER_BYTES`] between
//! us, so everything before them has been read, and data left unread when the receiver closes is
//! reported to us as a reset. A written message also counts as read after a short time,
//! [`ListenerLimits::settle_delay`].
//!
//! [`ListenerLimits::settle_delay`]: super::ListenerLimits::settle_delay

use std::collections::VecDeque;

use angelia_core::{model::MessageId, ports::bus::Position};
use tokio::time::{Duration, Instant};

/// The default limit of a Unix socket's buffer, and a little more.
const BUFFER: u64 = 256 * 1024;

/// The limit on unsettled messages per receiver.
const WINDOW: usize = 4096;

#[derive(Debug)]
pub(super) enum Handing {
    Asking(VecDeque<(MessageId, Position)>),
    Silent(Settling),
}

#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Messages in the output buffer, in order, with the stream offset at which each one ends.
    put: VecDeque<(Position, u64)>,
    written: VecDeque<(Position, u64, Instant)>,
    sent: u64,
}

impl Handing {
    pub(super) fn new(asks: bool) -> Self {
        if asks { Self::Asking(VecDeque::new()) } else { Self::Silent(Settling::default()) }
    }

    /// Returns how many more messages may be sent.
    pub(super) fn room(&self) -> usize {
        let out = match self {
            Self::Asking(flying) => flying.len(),
            Self::Silent(settling) => settling.put.len(),
        };
        WINDOW.saturating_sub(out)
    }

    /// Adds a message that is in the output buffer; `end` is the stream offset at which it ends.
    pub(super) fn put(&mut self, id: MessageId, position: Position, end: u64) {
        match self {
            Self::Asking(flying) => flying.push_back((id, position)),
            Self::Silent(settling) => settling.put.push_back((position, end)),
        }
    }

    /// Removes a message that the receiver has acknowledged or refused, and returns its position.
    pub(super) fn acknowledged(&mut self, id: &str) -> Option<Position> {
        let Self::Asking(flying) = self else {
            return None;
        };
        // Nearly always the oldest, so a linear search is cheap.
        let found = flying.iter().position(|(flying, _)| &**flying == id)?;
        flying.remove(found).map(|(_, position)| position)
    }

    /// Notes that `sent` bytes of the stream have been written. Returns the messages that were
    /// thereby written completely to a silent receiver.
    pub(super) fn written(&mut self, sent: u64, now: Instant) -> Vec<Position> {
        let Self::Silent(settling) = self else {
            return Vec::new();
        };
        settling.sent = sent;
        let mut handed = Vec::new();
        while let Some((position, end)) = settling.put.pop_front_if(|(_, end)| *end <= sent) {
            settling.written.push_back((position, end, now));
            handed.push(position);
        }
        handed
    }

    /// Removes and returns the messages that a silent receiver has certainly read by now.
    pub(super) fn settled(&mut self, now: Instant, settle: Duration) -> Vec<Position> {
        let Self::Silent(settling) = self else {
            return Vec::new();
        };
        let sent = settling.sent;
        let mut settled = Vec::new();
        let is_settled = |(_, end, at): &mut (Position, u64, Instant)| {
            sent - *end > BUFFER || now.duration_since(*at) >= settle
        };
        while let Some((position, ..)) = settling.written.pop_front_if(is_settled) {
            settled.push(position);
        }
        settled
    }

    /// Removes and returns all written messages: a receiver that closed in order has read them.
    pub(super) fn all_written(&mut self) -> Vec<Position> {
        let Self::Silent(settling) = self else {
            return Vec::new();
        };
        settling.written.drain(..).map(|(position, ..)| position).collect()
    }

    /// Returns when the next written message settles.
    pub(super) fn next_settled(&self, settle: Duration) -> Option<Instant> {
        match self {
            Self::Asking(_) => None,
            Self::Silent(settling) => settling.written.front().map(|(_, _, at)| *at + settle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_silent_receiver_has_what_was_written_after_a_while_or_with_what_follows() {
        let mut handing = Handing::new(false);
        let now = Instant::now();
        for n in 1..=3_u64 {
            handing.put("x".into(), Position(n), n * 100);
        }
        assert_eq!(handing.written(250, now), [Position(1), Position(2)]);
        assert!(handing.settled(now, SECOND).is_empty());
        assert_eq!(handing.next_settled(SECOND), Some(now + SECOND));
        assert_eq!(handing.written(150 + BUFFER, now), [Position(3)]);
        assert_eq!(handing.settled(now, SECOND), [Position(1)]);
        assert_eq!(handing.settled(now + SECOND, SECOND), [Position(2), Position(3)]);
        assert_eq!(handing.next_settled(SECOND), None);
    }

    #[test]
    fn whoever_asks_says_itself() {
        let mut handing = Handing::new(true);
        for n in ["a", "b", "c"] {
            handing.put(n.into(), Position(u64::from(n.as_bytes()[0])), 0);
        }
        assert_eq!(handing.acknowledged("b"), Some(Position(98)));
        assert_eq!(handing.acknowledged("b"), None);
        assert_eq!(handing.acknowledged("a"), Some(Position(97)));
        assert!(handing.all_written().is_empty());
    }
}
