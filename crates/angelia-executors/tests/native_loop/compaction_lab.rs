//! Conversations that get too long for a window of 10,000 tokens, and what their requests consist of.

use angelia_core::model::{EventKind, SessionSpec, ToolSet};
use angelia_executors::{native::providers::Provider, scripted_model::Reply};
use angelia_testkit::{
    direct_session::{DirectSession, TurnOutput},
    request_parts::RequestParts,
};
use serde_json::Value;

use crate::{
    loop_lab::RequestBody,
    paused_lab::{PausedLab, in_each_api_paused_with},
};

const WINDOW: u64 = 10_000;
const OUTPUT: u64 = 1_000;

/// 85 % of the window without an answer.
pub(crate) const TRIGGER: u64 = 7_650;

/// What the scripted model writes as a summary.
pub(crate) const SUMMARY: &str = "They talked about many numbers.";

pub(crate) async fn in_small_windows(test: impl AsyncFn(PausedLab)) {
    in_each_api_paused_with(with_small_window, test).await;
}

pub(crate) fn with_small_window(provider: &mut Provider) {
    for model in provider.models.values_mut() {
        (model.context, model.output) = (Some(WINDOW), Some(OUTPUT));
    }
}

/// A specification without tools, so that messages are all there is.
pub(crate) fn plain(lab: &PausedLab) -> SessionSpec {
    let mut spec = lab.spec();
    spec.tools = ToolSet::None;
    spec
}

/// A text that begins with its number: short for the first two, so that they fit into a head, and about
/// a thousand tokens for the others.
pub(crate) fn prompt(number: u64) -> String {
    if number <= 2 { format!("prompt {number}: a few words") } else { long_prompt(number) }
}

pub(crate) fn long_prompt(number: u64) -> String {
    format!("prompt {number}: {}", "words of it ".repeat(290))
}

/// An answer after which the conversation has so many tokens.
pub(crate) fn answer(number: u64, tokens: u64) -> Reply {
    Reply::text(format!("answer {number}.")).with_tokens(tokens - 10, 10)
}

/// Has a conversation of eight turns after which it is too long.
pub(crate) async fn too_long(lab: &PausedLab, session: &mut DirectSession) {
    for number in 1..=8 {
        let tokens = if number == 8 { TRIGGER } else { 150 + number * 1_000 };
        lab.model.script([answer(number, tokens)]);
        let output = session.prompt(&prompt(number)).await;
        assert_eq!(output.answer(), format!("answer {number}."));
        assert!(codes(&output).is_empty(), "{output:#?}");
    }
}

/// Runs a turn in which the model gives these answers, and asserts that it gave them all.
pub(crate) async fn turn(
    lab: &PausedLab,
    session: &mut DirectSession,
    text: &str,
    replies: impl IntoIterator<Item = Reply>,
) -> TurnOutput {
    lab.model.script(replies);
    let output = session.prompt(text).await;
    assert_eq!(lab.model.unused_replies(), 0, "{:?}: {output:#?}", lab.api);
    output
}

/// The codes of the notices about compactions.
pub(crate) fn codes(output: &TurnOutput) -> Vec<String> {
    let codes = output.notices().into_iter().map(|notice| notice.code.to_string());
    codes.filter(|code| code.starts_with("compact")).collect()
}

/// The text that was shown.
pub(crate) fn shown(output: &TurnOutput) -> String {
    let texts = output.events().filter_map(|event| match event {
        EventKind::Delta { text, .. } | EventKind::Block { text, .. } => Some(text.to_string()),
        _ => None,
    });
    texts.collect()
}

/// A request without its cache marks.
#[derive(Debug)]
pub(crate) struct SentRequest {
    /// System prompt, tools and settings.
    pub(crate) fields: Vec<String>,
    /// The messages.
    pub(crate) entries: Vec<String>,
}

impl SentRequest {
    pub(crate) fn count(&self, text: &str) -> usize {
        self.entries.iter().filter(|entry| entry.contains(text)).count()
    }

    /// Returns the prompts by their numbers.
    pub(crate) fn prompts(&self) -> Vec<u64> {
        (1..100).filter(|number| self.count(&format!("prompt {number}:")) > 0).collect()
    }
}

/// Returns the requests so far.
pub(crate) fn sent(lab: &PausedLab) -> Vec<SentRequest> {
    lab.requests().iter().map(as_sent).collect()
}

fn as_sent(request: &RequestBody) -> SentRequest {
    let RequestParts { mut fields, messages } = RequestParts::of(&request.body);
    let is_system = |entry: &String| {
        let entry: Value = serde_json::from_str(entry).unwrap();
        entry["role"] == "system" || entry["role"] == "developer"
    };
    let (system, entries): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_system);
    fields.extend(system);
    SentRequest { fields, entries }
}

/// Asserts that every call of a request has its result, in their order.
#[track_caller]
pub(crate) fn assert_paired(request: &RequestBody) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    collect_ids(&request.body, &mut calls, &mut results);
    assert_eq!(calls, results, "{:#}", request.body);
}

fn collect_ids(value: &Value, calls: &mut Vec<String>, results: &mut Vec<String>) {
    let id = |field: &str| value[field].as_str().map(str::to_owned);
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_ids(item, calls, results)),
        Value::Object(fields) => {
            let kind = value["type"].as_str().unwrap_or_default();
            match kind {
                "tool_use" => calls.extend(id("id")),
                "function_call" => calls.extend(id("call_id")),
                "function" if value.get("id").is_some() => calls.extend(id("id")),
                "tool_result" => results.extend(id("tool_use_id")),
                "function_call_output" => results.extend(id("call_id")),
                _ if value["role"] == "tool" => results.extend(id("tool_call_id")),
                _ => {}
            }
            fields.values().for_each(|field| collect_ids(field, calls, results));
        }
        _ => {}
    }
}
