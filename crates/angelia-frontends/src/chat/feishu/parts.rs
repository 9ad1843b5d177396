//! Joins the parts of an event that spans several frames. Pure.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// How long to wait for missing parts. The platform sends an incomplete event again.
const PART_LIFETIME: Duration = Duration::from_secs(5);

/// The limits on what is buffered. No real event exceeds them.
const MAX_PARTS: usize = 256;
const MAX_OPEN_EVENTS: usize = 64;
const MAX_EVENT_BYTES: usize = 16 << 20;

/// One part of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct FramePart<'a> {
    pub(super) message_id: &'a str,
    /// The number of parts.
    pub(super) sum: usize,
    /// The index of this part.
    pub(super) seq: usize,
    pub(super) payload: &'a [u8],
}

/// The events that are still incomplete.
#[derive(Debug, Default)]
pub(super) struct PartJoiner {
    open: HashMap<String, OpenEvent>,
}

#[derive(Debug)]
struct OpenEvent {
    parts: Vec<Option<Vec<u8>>>,
    last_at: Instant,
}

impl PartJoiner {
    /// Adds a part. Returns the whole event if this was the last one.
    pub(super) fn add(&mut self, part: FramePart<'_>, now: Instant) -> Option<Vec<u8>> {
        let FramePart { message_id, sum, seq, payload } = part;
        if sum <= 1 {
            return Some(payload.to_vec());
        }
        self.open.retain(|_, event| now.duration_since(event.last_at) < PART_LIFETIME);
        let is_known = self.open.contains_key(message_id);
        if sum > MAX_PARTS || seq >= sum || (!is_known && self.open.len() >= MAX_OPEN_EVENTS) {
            return None;
        }
        let event = self
            .open
            .entry(message_id.to_owned())
            .or_insert_with(|| OpenEvent { parts: Vec::new(), last_at: now });
        if event.parts.len() != sum {
            event.parts = vec![None; sum];
        }
        event.last_at = now;
        if let Some(slot) = event.parts.get_mut(seq) {
            *slot = Some(payload.to_vec());
        }
        let size: usize = event.parts.iter().flatten().map(Vec::len).sum();
        let is_complete = event.parts.iter().all(Option::is_some);
        if !is_complete && size <= MAX_EVENT_BYTES {
            return None;
        }
        let event = self.open.remove(message_id)?;
        (size <= MAX_EVENT_BYTES).then(|| event.parts.into_iter().flatten().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'a>(message_id: &'a str, sum: usize, seq: usize, payload: &'a [u8]) -> FramePart<'a> {
        FramePart { message_id, sum, seq, payload }
    }

    #[tokio::test(start_paused = true)]
    async fn parts_are_joined_in_their_order_whatever_order_they_come_in() {
        let mut joiner = PartJoiner::default();
        let now = Instant::now();
        assert_eq!(joiner.add(part("a", 1, 0, b"whole"), now).unwrap(), b"whole");
        assert_eq!(joiner.add(part("a", 3, 2, b"c"), now), None);
        assert_eq!(joiner.add(part("b", 2, 0, b"x"), now), None);
        assert_eq!(joiner.add(part("a", 3, 0, b"a"), now), None);
        assert_eq!(joiner.add(part("a", 3, 0, b"a"), now), None, "a repetition");
        assert_eq!(joiner.add(part("a", 3, 1, b""), now).unwrap(), b"ac");
        assert_eq!(joiner.add(part("b", 2, 1, b"y"), now + PART_LIFETIME), None, "too late");
        assert_eq!(joiner.add(part("c", 2, 2, b"y"), now), None);
        assert_eq!(joiner.add(part("c", 100_000, 0, b"y"), now), None);
    }
}
