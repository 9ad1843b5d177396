//! The assignment of lines to turns: the CLI's own turns, leftovers, queued messages, and events
//! around a turn.

use angelia_core::{
    model::{Decision, EventKind, FailureKind, TurnStatus, Verdict},
    ports::{Activity, AgentEvent, AgentOutcome},
};
use angelia_executors::claude::translate::{StreamSignal, StreamTranslator};
use serde_json::{Value, json};

use super::driver::translator;

struct ScriptedCli {
    translator: StreamTranslator,
    out: Vec<AgentEvent>,
}

impl ScriptedCli {
    fn new() -> Self {
        Self { translator: translator(false), out: Vec::new() }
    }

    fn begin(&mut self, uuid: &str) {
        self.translator.begin_turn(uuid);
        self.out.clear();
    }

    fn feed(&mut self, value: &Value) -> Option<StreamSignal> {
        self.translator.translate_line(value.to_string().as_bytes(), &mut self.out)
    }

    fn feed_quietly(&mut self, values: &[Value]) {
        for value in values {
            let signal = self.feed(value);
            assert!(signal.is_none(), "{value}: {signal:?}");
        }
    }

    fn feed_until_end(&mut self, value: &Value) -> AgentOutcome {
        let signal = self.feed(value);
        let ended = match signal {
            Some(StreamSignal::TurnEnded(ended)) => Some(ended),
            _ => None,
        };
        ended.unwrap()
    }

    /// Returns the text that a viewer has at the end.
    fn answer_text(&self) -> String {
        let mut blocks = std::collections::BTreeMap::new();
        for emitted in &self.out {
            if let AgentEvent::Event(EventKind::Block { block, text, .. }) = emitted {
                blocks.insert(*block, text.to_string());
            }
        }
        blocks.into_values().collect()
    }

    fn count(&self, matches: impl Fn(&EventKind) -> bool) -> usize {
        let matches = |it: &&AgentEvent| matches!(it, AgentEvent::Event(kind) if matches(kind));
        self.out.iter().filter(matches).count()
    }
}

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})
}

fn init_for(uuid: &str) -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "user_message_uuids": [uuid]})
}

fn lifecycle(uuid: &str, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state})
}

fn text(id: &str, text: &str) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "m",
        "content": [{"type": "text", "text": text}]}})
}

fn result(text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": text})
}

fn result_for(uuid: &str, text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": text,
        "user_message_uuid": uuid, "user_message_uuids": [uuid]})
}

fn report(text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": text,
        "origin": {"kind": "task-notification"}})
}

fn task(subtype: &str, id: &str, more: &Value) -> Value {
    let mut line = json!({"type": "system", "subtype": subtype, "task_id": id});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line
}

#[test]
fn a_report_that_runs_when_we_come_is_not_our_answer() {
    // In older versions only the result's origin shows it, so the shown text is withdrawn.
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init(), text("m1", "a task ended"), report("a task ended")]);
    process.feed_quietly(&[init(), text("m2", "hello")]);
    assert_eq!(process.feed_until_end(&result("hello")).text.as_deref(), Some("hello"));
    assert_eq!(process.answer_text(), "hello");
    assert_eq!(process.count(|kind| matches!(kind, EventKind::Started(_))), 1);
}

#[test]
fn while_our_message_waits_lines_without_its_uuid_are_not_ours() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[
        lifecycle("u1", "queued"),
        init(),
        text("m1", "a report"),
        report("a report"),
    ]);
    assert_eq!(process.count(|kind| matches!(kind, EventKind::Block { .. })), 0);
    assert_eq!(process.count(|kind| matches!(kind, EventKind::Started(_))), 0);
    assert_eq!(process.count(|kind| matches!(kind, EventKind::Native { .. })), 2, "kept");
    process.feed_quietly(&[lifecycle("u1", "started"), init_for("u1"), text("m2", "hello")]);
    process.feed_until_end(&result_for("u1", "hello"));
    assert_eq!(process.answer_text(), "hello");
}

#[test]
fn a_turn_of_its_own_between_ours_is_told_apart() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init()]);
    process.feed_until_end(&result("one"));
    process.feed_quietly(&[init(), text("m1", "by itself")]);
    assert!(process.translator.runs_foreign_turn());
    process.begin("u2");
    process.feed_quietly(&[
        text("m1", "more by itself"),
        report("by itself"),
        init(),
        text("m2", "two"),
    ]);
    process.feed_until_end(&result("two"));
    assert_eq!(process.answer_text(), "two");
}

#[test]
fn a_message_taken_into_a_running_turn_gets_its_result() {
    let mut process = ScriptedCli::new();
    process.feed_quietly(&[init()]);
    process.begin("u1");
    let replay = json!({"type": "user", "isReplay": true, "uuid": "u1",
        "message": {"role": "user", "content": "hi"}});
    process.feed_quietly(&[replay, text("m1", "both")]);
    assert_eq!(process.feed_until_end(&report("both")).text.as_deref(), Some("both"));
    assert_eq!(process.count(|kind| matches!(kind, EventKind::Started(_))), 1);
}

