//! Tests of the start, the course and the end of turns.

use angelia_core::{
    model::{EventKind, TextChannel, TurnStatus},
    ports::{Activity, AgentEvent, AgentOutcome},
};
use angelia_wire::jsonrpc::ErrorObject;
use serde_json::{Value, json};

use super::driver::{ReplayStep, ends, raw, run, translator};

fn events(steps: &[ReplayStep]) -> impl Iterator<Item = &EventKind> {
    let emitted = steps.iter().flat_map(|step| &step.emitted);
    emitted.filter_map(|emitted| match emitted {
        AgentEvent::Event(kind) => Some(kind),
        _ => None,
    })
}

fn results(steps: &[ReplayStep]) -> Vec<(String, bool, String)> {
    let all = events(steps).filter_map(|kind| match kind {
        EventKind::ToolResult(one) => Some((one.id.to_string(), one.ok, one.output.to_string())),
        _ => None,
    });
    all.collect()
}

/// A translator in a running turn, and everything it has emitted.
pub(crate) struct TurnDriver {
    pub(crate) translator: angelia_executors::codex::translate::CodexTranslator,
    pub(crate) out: Vec<AgentEvent>,
}

impl TurnDriver {
    pub(crate) fn new() -> Self {
        let mut talk = Self { translator: translator(), out: Vec::new() };
        talk.begin("turn-1");
        talk
    }

    pub(crate) fn begin(&mut self, turn: &str) {
        self.translator.begin_turn();
        self.notify("turn/started", &json!({"turn": {"id": turn}}));
        self.out.clear();
    }

    /// Feeds a message; it belongs to the first turn unless it names another.
    pub(crate) fn notify(&mut self, method: &str, params: &Value) -> Option<AgentOutcome> {
        let mut params = params.clone();
        let fields = params.as_object_mut().unwrap();
        fields.entry("threadId").or_insert_with(|| "T".into());
        fields.entry("turnId").or_insert_with(|| "turn-1".into());
        let params = raw(&params.to_string());
        self.translator.on_notification(method, &params, &mut self.out)
    }

    pub(crate) fn item(&mut self, end: &str, item: &Value) -> Option<AgentOutcome> {
        self.notify(&format!("item/{end}"), &json!({"item": item}))
    }

    pub(crate) fn formatted(&mut self) -> Vec<String> {
        let emitted = std::mem::take(&mut self.out);
        let step = ReplayStep { line: Some(1), emitted, ..ReplayStep::default() };
        let text = super::spell::spell(&[step]);
        text.lines().map(|line| line[5..].to_owned()).collect()
    }
}

#[test]
fn the_answer_is_the_last_message_and_not_a_comment() {
    let steps = run("commentary-phase");
    assert_eq!(ends(&steps)[0].text.as_deref(), Some("Final."));
    let steps = run("plan-mode-proposed-plan");
    let plan = "# Plan\n1. Do a thing\n2. Do another\n";
    assert_eq!(ends(&steps)[0].text.as_deref(), Some(plan));
}

#[test]
fn a_question_that_does_not_wait_is_part_of_the_answer() {
    let steps = run("ask-user-async");
    let text = ends(&steps)[0].text.clone().unwrap();
    assert_eq!(&*text, "Which port?\n- 80\n- 8080\n\nDone.");
}

#[test]
fn what_an_interrupt_leaves_open_is_closed() {
    for name in ["interrupt-command", "interrupt-streaming", "interrupt-pending-approval"] {
        let steps = run(name);
        assert_eq!(ends(&steps)[0].status, TurnStatus::Interrupted, "{name}");
    }
    let steps = run("interrupt-command");
    let expected = ("c1".to_owned(), false, "begin\n[interrupted]".to_owned());
    assert_eq!(results(&steps), [expected]);
    let steps = run("interrupt-streaming");
    let whole = events(&steps).find_map(|kind| match kind {
        EventKind::Block { text, .. } => Some(text.to_string()),
        _ => None,
    });
    assert_eq!(whole.as_deref(), Some("partial text "), "what was shown stays");
}

