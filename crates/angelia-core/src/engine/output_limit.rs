//! Limits the output of a turn, so that a runaway agent cannot fill the memory or the disk.

use super::text_cut::{cut_texts, text_bytes};
use crate::model::{BlockId, EventKind};

/// The setting that limits the output of a turn.
pub(super) const OUTPUT_LIMIT_SETTING: &str = "limits.output_bytes";

/// Counted for every event in addition to its text: roughly the memory that an event takes.
const EVENT_BYTES: usize = 128;

#[derive(Debug)]
pub(super) struct OutputLimit {
    limit: usize,
    used: usize,
    is_reached: bool,
    /// Bytes of open blocks that were already counted as deltas, because the complete block repeats them.
    open_blocks: Vec<(BlockId, usize)>,
}

impl OutputLimit {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, used: 0, is_reached: false, open_blocks: Vec::new() }
    }

    pub(super) const fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Counts an event of the agent. Cuts the event that reaches the limit. Returns `false` for later output,
    /// which must be dropped.
    pub(super) fn admit(&mut self, kind: &mut EventKind) -> bool {
        if !is_output(kind) {
            return true;
        }
        if self.is_reached {
            return false;
        }
        let known = self.known_bytes(kind);
        let room = self.limit.saturating_sub(self.used + EVENT_BYTES);
        if text_bytes(kind) > known.saturating_add(room) {
            cut_texts([&mut *kind], known + room);
            self.is_reached = true;
        } else if self.used + EVENT_BYTES > self.limit {
            self.is_reached = true;
        }
        self.count(kind, known);
        true
    }

    /// Returns how many bytes of the event's text were already counted.
    fn known_bytes(&self, kind: &EventKind) -> usize {
        let EventKind::Block { block: wanted, .. } = kind else { return 0 };
        let open = self.open_blocks.iter().find(|(block, _)| block == wanted);
        open.map_or(0, |(_, bytes)| *bytes)
    }

    fn count(&mut self, kind: &EventKind, known: usize) {
        let bytes = text_bytes(kind);
        self.used += EVENT_BYTES + bytes.saturating_sub(known);
        match kind {
            EventKind::Delta { block, .. } => {
                match self.open_blocks.iter_mut().rev().find(|(open, _)| open == block) {
                    Some((_, counted)) => *counted += bytes,
                    None => self.open_blocks.push((*block, bytes)),
                }
            }
            EventKind::Block { block, .. } => self.open_blocks.retain(|(open, _)| open != block),
            _ => {}
        }
    }
}

const fn is_output(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Delta { .. }
            | EventKind::Block { .. }
            | EventKind::ToolCall(_)
            | EventKind::ToolResult(_)
            | EventKind::Plan(_)
            | EventKind::Native { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::TextChannel;

    const CHANNEL: TextChannel = TextChannel::Answer;

    fn delta(text: &str) -> EventKind {
        EventKind::Delta { block: 0, channel: CHANNEL, text: text.into() }
    }

    fn block(text: &str) -> EventKind {
        EventKind::Block { block: 0, channel: CHANNEL, text: text.into() }
    }

    #[test]
    fn a_block_does_not_count_its_deltas_twice() {
        let mut limit = OutputLimit::new(3 * EVENT_BYTES + 200);
        let half = "x".repeat(100);
        assert!(limit.admit(&mut delta(&half)) && limit.admit(&mut delta(&half)));
        assert!(limit.admit(&mut block(&half.repeat(2))));
        assert!(!limit.is_reached());
        assert!(limit.admit(&mut delta("more")) && limit.is_reached());
        assert!(!limit.admit(&mut delta("dropped")));
    }

    #[test]
    fn the_event_that_reaches_the_limit_is_cut() {
        for kind in [delta(&"x".repeat(1000)), block(&"x".repeat(1000))] {
            let mut kind = kind;
            let mut limit = OutputLimit::new(EVENT_BYTES + 100);
            assert!(limit.admit(&mut kind) && limit.is_reached());
            let (EventKind::Delta { text, .. } | EventKind::Block { text, .. }) = kind else {
                panic!("{kind:?}");
            };
            let text: Arc<str> = text;
            assert!(text.starts_with("xxx") && text.ends_with("[900 bytes are missing here]"));
        }
    }

    #[test]
    fn tiny_events_count_too() {
        let mut limit = OutputLimit::new(100 * EVENT_BYTES);
        let admitted = (0..1000).filter(|_| limit.admit(&mut delta("x"))).count();
        assert!((90..=100).contains(&admitted), "{admitted}");
    }
}