#[test]
fn the_result_of_a_message_we_gave_up_is_not_the_next_ones() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init_for("u1"), text("m1", "never")]);
    process.begin("u2");
    process.feed_quietly(&[text("m1", "mind"), result_for("u1", "never mind")]);
    process.feed_quietly(&[init_for("u2"), text("m2", "two")]);
    assert_eq!(process.feed_until_end(&result_for("u2", "two")).text.as_deref(), Some("two"));
    assert_eq!(process.answer_text(), "two");
}

#[test]
fn merged_messages_share_a_result() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init_for("u1")]);
    let merged = json!({"type": "result", "is_error": false, "result": "both",
        "user_message_uuid": "u2", "user_message_uuids": ["u1", "u2"]});
    process.feed_until_end(&merged);
}

#[test]
fn a_message_that_never_ran_ends_its_turn() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[lifecycle("u1", "queued")]);
    assert_eq!(
        process.feed_until_end(&lifecycle("u1", "cancelled")).status,
        TurnStatus::Interrupted
    );
    process.begin("u2");
    let ended = process.feed_until_end(&lifecycle("u2", "discarded"));
    assert_eq!(ended.status.failure().unwrap().kind, FailureKind::Agent);
    // Once it runs, only its result ends it.
    process.begin("u3");
    process.feed_quietly(&[
        lifecycle("u3", "started"),
        init_for("u3"),
        lifecycle("u3", "cancelled"),
    ]);
    process.feed_until_end(&result_for("u3", "x"));
}

#[test]
fn several_tasks_are_waited_for_and_the_last_words_count() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init()]);
    for id in ["b1", "b2"] {
        process.feed_quietly(&[task("task_started", id, &json!({"tool_use_id": "t"}))]);
    }
    process.feed_quietly(&[result("launched")]);
    let activity = AgentEvent::Activity(Activity::Background);
    assert!(process.out.iter().any(|it| format!("{it:?}") == format!("{activity:?}")));
    let done = json!({"status": "completed"});
    process.feed_quietly(&[task("task_notification", "b1", &done), init(), report("one done")]);
    process.feed_quietly(&[task("task_notification", "b2", &done), init(), text("m", "all done")]);
    assert_eq!(process.feed_until_end(&report("")).text.as_deref(), Some("one done"));
}

#[test]
fn a_report_within_the_turn_is_not_waited_for_again() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    let requesting = json!({"type": "system", "subtype": "status", "status": "requesting"});
    process.feed_quietly(&[init(), requesting.clone()]);
    process.feed_quietly(&[task("task_started", "b1", &json!({"is_backgrounded": true}))]);
    process.feed_quietly(&[task("task_notification", "b1", &json!({"status": "completed"}))]);
    process.feed_quietly(&[requesting]);
    process.feed_until_end(&result("told already"));
}

#[test]
fn a_stopped_task_owes_no_report() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init(), task("task_started", "b1", &json!({})), result("launched")]);
    assert!(process.translator.in_background());
    let ended =
        process.feed_until_end(&task("task_notification", "b1", &json!({"status": "stopped"})));
    assert_eq!(ended.text.as_deref(), Some("launched"));
}

#[test]
fn a_failed_report_does_not_take_the_answer_back() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init(), task("task_started", "b1", &json!({})), result("launched")]);
    process.feed_quietly(&[task("task_notification", "b1", &json!({"status": "failed"})), init()]);
    let failed = json!({"type": "result", "subtype": "success", "is_error": true,
        "result": "API Error", "origin": {"kind": "task-notification"}});
    let ended = process.feed_until_end(&failed);
    assert_eq!(ended.status, TurnStatus::Completed);
    assert_eq!(ended.text.as_deref(), Some("launched"));
    let warned = |kind: &EventKind| matches!(kind, EventKind::Notice(it) if &*it.code == "background_failed");
    assert_eq!(process.count(warned), 1);
}

#[test]
fn an_interrupt_in_the_background_keeps_the_text() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init(), task("task_started", "b1", &json!({})), result("launched")]);
    process
        .feed_quietly(&[task("task_notification", "b1", &json!({"status": "completed"})), init()]);
    let aborted = json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
        "terminal_reason": "aborted_streaming", "errors": ["[ede_diagnostic] x"]});
    let ended = process.feed_until_end(&aborted);
    assert_eq!(ended.status, TurnStatus::Interrupted);
    assert_eq!(ended.text.as_deref(), Some("launched"));
}

#[test]
fn a_process_that_dies_in_the_background_leaves_the_answer() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init(), task("task_started", "b1", &json!({})), result("launched")]);
    let Some(ended) = process.translator.end_of_output(&mut process.out) else {
        panic!("not ended");
    };
    assert_eq!(ended.status, TurnStatus::Completed);
    assert!(process.translator.end_of_output(&mut process.out).is_none(), "once");
}