#[test]
fn a_command_may_outlive_its_turn() {
    let steps = run("background-terminal");
    let running = "still running in the background";
    assert_eq!(results(&steps), [("c1".to_owned(), true, running.to_owned())]);

    let mut talk = TurnDriver::new();
    let command = json!({"type": "commandExecution", "id": "c1", "command": "sleep 9"});
    talk.item("started", &command);
    talk.notify("turn/completed", &json!({"turn": {"id": "turn-1", "status": "completed"}}));
    talk.formatted();
    let failed = json!({"type": "commandExecution", "id": "c1", "command": "sleep 9",
        "status": "failed", "exitCode": 137});
    talk.item("completed", &failed);
    assert_eq!(talk.formatted(), Vec::<String>::new(), "it belongs to no turn");
    talk.translator.begin_turn();
    talk.notify("turn/started", &json!({"turn": {"id": "turn-2"}}));
    let news = "notice info background \"work left running by an earlier turn has failed with exit \
                code 137: sleep 9\"";
    assert_eq!(talk.formatted()[1], news);
    talk.item("completed", &failed);
    let told = talk.formatted();
    assert!(told[0].starts_with("native item/completed/commandExecution"), "{told:?}");
    assert_eq!(told[1], news);
}

#[test]
fn what_a_retry_replaces_is_taken_back_when_something_is_in_its_place() {
    let mut talk = TurnDriver::new();
    let message = |text: &str| json!({"type": "agentMessage", "id": "m", "text": text});
    let retry = json!({"error": {"message": "Reconnecting... 1/5"}, "willRetry": true});
    talk.item("started", &message(""));
    talk.notify("item/agentMessage/delta", &json!({"itemId": "m", "delta": "half"}));
    talk.notify("error", &retry);
    assert_eq!(
        talk.formatted(),
        [
            "text.delta 0 \"half\"",
            "notice warning retrying \"Reconnecting... 1/5\"",
            "activity Retrying",
        ]
    );
    talk.item("started", &message(""));
    talk.notify("item/agentMessage/delta", &json!({"itemId": "m", "delta": "whole"}));
    talk.item("completed", &message("whole"));
    assert_eq!(
        talk.formatted(),
        ["activity WaitingForModel", "text 0 \"\"", "text.delta 1 \"whole\"", "text 1 \"whole\"",]
    );
}

