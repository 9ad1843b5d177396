//! A model that fails at random, and keeps account of everything it is asked.

use std::collections::{BTreeMap, BTreeSet};

use angelia_testkit::model_server::{ApiError, Fault, RecordedRequest, Reply, StreamBreak};
use serde_json::{Value, json};

use crate::seeded_random::SeededRandom;

/// The first word of every prompt of the soak.
pub(crate) const MARK: &str = "soak ";

/// Words of the prompts that ask for a summary. The conversation that follows speaks of its summary too.
const SUMMARY_INSTRUCTIONS: [&str; 2] = ["Write a summary that replaces", "Write the summary now"];

/// More in a row than a client has to bear would end the turn, and rightly so.
const MAX_FAULTS_PER_TURN: usize = 4;
const MAX_TOOLS_PER_TURN: usize = 3;

/// A conversation must have grown by so many messages before it overflows again: a provider does not
/// find one too long that has just been shortened.
const MIN_GROWTH_OF_OVERFLOW: usize = 12;

/// The account of one prompt.
#[derive(Debug, Default)]
pub(crate) struct PromptAccount {
    pub(crate) answers: usize,
    tools: usize,
    faults: usize,
    is_cut: bool,
}

/// How far the conversation of one session has become shorter.
#[derive(Clone, Copy, Debug)]
enum Shortening {
    Expected,
    Done { messages: usize },
}

/// Everything that has happened at the model.
#[derive(Debug)]
pub(crate) struct FaultyModel {
    chance: SeededRandom,
    /// This many keys of the provider may die; it has one more.
    mortal_keys: usize,
    dead_keys: BTreeSet<String>,
    pub(crate) prompts: BTreeMap<String, PromptAccount>,
    /// The length of each session's conversation after its last overflow.
    shortened: BTreeMap<String, Shortening>,
    /// How many requests were answered in which way.
    pub(crate) totals: BTreeMap<&'static str, usize>,
    pub(crate) violations: Vec<String>,
}

