//! Unexpected behaviour of agents; each case was recorded.

use angelia_core::{
    model::{EventKind, FailureKind, ToolClass, TurnStatus, Usage},
    ports::AgentEvent,
};

use super::driver::{ReplayStep, drive, fixture};

fn steps(name: &str) -> Vec<ReplayStep> {
    drive(&fixture(name).lines)
}

fn events(steps: &[ReplayStep]) -> impl Iterator<Item = &EventKind> {
    let emitted = steps.iter().flat_map(|step| &step.emitted);
    emitted.filter_map(|emitted| match emitted {
        AgentEvent::Event(kind) => Some(kind),
        _ => None,
    })
}

fn of_turn(name: &str, turn: usize) -> Vec<ReplayStep> {
    let mut steps = steps(name);
    steps.retain(|step| step.turn == (1, turn));
    steps
}

fn usage(steps: &[ReplayStep]) -> &Usage {
    let found = events(steps).find_map(|kind| match kind {
        EventKind::Usage(usage) => Some(usage),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn a_tool_may_be_known_only_from_the_question() {
    // Gemini announces no tool call; the permission request is its first message about the tool.
    let steps = of_turn("gemini-session", 2);
    let call = events(&steps).find_map(|kind| match kind {
        EventKind::ToolCall(call) => Some(call),
        _ => None,
    });
    let call = call.unwrap();
    assert_eq!(call.class, ToolClass::Execute);
    assert_eq!(&*call.title, "touch made.txt && echo ok");
    let ask = steps.iter().flat_map(|step| &step.emitted).find_map(|one| match one {
        AgentEvent::ApprovalRequest(ask) => Some(ask),
        _ => None,
    });
    let ask = ask.unwrap();
    assert_eq!(ask.subject.as_deref(), Some("touch made.txt && echo ok"));
    assert_eq!(ask.tool_id.as_ref(), Some(&call.id));
}

#[test]
fn a_refused_tool_may_never_be_heard_of_again() {
    // Gemini says nothing about the refused call; its next text ends the call.
    let steps = of_turn("gemini-session", 3);
    let result = events(&steps).position(|kind| matches!(kind, EventKind::ToolResult(_)));
    let words = events(&steps).position(|kind| matches!(kind, EventKind::Delta { .. }));
    assert!(result.unwrap() < words.unwrap());
}

#[test]
fn options_are_chosen_by_kind() {
    for (name, once, no) in [
        ("gemini-session", "proceed_once", "cancel"),
        ("opencode-session", "once", "reject"),
        ("claude-session", "allow", "reject"),
    ] {
        let told = |turn: usize| -> String {
            let steps = of_turn(name, turn);
            steps.iter().flat_map(|step| step.told.clone()).collect()
        };
        assert!(told(2).contains(&format!("\"optionId\":\"{once}\"")), "{name}: {}", told(2));
        assert!(told(3).contains(&format!("\"optionId\":\"{no}\"")), "{name}: {}", told(3));
        assert!(told(4).contains("cancelled"), "{name}: {}", told(4));
    }
}

#[test]
fn empty_pieces_say_nothing() {
    let steps = steps("claude-session");
    let empty = events(&steps).any(|kind| match kind {
        EventKind::Delta { text, .. } | EventKind::Block { text, .. } => text.is_empty(),
        _ => false,
    });
    assert!(!empty);
}

#[test]
fn what_was_spent_is_found_where_each_agent_puts_it() {
    let gemini = of_turn("gemini-session", 2);
    assert_eq!((usage(&gemini).input_tokens, usage(&gemini).output_tokens), (20, 10));
    let opencode = of_turn("opencode-session", 1);
    assert_eq!(usage(&opencode).input_tokens, 10);
    assert_eq!(usage(&opencode).cost_usd, Some(0.0));
    // Claude's adapter reports the cost of the whole conversation.
    let first = of_turn("claude-session", 1);
    let second = of_turn("claude-session", 2);
    let cost = |steps: &[ReplayStep]| usage(steps).cost_usd.unwrap();
    assert!((cost(&first) - 0.000_175).abs() < 1e-9);
    assert!((cost(&second) - 0.000_350).abs() < 1e-9);
}

#[test]
fn a_cancelled_turn_is_an_interrupted_one_and_what_comes_late_is_nobodys() {
    for name in ["gemini-session", "opencode-session", "claude-session"] {
        let steps = of_turn(name, 5);
        let ended = steps.iter().find_map(|step| step.ended.as_ref()).unwrap();
        assert_eq!(ended.status, TurnStatus::Interrupted, "{name}");
    }
    let late = steps("claude-session").into_iter().find(|step| step.line == Some(71));
    assert!(late.unwrap().emitted.is_empty());
}

#[test]
fn a_missing_login_has_many_spellings() {
    for (name, turn) in [("gemini-session", 6), ("opencode-session", 6), ("claude-noauth", 1)] {
        let steps = of_turn(name, turn);
        let ended = steps.iter().find_map(|step| step.ended.as_ref()).unwrap();
        let failure = ended.status.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::Auth, "{name}: {failure}");
        assert!(failure.hint.is_some(), "{name}");
    }
}

#[test]
fn what_a_loaded_conversation_repeats_is_not_shown() {
    for name in ["claude-session", "opencode-session"] {
        let steps = steps(name);
        let shown = steps.iter().filter(|step| step.turn.0 == 2);
        assert_eq!(shown.count(), 0, "{name}");
    }
}