#[test]
fn what_no_retry_replaces_stays() {
    let steps = run("fail-cut-stream");
    let first_end = steps.iter().position(|step| step.ended.is_some()).unwrap();
    let blocks: Vec<String> = events(&steps[..=first_end])
        .filter_map(|kind| match kind {
            EventKind::Block { text, .. } => Some(text.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, ["", "", "", "", "", "partial "]);
}

#[test]
fn reasoning_is_apart_from_the_answer() {
    let steps = run("basic-turn");
    let blocks: Vec<(TextChannel, String)> = events(&steps)
        .filter_map(|kind| match kind {
            EventKind::Block { channel, text, .. } => Some((*channel, text.to_string())),
            _ => None,
        })
        .collect();
    assert_eq!(
        blocks,
        [
            (TextChannel::Reasoning, "**Thinking** about the request".to_owned()),
            (TextChannel::Answer, "Hello from the fake model.".to_owned()),
        ]
    );
}

#[test]
fn spending_is_told_per_turn() {
    let spent = |name: &str| -> Vec<u64> {
        let all = run(name);
        let usages = events(&all).filter_map(|kind| match kind {
            EventKind::Usage(usage) => Some(usage.input_tokens),
            _ => None,
        });
        usages.collect()
    };
    assert_eq!(spent("approval-command-acceptForSession"), [200, 200]);
    assert_eq!(spent("resume-after-kill"), [100], "not what was spent before");
}

#[test]
fn the_sign_of_a_broken_off_turn_ends_it() {
    let aborted = "<turn_aborted>\nThe user interrupted the previous turn.\n</turn_aborted>";
    let message = |id: &str, text: &str| json!({"type": "userMessage", "id": id, "content": [{"type": "text", "text": text}]});
    let mut talk = TurnDriver::new();
    assert!(talk.item("started", &message("u1", aborted)).is_none(), "our own words");
    assert!(talk.item("completed", &message("u1", aborted)).is_none(), "our own words");
    assert!(talk.item("completed", &message("u2", "hello")).is_none(), "other words");
    let signal = talk.item("completed", &message("u3", aborted));
    let Some(ended) = signal else {
        unreachable!("the turn ends");
    };
    assert_eq!(ended.status, TurnStatus::Interrupted);
    assert_eq!(talk.translator.active_turn(), Some("turn-1"), "to be interrupted first");
    talk.notify("turn/completed", &json!({"turn": {"id": "turn-1", "status": "interrupted"}}));
    assert_eq!(talk.translator.active_turn(), None);

    let mut talk = TurnDriver::new();
    let said = json!({"type": "agentMessage", "id": "m", "text": aborted});
    assert!(talk.item("completed", &said).is_some());
}

#[test]
fn compaction_is_an_activity() {
    let mut talk = TurnDriver::new();
    talk.item("started", &json!({"type": "contextCompaction", "id": "c"}));
    talk.item("completed", &json!({"type": "contextCompaction", "id": "c"}));
    talk.notify("thread/compacted", &json!({}));
    assert_eq!(
        talk.formatted(),
        [
            "activity Compacting",
            "notice info compacting \"the agent shortens its history\"",
            "activity WaitingForModel",
            "notice info compacted \"the agent has shortened its history\"",
        ]
    );
}

#[test]
fn a_turn_that_is_not_taken_up_fails_with_the_servers_words() {
    let mut translator = translator();
    translator.begin_turn();
    let error = ErrorObject::new(-32600, "thread not found: T");
    let mut out = Vec::new();
    let ended = translator.on_turn_refused(&error, &mut out);
    let TurnStatus::Failed(failure) = ended.status else {
        unreachable!("it fails");
    };
    assert_eq!(&*failure.message, "thread not found: T");
    assert!(failure.hint.unwrap().contains("new session"));
    assert!(translator.on_end_of_output(&mut out).is_none(), "it has ended");
}

#[test]
fn plans_are_lists() {
    let steps = run("update-plan");
    let items = events(&steps).find_map(|kind| match kind {
        EventKind::Plan(plan) => Some(plan.items.len()),
        _ => None,
    });
    assert_eq!(items, Some(2));
}

#[test]
fn a_closed_thread_ends_its_turn() {
    let mut talk = TurnDriver::new();
    assert!(talk.notify("thread/closed", &json!({"threadId": "other"})).is_none());
    assert!(talk.notify("thread/closed", &json!({})).is_some());
}

#[test]
fn limits_are_told_once_and_kept_for_failures() {
    let mut talk = TurnDriver::new();
    let limits = json!({"rateLimits": {"primary": {"usedPercent": 100, "resetsAt": 1_800_000_000},
        "secondary": {"usedPercent": 12, "resetsAt": 1_900_000_000}, "planType": "plus"}});
    talk.notify("account/rateLimits/updated", &limits);
    talk.notify("account/rateLimits/updated", &limits);
    let (quotas, notices): (Vec<_>, Vec<_>) =
        talk.formatted().into_iter().partition(|line| line.starts_with("quota "));
    assert_eq!(
        notices,
        ["notice warning rate_limited \"an account limit is used up until \
          2027-01-15T08:00:00Z\""]
    );
    let reported = [
        "quota primary used=Some(1.0) exhausted=true",
        "quota secondary used=Some(0.12) exhausted=false",
    ];
    assert_eq!(quotas, [reported, reported].concat());
    let turn = json!({"turn": {"id": "turn-1", "status": "failed", "completedAt": 1_799_999_940,
        "error": {"message": "limit", "codexErrorInfo": "usageLimitExceeded"}}});
    let Some(ended) = talk.notify("turn/completed", &turn) else {
        unreachable!("it ends");
    };
    let failure = ended.status.failure().unwrap().clone();
    assert_eq!(failure.retry_after.unwrap().as_secs(), 60);
    assert!(talk.formatted().iter().any(|line| line.ends_with("lane=subscription")));
}

#[test]
fn activities_are_told_when_they_change() {
    let mut talk = TurnDriver::new();
    let retry = json!({"error": {"message": "again"}, "willRetry": true});
    talk.notify("error", &retry);
    talk.notify("error", &retry);
    let changes = (talk.out.iter())
        .filter(|emitted| matches!(emitted, AgentEvent::Activity(Activity::Retrying)));
    assert_eq!(changes.count(), 1);
}
