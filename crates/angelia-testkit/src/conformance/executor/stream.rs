//! The invariants of a turn's event stream, whatever the turn's outcome.

use std::collections::{BTreeMap, HashSet};

use angelia_core::{
    model::{BlockId, EventKind, TextChannel, TurnStatus},
    ports::AgentEvent,
};

use crate::turn_output::TurnOutput;

/// The state of one text block, built from its deltas and its final event.
struct BlockState {
    channel: TextChannel,
    deltas: String,
    finished: bool,
}

/// Panics if the events of the turn break an invariant that viewers rely on.
pub(super) fn check(heard: &TurnOutput) {
    check_start_and_end(heard);
    check_blocks(heard);
    check_tools(heard);
    check_approval_requests(heard);
    check_usage(heard);
}

/// `Started` comes once and before everything except notices and native events. The agent emits
/// none of the events that belong to the engine.
fn check_start_and_end(heard: &TurnOutput) {
    let mut started = 0;
    for event in heard.events() {
        match event {
            EventKind::Started(_) => started += 1,
            EventKind::Notice(_) | EventKind::Native { .. } => {}
            EventKind::Finished(_) | EventKind::Approval(_) | EventKind::Resolved(_) => {
                panic!("only the engine says {event:?}")
            }
            // A turn that failed before it started may still report its (zero) usage.
            EventKind::Usage(_) if heard.outcome.status != TurnStatus::Completed => {}
            _ => assert_eq!(started, 1, "before the start: {event:?} in {heard:#?}"),
        }
    }
    assert!(started <= 1, "started {started} times: {heard:#?}");
    if heard.outcome.status == TurnStatus::Completed {
        assert_eq!(started, 1, "{heard:#?}");
    }
    assert!(!heard.outcome.reason.is_empty(), "{:?}", heard.outcome);
    if let Some(failure) = heard.outcome.status.failure() {
        assert!(!failure.message.is_empty(), "{failure:?}");
    }
}

/// A block has deltas and then one final event. Its text equals the concatenated deltas, or is
/// empty to retract them.
fn check_blocks(heard: &TurnOutput) {
    let mut blocks: BTreeMap<BlockId, BlockState> = BTreeMap::new();
    for event in heard.events() {
        let (EventKind::Delta { block, channel, text } | EventKind::Block { block, channel, text }) =
            event
        else {
            continue;
        };
        let told = blocks.entry(*block).or_insert_with(|| BlockState {
            channel: *channel,
            deltas: String::new(),
            finished: false,
        });
        assert_eq!(told.channel, *channel, "block {block}: {heard:#?}");
        assert!(!told.finished, "block {block} goes on: {heard:#?}");
        if matches!(event, EventKind::Delta { .. }) {
            assert!(!text.is_empty(), "an empty piece of block {block}");
            told.deltas.push_str(text);
        } else {
            told.finished = true;
            let fits = text.is_empty() || told.deltas.is_empty() || **text == *told.deltas;
            assert!(fits, "block {block} is not its pieces: {heard:#?}");
        }
    }
    for (number, (block, told)) in (0..).zip(&blocks) {
        assert_eq!(*block, number, "numbered upward from 0: {heard:#?}");
        assert!(told.finished, "block {block} has no end: {heard:#?}");
    }
}

/// Every tool call starts once and ends once.
fn check_tools(heard: &TurnOutput) {
    let mut known = HashSet::new();
    let mut open = HashSet::new();
    for event in heard.events() {
        match event {
            EventKind::ToolCall(call) => {
                assert!(known.insert(&call.id), "started twice: {call:?}");
                open.insert(&call.id);
                assert!(!call.name.is_empty() && !call.title.is_empty(), "{call:?}");
            }
            EventKind::ToolResult(result) => {
                assert!(open.remove(&result.id), "not running: {result:?}");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "still running: {open:?} in {heard:#?}");
}

/// An approval request describes its subject, is made once, and is withdrawn at most once.
fn check_approval_requests(heard: &TurnOutput) {
    let mut asked = HashSet::new();
    let mut withdrawn = HashSet::new();
    for one in &heard.agent_events {
        match one {
            AgentEvent::ApprovalRequest(request) => {
                assert!(asked.insert(&request.key), "asked twice: {request:?}");
                for text in [&request.title, &request.detail, &request.tool_name] {
                    assert!(!text.trim().is_empty(), "{request:?}");
                }
                if let Some(tool) = &request.tool_id {
                    let known = heard.tool_calls().iter().any(|call| call.id == *tool);
                    assert!(known, "of an unknown tool: {request:?}");
                }
            }
            AgentEvent::ApprovalWithdrawn(key) => {
                assert!(asked.contains(key), "never asked: {key}");
                assert!(withdrawn.insert(key), "withdrawn twice: {key}");
            }
            AgentEvent::Event(_) | AgentEvent::Activity(_) | AgentEvent::Quota(_) => {}
        }
    }
}

/// Usage is cumulative, so it only grows, and it is reported before a turn completes.
fn check_usage(heard: &TurnOutput) {
    let usages = heard.usages();
    for pair in usages.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        assert!(
            before.input_tokens <= after.input_tokens
                && before.output_tokens <= after.output_tokens
                && before.cache_read_tokens <= after.cache_read_tokens
                && before.cache_write_tokens <= after.cache_write_tokens,
            "cumulative: {usages:?}"
        );
    }
    if heard.outcome.status == TurnStatus::Completed {
        let last = usages.last().unwrap();
        let read = last.input_tokens + last.cache_read_tokens + last.cache_write_tokens;
        assert!(read > 0 && last.output_tokens > 0, "{last:?}");
    }
}