#[test]
fn the_assistant_line_wins_over_its_deltas() {
    let stream = |event: Value| json!({"type": "stream_event", "event": event});
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[
        init(),
        stream(json!({"type": "message_start", "message": {"id": "m1"}})),
        stream(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}),
        ),
        stream(json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "Helo"}})),
        text("m1", "Hello"),
        // A second message in its place withdraws no completed block.
        stream(json!({"type": "message_start", "message": {"id": "m2"}})),
        stream(json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "lost"}})),
        stream(json!({"type": "message_start", "message": {"id": "m3"}})),
        text("m3", " world"),
        text("m3", ""),
    ]);
    process.feed_until_end(&result("Hello world"));
    assert_eq!(process.answer_text(), "Hello world");
}

#[test]
fn a_line_too_long_is_said_and_ends_nothing() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.translator.report_long_line(70_000_000, &mut process.out);
    let said = |kind: &EventKind| {
        matches!(kind, EventKind::Notice(it)
        if &*it.code == "line_too_long" && it.text.contains("70000000"))
    };
    assert_eq!(process.count(said), 1);
    process.feed_until_end(&result("still here"));
}

#[test]
fn what_is_not_json_is_kept_as_text() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    let line = b"warning: \xff \"quoted\"";
    assert!(process.translator.translate_line(line, &mut process.out).is_none());
    let [AgentEvent::Event(EventKind::Native { name, raw })] = &process.out[..] else {
        panic!("{:?}", process.out);
    };
    assert_eq!(&**name, "not_json");
    assert_eq!(raw.get(), "\"warning: \u{fffd} \\\"quoted\\\"\"");
}

#[test]
fn approvals_are_answered_once_also_between_turns() {
    let mut process = ScriptedCli::new();
    let ask = json!({"type": "control_request", "request_id": "r1", "request":
        {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}});
    process.feed_quietly(&[ask]);
    assert!(matches!(&process.out[..], [AgentEvent::ApprovalRequest(ask)] if &*ask.key == "r1"));
    assert_eq!(process.translator.pending_approvals().count(), 1);
    let decision = Decision::new(Verdict::Deny, "nobody");
    assert!(process.translator.answer_approval("r1", &decision).is_some());
    assert!(process.translator.answer_approval("r1", &decision).is_none());
    let cancel = json!({"type": "control_cancel_request", "request_id": "r1"});
    process.out.clear();
    process.feed_quietly(&[cancel]);
    assert!(
        !process.out.iter().any(|it| matches!(it, AgentEvent::ApprovalWithdrawn(_))),
        "answered already"
    );
}

#[test]
fn words_that_come_too_late_for_the_turn_still_belong_to_it() {
    let mut process = ScriptedCli::new();
    process.begin("u1");
    process.feed_quietly(&[init_for("u1")]);
    // The CLI takes the message into the running turn: one result for both.
    process.translator.add_steer("s1");
    process.feed_quietly(&[lifecycle("s1", "queued"), lifecycle("s1", "started")]);
    process.feed_until_end(&result_for("u1", "both"));
    // The message comes too late: the CLI runs a separate turn, and its text is the answer.
    process.begin("u2");
    process.translator.add_steer("s2");
    process.feed_quietly(&[init_for("u2"), lifecycle("s2", "queued"), result_for("u2", "first")]);
    assert!(!process.translator.in_background());
    process.feed_quietly(&[lifecycle("s2", "started"), init_for("s2"), text("m", "second")]);
    assert_eq!(process.feed_until_end(&result_for("s2", "second")).text.as_deref(), Some("second"));
    // The CLI drops the message: no more lines come.
    process.begin("u3");
    process.translator.add_steer("s3");
    process.feed_quietly(&[init_for("u3"), lifecycle("s3", "queued"), result_for("u3", "only")]);
    assert_eq!(process.feed_until_end(&lifecycle("s3", "cancelled")).text.as_deref(), Some("only"));
}

#[test]
fn the_model_that_answers_is_part_of_the_prefix() {
    let prefix = |model: &str| {
        let mut process = ScriptedCli::new();
        process.begin("u");
        for line in [
            json!({"type": "system", "subtype": "init", "session_id": "s", "model": model}),
            json!({"type": "result", "subtype": "success", "is_error": false, "result": "ok",
                "session_id": "s", "usage": {}, "total_cost_usd": 0}),
        ] {
            process.translator.translate_line(line.to_string().as_bytes(), &mut process.out);
        }
        let used = process.out.iter().find_map(|emitted| match emitted {
            AgentEvent::Event(EventKind::Usage(usage)) => usage.prefix_sha256.clone(),
            _ => None,
        });
        used.expect("what was used is said")
    };
    assert_eq!(prefix("small"), prefix("small"));
    assert_ne!(prefix("small"), prefix("large"));
}
