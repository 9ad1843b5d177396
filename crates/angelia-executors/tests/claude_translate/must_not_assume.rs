//! False assumptions about the CLI, point by point, each checked against a recording.

use angelia_core::{
    model::{EventKind, FailureKind, TurnStatus},
    ports::AgentEvent,
};
use angelia_executors::claude::translate::{CliRequestKind, StreamSignal};
use serde_json::{Value, json};

use super::driver::{events, format_outcomes, outcomes, recording, run, translator};

const NEWEST_VERSION: &str = "2.1.325";

fn line(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[test]
fn p01_a_line_need_not_start_with_its_type() {
    let fixture = recording(NEWEST_VERSION, "two_turns_partials_replay");
    let results: Vec<&String> =
        (fixture.lines.iter()).filter(|line| line.contains(r#""type":"result""#)).collect();
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|line| line.starts_with(r#"{"duration_api_ms""#)));
    assert_eq!(outcomes(&run(&fixture)).len(), 2);
}

#[test]
fn p02_message_stop_may_abandon_what_was_shown() {
    let steps = run(&recording(NEWEST_VERSION, "stream_cut_then_retry_ok"));
    let blocks: Vec<(u32, &str)> = events(&steps)
        .filter_map(|kind| match kind {
            EventKind::Block { block, text, .. } => Some((*block, &**text)),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, [(0, ""), (1, "Hello from the fake model.")]);
    // From index 1 on: the aborted text at index 0 stays.
    let steps = run(&recording(NEWEST_VERSION, "interrupt_mid_text"));
    let first = events(&steps).find_map(|kind| match kind {
        EventKind::Block { text, .. } => Some(&**text),
        _ => None,
    });
    assert_eq!(first, Some("w0 w1 w2 w3 "));
    assert!(!format_outcomes(&steps).contains(r#"text 0 """#));
}

#[test]
fn p03_one_message_may_give_several_results() {
    for name in ["subagent_partials", "perm_subagent", "background_task_autonomous_turn"] {
        let fixture = recording(NEWEST_VERSION, name);
        let results = fixture.lines.iter().filter(|line| line.contains(r#""type":"result""#));
        assert_eq!(results.count(), 2);
        let steps = run(&fixture);
        let ends = outcomes(&steps);
        assert_eq!(ends.len(), 1, "{name}");
        assert_eq!(ends[0].text.as_deref(), Some("Hello from the fake model."), "the last one's");
        let started = events(&steps).filter(|kind| matches!(kind, EventKind::Started(_)));
        assert_eq!(started.count(), 1, "{name}");
    }
}

#[test]
fn p04_the_result_need_not_be_the_last_line() {
    let fixture = recording(NEWEST_VERSION, "duplicate_message_uuid");
    let steps = run(&fixture);
    let end = steps.iter().position(|step| step.ended().is_some()).unwrap();
    let rest = &steps[end + 1..];
    assert!(rest.len() > 2, "lines follow");
    assert!(rest.iter().all(|step| step.emitted.is_empty() && step.signal.is_none()));
    // Events of a background agent after the first result belong to the turn.
    let steps = run(&super::driver::recording(NEWEST_VERSION, "perm_subagent"));
    let spelled = format_outcomes(&steps);
    let (before, after) = spelled.split_once("activity Background").unwrap();
    assert!(before.contains("ask tool Bash") && after.contains("tool.finished toolu_fake0030"));
}

#[test]
fn p05_a_resumed_conversation_need_not_take_a_new_prompt() {
    // Nothing on stdout shows it: we only know that the conversation was resumed.
    let steps = run(&recording(NEWEST_VERSION, "resume_changed_system_prompt"));
    let resumed = events(&steps).any(|kind| matches!(kind, EventKind::Started(it) if it.resumed));
    assert!(resumed);
    assert!(outcomes(&steps).iter().all(|ended| ended.status == TurnStatus::Completed));
}

#[test]
fn p06_swapped_servers_change_nothing_about_a_turn() {
    let fixture = recording(NEWEST_VERSION, "mcp_set_servers_swap");
    let steps = run(&fixture);
    assert_eq!(outcomes(&steps).len(), fixture.messages.len());
    let answers =
        steps.iter().filter(|step| matches!(step.signal, Some(StreamSignal::Response { .. })));
    assert!(answers.count() > 3);
}

#[test]
fn p07_a_tool_need_not_be_in_the_list_of_init() {
    let fixture = recording(NEWEST_VERSION, "json_schema");
    let init: Value = serde_json::from_str(&fixture.lines[0]).unwrap();
    let mut translator = translator(false);
    translator.begin_turn("u");
    let mut out = Vec::new();
    translator.translate_line(fixture.lines[0].as_bytes(), &mut out);
    let name = "DeferredThing";
    assert!(!init["tools"].to_string().contains(name));
    let call = json!({"type": "assistant", "message": {"id": "m", "content": [
        {"type": "tool_use", "id": "t", "name": name, "input": {}}]}});
    out.clear();
    translator.translate_line(&line(&call), &mut out);
    assert!(
        matches!(&out[..], [AgentEvent::Event(EventKind::ToolCall(call))] if &*call.name == name)
    );
}

#[test]
fn p08_the_terminal_reason_does_not_decide() {
    for (version, reason) in [("2.1.197", "completed"), (NEWEST_VERSION, "api_error")] {
        let fixture = recording(version, "error_500");
        let result: Value = serde_json::from_str(fixture.lines.last().unwrap()).unwrap();
        assert_eq!(result["terminal_reason"], reason);
        assert_eq!(result["subtype"], "success");
        let steps = run(&fixture);
        let failure = outcomes(&steps)[0].status.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::Unavailable);
    }
}

#[test]
fn p09_a_command_is_a_turn_like_any_other() {
    let steps = run(&recording(NEWEST_VERSION, "slash_clear"));
    let ends = outcomes(&steps);
    assert_eq!(ends.len(), 3);
    assert_eq!((&ends[1].status, &ends[1].text), (&TurnStatus::Completed, &None));
}

#[test]
fn p10_a_message_may_get_no_result_at_all() {
    let mut translator = translator(false);
    translator.begin_turn("u");
    let mut out = Vec::new();
    let status = json!({"type": "system", "subtype": "status", "status": null});
    assert!(
        translator.translate_line(&line(&status), &mut out).is_none(),
        "a clock must ring, not we"
    );
    let Some(ended) = translator.end_of_output(&mut out) else {
        panic!("{out:?}");
    };
    assert_eq!(ended.status.failure().unwrap().kind, FailureKind::Agent);
}

#[test]
fn p11_init_need_not_be_the_first_line() {
    let mut translator = translator(false);
    let mut out = Vec::new();
    let title = json!({"type": "system", "subtype": "session_title_changed", "title": "x"});
    translator.translate_line(&line(&title), &mut out);
    translator.begin_turn("u");
    let invalid = json!({"type": "system", "subtype": "ui_invalidate"});
    translator.translate_line(&line(&invalid), &mut out);
    assert_eq!(out.len(), 2, "kept");
    let queued = json!({"type": "command_lifecycle", "command_uuid": "u", "state": "queued"});
    translator.translate_line(&line(&queued), &mut out);
    let mcp = json!({"type": "control_request", "request_id": "r", "request":
        {"subtype": "mcp_message", "server_name": "client", "message": {"method": "initialize"}}});
    let signal = translator.translate_line(&line(&mcp), &mut out);
    assert!(
        matches!(signal, Some(StreamSignal::Request(it)) if matches!(it.kind, CliRequestKind::Mcp { .. }))
    );
    let init = json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m",
        "user_message_uuids": ["u"]});
    translator.translate_line(&line(&init), &mut out);
    assert!(matches!(out.last(), Some(AgentEvent::Event(EventKind::Started(_)))));
}

#[test]
fn p12_a_running_task_holds_the_process_but_not_the_answer() {
    let fixture = recording(NEWEST_VERSION, "background_task_autonomous_turn");
    let mut translator = translator(false);
    translator.begin_turn("u");
    let mut out = Vec::new();
    for line in &fixture.lines[..8] {
        assert!(translator.translate_line(line.as_bytes(), &mut out).is_none());
    }
    assert!(translator.in_background());
    assert_eq!(translator.running_tasks().collect::<Vec<_>>(), ["bdgimzj1a"]);
    let ended = translator.end_background(&mut out);
    assert_eq!(ended.status, TurnStatus::Completed);
    assert_eq!(ended.text.as_deref(), Some("Tool finished; is_error=False."));
    assert!(!translator.in_background());
}

#[test]
fn p13_totals_may_go_on_from_an_earlier_process() {
    for name in ["resume_ok", "resume_fork", "resume_changed_system_prompt"] {
        let steps = run(&recording(NEWEST_VERSION, name));
        for kind in events(&steps) {
            if let EventKind::Usage(usage) = kind {
                assert_eq!(usage.input_tokens, 11, "{name}");
                assert!(usage.cost_usd.unwrap() < 0.0021, "{name}");
            }
        }
    }
    // `/clear` resets the totals in the middle of a process.
    let steps = run(&recording(NEWEST_VERSION, "slash_clear"));
    let inputs: Vec<u64> = events(&steps)
        .filter_map(|kind| match kind {
            EventKind::Usage(usage) => Some(usage.input_tokens),
            _ => None,
        })
        .collect();
    assert_eq!(inputs, [11, 0, 11]);
}

#[test]
fn p14_types_are_not_a_closed_set() {
    let cases = [
        (json!({"type": "tool_progress", "tool_use_id": "t-heartbeat-0"}), "tool_progress"),
        (json!({"type": "system", "subtype": "brand_new", "x": 1}), "system/brand_new"),
        (json!({"type": "brand_new", "subtype": "y"}), "brand_new/y"),
        (json!({"type": "stream_event", "event": {"type": "new_event"}}), "stream_event/new_event"),
        (json!({"type": "system", "subtype": 5}), "system/unknown"),
        (json!({"type": "stream_event", "event": 7}), "stream_event"),
        (json!({"no": "type"}), "unknown"),
        (json!([1]), "unknown"),
    ];
    for (value, expected) in cases {
        let mut translator = translator(false);
        translator.begin_turn("u");
        let mut out = Vec::new();
        assert!(translator.translate_line(&line(&value), &mut out).is_none());
        let [AgentEvent::Event(EventKind::Native { name, raw })] = &out[..] else {
            panic!("{value}: {out:?}");
        };
        assert_eq!((&**name, raw.get()), (expected, &*value.to_string()));
    }
    // An unexpected detail does not hide the kind of the line.
    let mut translator = translator(false);
    translator.begin_turn("u");
    let odd = json!({"type": "result", "is_error": false, "event": "x", "parent_tool_use_id": 1});
    let signal = translator.translate_line(&line(&odd), &mut Vec::new());
    assert!(matches!(signal, Some(StreamSignal::TurnEnded(_))));
    let ask = json!({"type": "control_request", "request_id": "r", "request": {"subtype": "new"}});
    let signal = translator.translate_line(&line(&ask), &mut Vec::new());
    let Some(StreamSignal::Request(asked)) = signal else {
        panic!("an unknown question must still be answered");
    };
    assert!(matches!(asked.kind, CliRequestKind::Unknown { subtype, .. } if &*subtype == "new"));
}

#[test]
fn text_behind_a_settled_block_is_a_block_of_its_own() {
    let delta = |text: &str| {
        line(&json!({"type": "stream_event", "event": {
            "type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}}))
    };
    let whole = line(&json!({"type": "assistant", "message": {
        "role": "assistant", "content": [{"type": "text", "text": "first"}]}}));
    let mut translator = translator(false);
    translator.begin_turn("u");
    let mut out = Vec::new();
    for line in [&delta("fir"), &whole, &delta("late")] {
        translator.translate_line(line, &mut out);
    }
    translator.end_of_output(&mut out);
    let texts: Vec<(u32, bool, &str)> = (out.iter())
        .filter_map(|emitted| match emitted {
            AgentEvent::Event(EventKind::Delta { block, text, .. }) => {
                Some((*block, false, &**text))
            }
            AgentEvent::Event(EventKind::Block { block, text, .. }) => {
                Some((*block, true, &**text))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        texts,
        [(0, false, "fir"), (0, true, "first"), (1, false, "late"), (1, true, "late")]
    );
}
