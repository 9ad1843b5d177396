//! The invariants of a turn's event stream. They hold however the turn ends.

use std::collections::{BTreeMap, HashSet};

use angelia_core::{
    model::{BlockId, EventKind, TextChannel, TurnStatus},
    ports::AgentEvent,
};

use super::{Defect, TurnTrace, defect::ensure};

/// The state of one text block, built from its deltas and its final event.
struct BlockState {
    channel: TextChannel,
    deltas: String,
    finished: bool,
}

/// Fails if the events of the turn break an invariant that viewers rely on.
pub fn check(trace: &TurnTrace) -> Result<(), Defect> {
    check_start_and_end(trace)?;
    check_blocks(trace)?;
    check_tools(trace)?;
    check_approval_requests(trace)?;
    check_usage(trace)
}

/// Checks that `Started` comes once and before everything except notices and native events, and
/// that the agent emits none of the engine's own events.
fn check_start_and_end(trace: &TurnTrace) -> Result<(), Defect> {
    let mut started = 0;
    for event in trace.events() {
        match event {
            EventKind::Started(_) => started += 1,
            EventKind::Notice(_) | EventKind::Native { .. } => {}
            EventKind::Finished(_) | EventKind::Approval(_) | EventKind::Resolved(_) => {
                return Err(Defect::new(format!("only the engine says {event:?}")));
            }
            // A turn that failed before it started may still report its (zero) usage.
            EventKind::Usage(_) if trace.outcome.status != TurnStatus::Completed => {}
            _ => ensure!(started == 1, "before the start of the turn it said {event:?}"),
        }
    }
    ensure!(started <= 1, "the turn started {started} times");
    let is_whole = trace.outcome.status != TurnStatus::Completed || started == 1;
    ensure!(is_whole, "the turn completed without a start");
    ensure!(!trace.outcome.reason.is_empty(), "the turn ended without a reason");
    if let Some(failure) = trace.outcome.status.failure() {
        ensure!(!failure.message.is_empty(), "the turn failed without a message");
    }
    Ok(())
}

/// Checks that a block has deltas and then one final event, whose text equals the concatenated
/// deltas or is empty to retract them.
fn check_blocks(trace: &TurnTrace) -> Result<(), Defect> {
    let mut blocks: BTreeMap<BlockId, BlockState> = BTreeMap::new();
    for event in trace.events() {
        let (EventKind::Delta { block, channel, text } | EventKind::Block { block, channel, text }) =
            event
        else {
            continue;
        };
        let state = blocks.entry(*block).or_insert_with(|| BlockState {
            channel: *channel,
            deltas: String::new(),
            finished: false,
        });
        ensure!(state.channel == *channel, "block {block} changed its channel");
        ensure!(!state.finished, "block {block} went on after its end");
        if matches!(event, EventKind::Delta { .. }) {
            ensure!(!text.is_empty(), "block {block} has an empty piece");
            state.deltas.push_str(text);
        } else {
            state.finished = true;
            let fits = text.is_empty() || state.deltas.is_empty() || **text == *state.deltas;
            ensure!(fits, "block {block} is `{text}`, and its pieces are `{}`", state.deltas);
        }
    }
    for (number, (block, state)) in (0..).zip(&blocks) {
        ensure!(*block == number, "block {number} is missing before block {block}");
        ensure!(state.finished, "block {block} has no end");
    }
    Ok(())
}

/// Checks that every tool call starts once and ends once.
fn check_tools(trace: &TurnTrace) -> Result<(), Defect> {
    let mut known = HashSet::new();
    let mut open = HashSet::new();
    for event in trace.events() {
        match event {
            EventKind::ToolCall(call) => {
                ensure!(known.insert(&call.id), "tool call {} started twice", call.id);
                open.insert(&call.id);
                let is_named = !call.name.is_empty() && !call.title.is_empty();
                ensure!(is_named, "tool call {} has no name", call.id);
            }
            EventKind::ToolResult(result) => {
                let id = &result.id;
                ensure!(open.remove(id), "tool call {id} ended without having started");
            }
            _ => {}
        }
    }
    ensure!(open.is_empty(), "tool calls without an end: {open:?}");
    Ok(())
}

/// Checks that an approval request has a description, is made once, and is withdrawn at most once.
fn check_approval_requests(trace: &TurnTrace) -> Result<(), Defect> {
    let mut asked = HashSet::new();
    let mut withdrawn = HashSet::new();
    for one in &trace.agent_events {
        match one {
            AgentEvent::ApprovalRequest(request) => {
                ensure!(asked.insert(&request.key), "approval {} was asked twice", request.key);
                for text in [&request.title, &request.detail, &request.tool_name] {
                    let key = &request.key;
                    ensure!(!text.trim().is_empty(), "approval {key} does not say for what");
                }
                if let Some(tool) = &request.tool_id {
                    let known = trace.tool_calls().iter().any(|call| call.id == *tool);
                    ensure!(known, "approval {} is about an unknown tool call", request.key);
                }
            }
            AgentEvent::ApprovalWithdrawn(key) => {
                ensure!(asked.contains(key), "approval {key} was withdrawn and never asked");
                ensure!(withdrawn.insert(key), "approval {key} was withdrawn twice");
            }
            AgentEvent::Event(_)
            | AgentEvent::Activity(_)
            | AgentEvent::Quota(_)
            | AgentEvent::HandedOnCost(_) => {}
        }
    }
    Ok(())
}

/// Checks that the usage only grows, because it is cumulative.
fn check_usage(trace: &TurnTrace) -> Result<(), Defect> {
    let usages = trace.usages();
    for pair in usages.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let grows = before.input_tokens <= after.input_tokens
            && before.output_tokens <= after.output_tokens
            && before.cache_read_tokens <= after.cache_read_tokens
            && before.cache_write_tokens <= after.cache_write_tokens;
        ensure!(grows, "the token counts of a turn decreased: {usages:?}");
    }
    Ok(())
}

/// Fails if a completed turn does not report its token counts.
pub fn check_reported_usage(trace: &TurnTrace) -> Result<(), Defect> {
    if trace.outcome.status != TurnStatus::Completed {
        return Ok(());
    }
    let Some(last) = trace.usages().pop() else {
        return Err(Defect::new("it does not say how many tokens the turn used"));
    };
    let read = last.input_tokens + last.cache_read_tokens + last.cache_write_tokens;
    let output = last.output_tokens;
    ensure!(read > 0 && output > 0, "it says that the turn read {read} and wrote {output} tokens");
    Ok(())
}
