//! Messages that were sent to a receiver but are not settled yet.
//!
//! A receiver that registered with `ack` acknowledges each message. A silent one counts as having a
//! message once it has read its socket. The system buffers at most [`SOCKET_BUFFER_BYTES`] between
//! us, so everything before them has been read, and data left unread when the receiver closes is
//! reported to us as a reset. A written message also counts as read after a short time,
//! [`ListenerLimits::settle_delay`].
//!
//! [`ListenerLimits::settle_delay`]: super::ListenerLimits::settle_delay

use std::collections::VecDeque;

use angelia_core::{model::MessageId, ports::bus::BusPosition};
use tokio::time::{Duration, Instant};

/// The default limit of a Unix socket's buffer, and a little more.
const SOCKET_BUFFER_BYTES: u64 = 256 * 1024;

/// The limit on messages per receiver that are not acknowledged or, without `ack`, not written yet.
/// Written messages need no limit: they settle after another [`SOCKET_BUFFER_BYTES`].
const MAX_UNSETTLED: usize = 4096;

#[derive(Debug)]
pub(super) enum InFlight {
    WithAck(VecDeque<(MessageId, BusPosition)>),
    WithoutAck(SettlingQueue),
}

#[derive(Debug, Default)]
pub(super) struct SettlingQueue {
    /// Messages in the output buffer, in order, with the stream offset at which each one ends.
    buffered: VecDeque<(BusPosition, u64)>,
    written: VecDeque<(BusPosition, u64, Instant)>,
    sent: u64,
}

impl InFlight {
    pub(super) fn new(asks: bool) -> Self {
        if asks {
            Self::WithAck(VecDeque::new())
        } else {
            Self::WithoutAck(SettlingQueue::default())
        }
    }

    /// Returns how many more messages may be sent.
    pub(super) fn free_slots(&self) -> usize {
        let out = match self {
            Self::WithAck(flying) => flying.len(),
            Self::WithoutAck(settling) => settling.buffered.len(),
        };
        MAX_UNSETTLED.saturating_sub(out)
    }

    /// Adds a message that is in the output buffer; `end` is the stream offset at which it ends.
    pub(super) fn push(&mut self, id: MessageId, position: BusPosition, end: u64) {
        match self {
            Self::WithAck(flying) => flying.push_back((id, position)),
            Self::WithoutAck(settling) => settling.buffered.push_back((position, end)),
        }
    }

    /// Removes a message that the receiver acknowledged or refused, and returns its position.
    pub(super) fn take_acknowledged(&mut self, id: &str) -> Option<BusPosition> {
        let Self::WithAck(flying) = self else {
            return None;
        };
        // Nearly always the oldest, so a linear search is cheap.
        let found = flying.iter().position(|(flying, _)| &**flying == id)?;
        flying.remove(found).map(|(_, position)| position)
    }

    /// Records that `sent` bytes of the stream have been written. Returns the messages to a silent
    /// receiver that are now completely written.
    pub(super) fn note_written(&mut self, sent: u64, now: Instant) -> Vec<BusPosition> {
        let Self::WithoutAck(settling) = self else {
            return Vec::new();
        };
        settling.sent = sent;
        let mut handed = Vec::new();
        while let Some((position, end)) = settling.buffered.pop_front_if(|(_, end)| *end <= sent) {
            settling.written.push_back((position, end, now));
            handed.push(position);
        }
        handed
    }

    /// Removes and returns the messages that a silent receiver has certainly read by now.
    pub(super) fn take_settled(&mut self, now: Instant, settle: Duration) -> Vec<BusPosition> {
        let Self::WithoutAck(settling) = self else {
            return Vec::new();
        };
        let sent = settling.sent;
        let mut settled = Vec::new();
        let is_settled = |(_, end, at): &mut (BusPosition, u64, Instant)| {
            sent - *end > SOCKET_BUFFER_BYTES || now.duration_since(*at) >= settle
        };
        while let Some((position, ..)) = settling.written.pop_front_if(is_settled) {
            settled.push(position);
        }
        settled
    }

    /// Returns whether a receiver with `ack` has messages that it has not acknowledged.
    pub(super) fn awaits_acks(&self) -> bool {
        matches!(self, Self::WithAck(sent) if !sent.is_empty())
    }

    /// Removes and returns all written messages: a receiver that closed in order has read them.
    pub(super) fn take_written(&mut self) -> Vec<BusPosition> {
        let Self::WithoutAck(settling) = self else {
            return Vec::new();
        };
        settling.written.drain(..).map(|(position, ..)| position).collect()
    }

    /// Returns the time at which the next written message settles.
    pub(super) fn next_settle_time(&self, settle: Duration) -> Option<Instant> {
        match self {
            Self::WithAck(_) => None,
            Self::WithoutAck(settling) => settling.written.front().map(|(_, _, at)| *at + settle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_silent_receiver_has_what_was_written_after_a_while_or_with_what_follows() {
        let mut handing = InFlight::new(false);
        let now = Instant::now();
        for n in 1..=3_u64 {
            handing.push("x".into(), BusPosition(n), n * 100);
        }
        assert_eq!(handing.note_written(250, now), [BusPosition(1), BusPosition(2)]);
        assert!(handing.take_settled(now, SECOND).is_empty());
        assert_eq!(handing.next_settle_time(SECOND), Some(now + SECOND));
        assert_eq!(handing.note_written(150 + SOCKET_BUFFER_BYTES, now), [BusPosition(3)]);
        assert_eq!(handing.take_settled(now, SECOND), [BusPosition(1)]);
        assert_eq!(handing.take_settled(now + SECOND, SECOND), [BusPosition(2), BusPosition(3)]);
        assert_eq!(handing.next_settle_time(SECOND), None);
    }

    #[test]
    fn whoever_asks_says_itself() {
        let mut handing = InFlight::new(true);
        for n in ["a", "b", "c"] {
            handing.push(n.into(), BusPosition(u64::from(n.as_bytes()[0])), 0);
        }
        assert_eq!(handing.take_acknowledged("b"), Some(BusPosition(98)));
        assert_eq!(handing.take_acknowledged("b"), None);
        assert_eq!(handing.take_acknowledged("a"), Some(BusPosition(97)));
        assert!(handing.take_written().is_empty());
    }
}