impl FaultyModel {
    pub(crate) fn new(seed: u64, mortal_keys: usize) -> Self {
        Self {
            chance: SeededRandom::new(seed),
            mortal_keys,
            dead_keys: BTreeSet::new(),
            prompts: BTreeMap::new(),
            shortened: BTreeMap::new(),
            totals: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    pub(crate) fn total(&self, kind: &str) -> usize {
        self.totals.get(kind).copied().unwrap_or_default()
    }

    pub(crate) fn answer(&mut self, request: &RecordedRequest) -> Reply {
        let body = request.json();
        let entries = entries(&body);
        if let Err(problem) = check_calls(&entries) {
            self.violations.push(problem);
        }
        let (kind, reply) = self.choose(request, &entries);
        *self.totals.entry(kind).or_default() += 1;
        reply
    }

    fn choose(&mut self, request: &RecordedRequest, entries: &[Value]) -> (&'static str, Reply) {
        let key = key_of(request);
        if self.dead_keys.contains(&key) {
            return ("dead key", Reply::status_with(401, "invalid key"));
        }
        let prompt = request.prompt();
        if SUMMARY_INSTRUCTIONS.iter().any(|words| prompt.contains(words)) {
            return if self.chance.percent(10) {
                ("summary fault", Reply::status(529))
            } else {
                ("summary", Reply::text("They went through many numbers."))
            };
        }
        let Some(name) = name_of(&prompt).or_else(|| entries.iter().rev().find_map(name_in)) else {
            self.violations.push(format!("a request without a prompt of the soak: {prompt}"));
            return ("unknown", Reply::text("?"));
        };
        let session = name.rsplit_once('-').map_or(&*name, |(session, _)| session).to_owned();
        let may_overflow = self.may_overflow(&session, entries.len());
        let account = self.prompts.entry(name.clone()).or_default();
        if account.answers > 0 {
            self.violations.push(format!("{name} was asked again after its answer"));
        }
        let may_fail = account.faults < MAX_FAULTS_PER_TURN;
        let draw = self.chance.below(100);
        let fault = match draw {
            0..8 => Some(("429", Reply::status(429).with_header("retry-after", "1"))),
            8..10 => Some(("429 long", Reply::status(429).with_header("retry-after", "30"))),
            10..16 => Some(("529", Reply::status(529))),
            16..20 => Some(("cut call", Reply::fault(Fault::CutCall))),
            20..23 if !account.is_cut => {
                account.is_cut = true;
                let text = Reply::text("I am about to say it: ").with_cut(StreamBreak::Reset);
                Some(("cut text", text))
            }
            23..26 if may_overflow && may_fail => {
                self.shortened.insert(session, Shortening::Expected);
                Some(("overflow", Reply::error(ApiError::Overflow { window: 30_000 })))
            }
            26..28 if self.dead_keys.len() < self.mortal_keys && key != "spare" => {
                self.dead_keys.insert(key);
                Some(("dead key", Reply::status_with(401, "invalid key")))
            }
            _ => None,
        };
        if let Some(fault) = fault.filter(|_| may_fail) {
            account.faults += 1;
            return fault;
        }
        if draw >= 70 && account.tools < MAX_TOOLS_PER_TURN {
            account.tools += 1;
            return ("tool", tool_call(&name, account.tools));
        }
        account.answers += 1;
        ("answer", Reply::text(format!("answer {name}")))
    }

    /// Returns whether a conversation of `messages` may be called too long, and notes the length of one
    /// that has become shorter since it was.
    fn may_overflow(&mut self, session: &str, messages: usize) -> bool {
        let shortest = match self.shortened.get_mut(session) {
            None => 0,
            Some(Shortening::Done { messages }) => *messages,
            Some(expected) => {
                *expected = Shortening::Done { messages };
                messages
            }
        };
        messages >= shortest + MIN_GROWTH_OF_OVERFLOW
    }
}

/// The second call of a turn fails; the others leave their names in a file.
fn tool_call(name: &str, number: usize) -> Reply {
    if number == 2 {
        return Reply::tool("read", json!({"path": "there/is/no/such/file"}));
    }
    Reply::tool("bash", json!({"command": format!("echo {name}-{number} >> runs")}))
}

fn key_of(request: &RecordedRequest) -> String {
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    bearer.or_else(|| request.header("x-api-key")).unwrap_or_default().to_owned()
}

fn name_of(prompt: &str) -> Option<String> {
    let (_, rest) = prompt.split_once(MARK)?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Returns the name of the prompt in a message of the user.
fn name_in(entry: &Value) -> Option<String> {
    (entry["role"] == "user").then(|| name_of(&entry["content"].to_string())).flatten()
}

/// Returns the messages, or the input items of the Responses API.
fn entries(body: &Value) -> Vec<Value> {
    let list = body.get("messages").or_else(|| body.get("input")).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Checks that every call has its one result before anything else is said, in any of the three APIs.
fn check_calls(entries: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for entry in entries {
        let blocks = entry["content"].as_array().map_or(&[][..], Vec::as_slice);
        let results = blocks.iter().filter(|block| block["type"] == "tool_result");
        let mut closed: Vec<_> =
            results.filter_map(|block| block["tool_use_id"].as_str()).collect();
        closed.extend(entry["tool_call_id"].as_str());
        if entry["type"] == "function_call_output" {
            closed.extend(entry["call_id"].as_str());
        }
        for id in closed {
            let Some(index) = open.iter().position(|call| *call == id) else {
                return Err(format!("the result {id} has no call"));
            };
            open.remove(index);
        }
        if !open.is_empty() && (entry["role"] == "user" || entry["role"] == "assistant") {
            return Err(format!("these calls have no result: {open:?}"));
        }
        let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
        open.extend(calls.filter_map(|block| block["id"].as_str()));
        let calls = entry["tool_calls"].as_array().into_iter().flatten();
        open.extend(calls.filter_map(|call| call["id"].as_str()));
        if entry["type"] == "function_call" {
            open.extend(entry["call_id"].as_str());
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("these calls have no result: {open:?}")) }
}

#[test]
fn a_call_without_its_result_is_noticed() {
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]});
    let user = json!({"role": "user", "content": "go on"});
    assert!(check_calls(&[user.clone(), call.clone(), result.clone()]).is_ok());
    assert!(check_calls(&[user.clone(), call.clone()]).is_err());
    assert!(check_calls(&[call, user.clone(), result.clone()]).is_err());
    assert!(check_calls(&[user, result]).is_err());
    let call = json!({"type": "function_call", "call_id": "b"});
    let output = json!({"type": "function_call_output", "call_id": "b"});
    assert!(check_calls(&[call.clone(), output.clone()]).is_ok());
    assert!(check_calls(&[call.clone(), output.clone(), output]).is_err());
    let chat = json!({"role": "assistant", "tool_calls": [{"id": "c"}]});
    assert!(check_calls(&[chat.clone(), json!({"role": "tool", "tool_call_id": "c"})]).is_ok());
    assert!(check_calls(&[chat, call]).is_err());
}
