//! The state of the running turn.

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
    /// A line has shown that the CLI is working on our message.
    pub(super) confirmed: bool,
    /// The CLI took our message into a turn that was already running.
    pub(super) folded: bool,
    /// The CLI has reported that our message waits; then only lines with its uuid are ours.
    pub(super) queued: bool,
    pub(super) started: bool,
    /// The uuids of steering messages written into this turn.
    steers: Vec<Box<str>>,
    /// The uuids of steering messages that the CLI has not taken up yet.
    waiting: Vec<Box<str>>,
    next_block: BlockId,
    /// Blocks that were emitted and have not been withdrawn.
    shown: Vec<(BlockId, TextChannel)>,
    tools: Tools,
    activity: Activity,
    pub(super) usage: Usage,
    pub(super) error: Option<ApiError>,
    /// The API key is refused, and the CLI was interrupted to stop its retries.
    pub(super) in_vain: bool,
    pub(super) refused: bool,
    /// The latest timestamp of any line of this turn.
    pub(super) at: Option<Timestamp>,
    /// How the turn will end once its background work is done.
    pub(super) answer: Option<Ended>,
}

/// A failure reported by a message that the CLI wrote in place of the model.
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

    /// Updates the lifecycle state of a steering message. A message that comes too late for this
    /// turn gets a CLI turn of its own, which still belongs to our turn: then the message stays
    /// pending although the answer is already there.
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

    /// Withdraws all blocks and tools, because they belong to another message's turn.
    pub(super) fn withdraw_all(&mut self, out: &mut Vec<Emitted>) {
        for (block, channel) in std::mem::take(&mut self.shown) {
            emit_block(block, channel, "".into(), out);
        }
        self.close_tools("not part of this turn", out);
    }

    /// Records the start of a tool call. Returns `false` if the call is already known.
    pub(super) fn open_tool(&mut self, id: &ToolId) -> bool {
        let new = self.tools.known.insert(id.clone());
        if new {
            self.tools.open.insert(id.clone(), self.tools.known.len());
        }
        new
    }

    /// Records the end of a tool call. Returns `false` if the call was not open.
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

    /// Resets the activity after a retry or a compaction.
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
