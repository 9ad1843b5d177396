//! The state of the running turn.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    model::{BlockId, EventKind, TextChannel, ToolId, ToolResult, Usage},
    ports::{Activity, AgentEvent, AgentOutcome},
};
use jiff::Timestamp;

use super::emit_event;
use crate::claude::protocol::incoming::MessageUuids;

#[derive(Debug)]
pub(super) struct ClaudeTurn {
    pub(super) uuid: Box<str>,
    /// Set once a line has shown that the CLI is working on our message.
    pub(super) confirmed: bool,
    /// Set if the CLI took our message into a turn that was already running.
    pub(super) folded: bool,
    /// Set once the CLI has queued our message; then only lines with its uuid are ours.
    pub(super) queued: bool,
    pub(super) started: bool,
    /// The uuids of steering messages written into this turn.
    steer_uuids: Vec<Box<str>>,
    /// The uuids of steering messages that the CLI has not taken up yet.
    pending_steers: Vec<Box<str>>,
    next_block: BlockId,
    /// Blocks that were emitted and have not been withdrawn.
    emitted_blocks: Vec<(BlockId, TextChannel)>,
    tools: TurnTools,
    activity: Activity,
    pub(super) usage: Usage,
    pub(super) error: Option<CliApiError>,
    /// Set if the API key was refused and the CLI was interrupted to stop its retries.
    pub(super) retries_stopped: bool,
    pub(super) refused: bool,
    /// The latest timestamp of any line of this turn.
    pub(super) last_seen_at: Option<Timestamp>,
    /// The outcome of the turn, held back until its background work is done.
    pub(super) stored_outcome: Option<AgentOutcome>,
}

/// A failure reported by a message that the CLI wrote in place of the model.
#[derive(Debug)]
pub(super) struct CliApiError {
    pub(super) error: Box<str>,
    pub(super) status: Option<u16>,
    pub(super) code: Option<Box<str>>,
}

#[derive(Debug, Default)]
struct TurnTools {
    seen: HashSet<ToolId>,
    open: HashMap<ToolId, usize>,
}

impl ClaudeTurn {
    pub(super) fn new(uuid: &str) -> Self {
        Self {
            uuid: uuid.into(),
            confirmed: false,
            folded: false,
            queued: false,
            started: false,
            steer_uuids: Vec::new(),
            pending_steers: Vec::new(),
            next_block: 0,
            emitted_blocks: Vec::new(),
            tools: TurnTools::default(),
            activity: Activity::WaitingForModel,
            usage: Usage::default(),
            error: None,
            retries_stopped: false,
            refused: false,
            last_seen_at: None,
            stored_outcome: None,
        }
    }

    pub(super) fn has_answer(&self) -> bool {
        self.stored_outcome.is_some()
    }

    pub(super) fn is_named_in(&self, uuids: &MessageUuids<'_>) -> bool {
        uuids.contains(&self.uuid) || self.steer_uuids.iter().any(|uuid| uuids.contains(uuid))
    }

    pub(super) fn add_steer(&mut self, uuid: &str) {
        self.steer_uuids.push(uuid.into());
    }

    pub(super) fn is_steer(&self, uuid: &str) -> bool {
        self.steer_uuids.iter().any(|steer| **steer == *uuid)
    }

    /// Updates the lifecycle state of a steering message. A message that arrives too late for the
    /// running CLI turn gets a separate one, which still belongs to our turn. The message then
    /// stays pending although there already is an answer.
    pub(super) fn update_steer(&mut self, uuid: &str, state: &str) {
        match state {
            "queued" => self.pending_steers.push(uuid.into()),
            "started" if self.has_answer() => {}
            _ => self.pending_steers.retain(|waiting| **waiting != *uuid),
        }
    }

    pub(super) fn record_result(&mut self, uuids: &MessageUuids<'_>) {
        self.pending_steers.retain(|waiting| !uuids.contains(waiting));
    }

    pub(super) fn awaits_steer(&self) -> bool {
        !self.pending_steers.is_empty()
    }

    pub(super) fn record_time(&mut self, timestamp: Option<&str>) {
        if let Some(at) = timestamp.and_then(|text| text.parse().ok()) {
            self.last_seen_at = Some(at);
        }
    }

    pub(super) fn new_block(&mut self, channel: TextChannel) -> BlockId {
        let block = self.next_block;
        self.next_block += 1;
        self.emitted_blocks.push((block, channel));
        block
    }

    pub(super) fn withdraw(&mut self, block: BlockId, out: &mut Vec<AgentEvent>) {
        if let Some(at) = self.emitted_blocks.iter().rposition(|(shown, _)| *shown == block) {
            let (block, channel) = self.emitted_blocks.remove(at);
            emit_block(block, channel, "".into(), out);
        }
    }

    /// Withdraws all blocks and tools, because they belong to another message's turn.
    pub(super) fn withdraw_all(&mut self, out: &mut Vec<AgentEvent>) {
        for (block, channel) in std::mem::take(&mut self.emitted_blocks) {
            emit_block(block, channel, "".into(), out);
        }
        self.close_tools("not part of this turn", out);
    }

    /// Records the start of a tool call. Returns `false` if the call is already known.
    pub(super) fn open_tool(&mut self, id: &ToolId) -> bool {
        let new = self.tools.seen.insert(id.clone());
        if new {
            self.tools.open.insert(id.clone(), self.tools.seen.len());
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

    pub(super) fn abandon_tool(&mut self, id: &ToolId, output: &str, out: &mut Vec<AgentEvent>) {
        if self.close_tool(id) {
            emit_unfinished_tool(id.clone(), output, out);
        }
    }

    pub(super) fn has_open_tool(&self) -> bool {
        !self.tools.open.is_empty()
    }

    pub(super) fn close_tools(&mut self, output: &str, out: &mut Vec<AgentEvent>) {
        let mut open: Vec<(ToolId, usize)> = self.tools.open.drain().collect();
        open.sort_by_key(|(_, number)| *number);
        for (id, _) in open {
            emit_unfinished_tool(id, output, out);
        }
    }

    pub(super) fn set_activity(&mut self, activity: Activity, out: &mut Vec<AgentEvent>) {
        if self.activity != activity {
            self.activity = activity;
            out.push(AgentEvent::Activity(activity));
        }
    }

    /// Resets the activity after a retry or a compaction.
    pub(super) fn resume_activity(&mut self, out: &mut Vec<AgentEvent>) {
        if matches!(self.activity, Activity::Retrying | Activity::Compacting) {
            let activity = match self.stored_outcome {
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
    out: &mut Vec<AgentEvent>,
) {
    emit_event(EventKind::Block { block, channel, text }, out);
}

fn emit_unfinished_tool(id: ToolId, output: &str, out: &mut Vec<AgentEvent>) {
    let result = ToolResult::new(id, false, output);
    emit_event(EventKind::ToolResult(result), out);
}
