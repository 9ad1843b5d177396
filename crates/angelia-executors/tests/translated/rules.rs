//! The rules for the events of any turn: every tool starts once and then finishes once; every block
//! with a delta gets its whole text or is withdrawn; blocks are numbered from 0; a turn starts at
//! most once and reports its usage once.

use std::collections::{HashMap, HashSet};

use angelia_core::model::{EventKind, TextChannel};

/// The events of one turn so far.
#[derive(Default)]
pub(crate) struct EventRules {
    open: HashSet<String>,
    finished: HashSet<String>,
    /// Each block's channel, and whether it is complete.
    blocks: HashMap<u32, (TextChannel, bool)>,
    started: usize,
    usages: usize,
}

impl EventRules {
    pub(crate) fn event(&mut self, kind: &EventKind, place: &str) {
        match kind {
            EventKind::Started(_) => self.started += 1,
            EventKind::Usage(_) => self.usages += 1,
            EventKind::Delta { block, channel, .. } => {
                let state = self.blocks.entry(*block).or_insert((*channel, false));
                assert_eq!(*state, (*channel, false), "{place}: delta behind its block");
            }
            EventKind::Block { block, channel, .. } => {
                let (its, _) = *self.blocks.entry(*block).or_insert((*channel, true));
                assert_eq!(its, *channel, "{place}: a block keeps its channel");
                self.blocks.insert(*block, (its, true));
            }
            EventKind::ToolCall(call) => {
                assert!(self.open.insert(call.id.to_string()), "{place}: {call:?}");
                assert!(!self.finished.contains(call.id.as_str()), "{place}: {call:?}");
                assert!(!call.title.trim().is_empty(), "{place}: {call:?}");
            }
            EventKind::ToolResult(result) => {
                assert!(self.open.remove(result.id.as_str()), "{place}: {result:?}");
                self.finished.insert(result.id.to_string());
            }
            _ => {}
        }
    }

    /// Checks the rules that apply at the end of a turn.
    pub(crate) fn check(&self, place: &str) {
        assert!(self.started <= 1, "{place}: started {} times", self.started);
        assert_eq!(self.usages, 1, "{place}: what was spent");
        let count = u32::try_from(self.blocks.len()).unwrap();
        let all = (0..count).all(|number| self.blocks.contains_key(&number));
        assert!(all, "{place}: numbers of blocks are left out");
        assert!(self.open.is_empty(), "{place}: still open {:?}", self.open);
        let half: Vec<_> = self.blocks.iter().filter(|(_, state)| !state.1).collect();
        assert!(half.is_empty(), "{place}: without their whole text {half:?}");
    }
}
