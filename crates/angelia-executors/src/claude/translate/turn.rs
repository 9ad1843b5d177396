//! What is known about the running turn.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    model::{BlockId, EventKind, TextChannel, ToolId, ToolResult, Usage},
    ports::{Activity, Emitted, Ended},
};
use jiff::Timestamp;

use super::event;
use crate::claude::protocol::incoming::Uuids;

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) uuid: Box<str>,
    /// A line has shown that the CLI works on our message.
    pub(super) confirmed: bool,
    /// It was taken into a turn that already ran.
    pub(super) folded: bool,
    /// The CLI has told us that our message waits; then only its uuid makes lines ours.
    pub(super) queued: bool,
    pub(super) started: bool,
    /// Messages written into this turn.
    steers: Vec<Box<str>>,
    /// Those of them that have not been taken up.
    waiting: Vec<Box<str>>,
    next_block: BlockId,
    /// Blocks that are shown and have not been withdrawn.
    shown: Vec<(BlockId, TextChannel)>,
    tools: Tools,
    activity: Activity,
    pub(super) usage: Usage,
    pub(super) error: Option<ApiError>,
    /// The key is refused, and the CLI was told not to try it again.
    pub(super) in_vain: bool,
    pub(super) refused: bool,
    /// The latest time any line of this turn carried.
    pub(super) at: Option<Timestamp>,
    /// How the turn will end once its background work is through.
    pub(super) answer: Option<Ended>,
}

/// What a message in the model's place says about a failure.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) error: Box<str>,
    pub(super) status: Option<u16>,
    pub(super) code: Option<Box<str>>,
}

#[derive(Debug, Default)]
struct Tools {
    known: HashSet<ToolId>,
    open: HashMap<ToolId, usize>,
}

impl Turn {
    pub(super) fn new(uuid: &str) -> Self {
        Self {
            uuid: uuid.into(),
            confirmed: false,
            folded: false,
            queued: false,
            started: false,
            steers: Vec::new(),
            waiting: Vec::new(),
            next_block: 0,
            shown: Vec::new(),
            tools: Tools::default(),
            activity: Activity::WaitingForModel,
            usage: Usage::default(),
            error: None,
            in_vain: false,
            refused: false,
            at: None,
            answer: None,
        }
    }

    pub(super) fn has_answer(&self) -> bool {
        self.answer.is_some()
    }

    pub(super) fn is_named_in(&self, uuids: &Uuids<'_>) -> bool {
        uuids.contains(&self.uuid) || self.steers.iter().any(|uuid| uuids.contains(uuid))
    }

    pub(super) fn steer(&mut self, uuid: &str) {
        self.steers.push(uuid.into());
    }

    pub(super) fn is_steer(&self, uuid: &str) -> bool {
        self.steers.iter().any(|steer| **steer == *uuid)
    }

    /// A message into this turn that comes too late for it gets a turn of its own, which is still
    /// part of ours: then it waits while the answer is there already.
    pub(super) fn see_steer(&mut self, uuid: &str, state: &str) {
        match state {
            "queued" => self.waiting.push(uuid.into()),
            "started" if self.has_answer() => {}
            _ => self.waiting.retain(|waiting| **waiting != *uuid),
        }
    }

    pub(super) fn see_result(&mut self, uuids: &Uuids<'_>) {
        self.waiting.retain(|waiting| !uuids.contains(waiting));
    }

    pub(super) fn awaits_steer(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn see_time(&mut self, timestamp: Option<&str>) {
        if let Some(at) = timestamp.and_then(|text| text.parse().ok()) {
            self.at = Some(at);
        }
    }

    pub(super) fn new_block(&mut self, channel: TextChannel) -> BlockId {
        let block = self.next_block;
        self.next_block += 1;
        self.shown.push((block, channel));
        block
    }

    pub(super) fn withdraw(&mut self, block: BlockId, out: &mut Vec<Emitted>) {
        if let Some(at) = self.shown.iter().rposition(|(shown, _)| *shown == block) {
            let (block, channel) = self.shown.remove(at);
            emit_block(block, channel, "".into(), out);
        }
    }

    /// What was shown turns out to be the answer to something else.
    pub(super) fn withdraw_all(&mut self, out: &mut Vec<Emitted>) {
        for (block, channel) in std::mem::take(&mut self.shown) {
            emit_block(block, channel, "".into(), out);
        }
        self.close_tools("not part of this turn", out);
    }

    /// `false`: it has been started already.
    pub(super) fn open_tool(&mut self, id: &ToolId) -> bool {
        let new = self.tools.known.insert(id.clone());
        if new {
            self.tools.open.insert(id.clone(), self.tools.known.len());
        }
        new
    }

    /// `false`: it has not been started, or ended before.
    pub(super) fn close_tool(&mut self, id: &ToolId) -> bool {
        self.tools.open.remove(id).is_some()
    }

    pub(super) fn is_tool_open(&self, id: &str) -> bool {
        self.tools.open.contains_key(&ToolId::new(id))
    }

    pub(super) fn abandon_tool(&mut self, id: &ToolId, output: &str, out: &mut Vec<Emitted>) {
        if self.close_tool(id) {
            unfinished(id.clone(), output, out);
        }
    }

    pub(super) fn runs_a_tool(&self) -> bool {
        !self.tools.open.is_empty()
    }

    pub(super) fn close_tools(&mut self, output: &str, out: &mut Vec<Emitted>) {
        let mut open: Vec<(ToolId, usize)> = self.tools.open.drain().collect();
        open.sort_by_key(|(_, number)| *number);
        for (id, _) in open {
            unfinished(id, output, out);
        }
    }

    pub(super) fn set_activity(&mut self, activity: Activity, out: &mut Vec<Emitted>) {
        if self.activity != activity {
            self.activity = activity;
            out.push(Emitted::Activity(activity));
        }
    }

    /// A retry or a compaction is over.
    pub(super) fn back_to_work(&mut self, out: &mut Vec<Emitted>) {
        if matches!(self.activity, Activity::Retrying | Activity::Compacting) {
            let activity = match self.answer {
                Some(_) => Activity::Background,
                None => Activity::WaitingForModel,
            };
            self.set_activity(activity, out);
        }
    }
}

pub(super) fn emit_block(
    block: BlockId,
    channel: TextChannel,
    text: Arc<str>,
    out: &mut Vec<Emitted>,
) {
    event(EventKind::Block { block, channel, text }, out);
}

fn unfinished(id: ToolId, output: &str, out: &mut Vec<Emitted>) {
    let result = ToolResult { id, ok: false, output: output.into() };
    event(EventKind::ToolResult(result), out);
}
