//! Feeds recorded conversations with the app-server to translators, as a running agent does.

use std::{collections::HashMap, path::PathBuf, sync::LazyLock};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, Content, Decision, Mode, NativeSessionId,
        QuestionAnswer as Given, ToolId, Verdict,
    },
    ports::{AgentEvent, AgentOutcome},
};
use angelia_executors::codex::{
    ModelPrices,
    protocol::{
        message::{RequestId, Route},
        response::ThreadInfo,
    },
    translate::{CodexContext, CodexTranslator, DeferredReply, RequestOutcome},
};
use angelia_wire::jsonrpc::{ErrorObject, RpcId, RpcMessage, decode};
use jiff::tz::TimeZone;
use serde_json::{Value, value::RawValue};

use super::recorded::{self, Fixture, Line};

pub(crate) const VERSION: &str = "0.166.0";

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/codex").join(VERSION)
}

pub(crate) fn fixture(name: &str) -> Fixture {
    recorded::fixture(&folder(), name)
}

pub(crate) fn all() -> &'static [Fixture] {
    static ALL: LazyLock<Vec<Fixture>> = LazyLock::new(|| recorded::all(&folder(), 81));
    &ALL
}

pub(crate) fn context(thread: &str) -> CodexContext {
    CodexContext {
        profile: "default".into(),
        executor: "codex".into(),
        thread: NativeSessionId::new(thread),
        model: Some("gpt-5.5".into()),
        provider: Some("openai".into()),
        resumed: false,
        warm: false,
        prefix_sha256: Some("abc".into()),
        cwd: "/workspace".into(),
        mode: Mode::Agent,
        own_servers: vec!["angelia".into()],
        lane: None,
        prices: ModelPrices::none(),
        zone: TimeZone::UTC,
    }
}

pub(crate) fn translator() -> CodexTranslator {
    CodexTranslator::new(context("T"))
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// The effects of one message, or of the end of the output.
#[derive(Default)]
pub(crate) struct ReplayStep {
    /// The line's number, from 1; `None` at the end of the output.
    pub(crate) line: Option<usize>,
    /// The index of the thread.
    pub(crate) thread: usize,
    pub(crate) emitted: Vec<AgentEvent>,
    pub(crate) ended: Option<AgentOutcome>,
    pub(crate) answer: Option<RequestOutcome>,
    pub(crate) reply: Option<DeferredReply>,
    /// The number of turns that had started; 0 between turns.
    pub(crate) turn: usize,
}

impl ReplayStep {
    pub(crate) fn is_silent(&self) -> bool {
        self.emitted.is_empty()
            && self.ended.is_none()
            && self.answer.is_none()
            && self.reply.is_none()
    }
}

/// One thread of a recording.
struct Thread {
    id: String,
    translator: CodexTranslator,
    asked: HashMap<String, Waiting>,
    turns: usize,
    running: bool,
    /// The id of a `turn/start` that awaits its answer.
    starting: Option<u64>,
}

/// A request that the recording's client has not answered yet.
enum Waiting {
    Approval(Box<ApprovalRequest>),
    Tool(ToolId),
}

struct Driver {
    threads: Vec<Thread>,
    /// Ids of the client's requests that open a thread; `true` for one that resumes a thread.
    opening: HashMap<u64, bool>,
    steps: Vec<ReplayStep>,
}

impl Driver {
    fn step(
        &mut self,
        line: Option<usize>,
        at: usize,
        what: impl FnOnce(&mut Thread, &mut ReplayStep),
    ) {
        let thread = &mut self.threads[at];
        let mut step = ReplayStep {
            line,
            thread: at,
            turn: if thread.running { thread.turns } else { 0 },
            ..ReplayStep::default()
        };
        what(thread, &mut step);
        for emitted in &step.emitted {
            if let AgentEvent::ApprovalRequest(ask) = emitted {
                let waiting = Waiting::Approval(Box::new(ask.clone()));
                thread.asked.insert(ask.key.to_string(), waiting);
            }
        }
        thread.running &= step.ended.is_none();
        self.steps.push(step);
    }

    fn client(&mut self, line: usize, msg: &str) {
        let value: Value = serde_json::from_str(msg).unwrap();
        let id = value["id"].as_u64();
        let thread = value["params"]["threadId"].as_str();
        let at = thread.and_then(|id| self.threads.iter().position(|one| one.id == id));
        match value["method"].as_str() {
            Some("thread/start" | "thread/fork") => {
                self.opening.insert(id.unwrap(), false);
            }
            Some("thread/resume") => {
                self.opening.insert(id.unwrap(), true);
            }
            Some("turn/start") => {
                let Some(at) = at else { return };
                let thread = &mut self.threads[at];
                if thread.running {
                    // The message steers the running turn.
                    thread.translator.on_steer();
                } else {
                    thread.translator.begin_turn();
                    thread.turns += 1;
                    thread.running = true;
                    thread.starting = id;
                }
            }
            Some("turn/steer") => {
                if let Some(at) = at {
                    self.threads[at].translator.on_steer();
                }
            }
            Some(_) => {}
            None => self.client_answers(line, &value),
        }
    }

    /// Makes the decision of the recording's client, through the translator's own interface.
    fn client_answers(&mut self, line: usize, value: &Value) {
        let id = value["id"].to_string();
        let waits = |thread: &Thread| thread.asked.contains_key(&id);
        let Some(at) = self.threads.iter().position(waits) else {
            return;
        };
        self.step(Some(line), at, |thread, step| {
            let waiting = thread.asked.remove(&id).unwrap();
            step.reply = match waiting {
                Waiting::Approval(ask) => {
                    let decision = decision(&ask, &value["result"]);
                    decision.and_then(|decision| thread.translator.decide(&ask.key, &decision))
                }
                Waiting::Tool(tool) => {
                    let text = value["result"]["contentItems"][0]["text"].as_str();
                    let content = [Content::text(text.unwrap_or_default())];
                    let ok = value["result"]["success"] == true;
                    thread.translator.on_tool_result(&tool, ok, &content)
                }
            };
        });
    }

    fn server(&mut self, line: usize, msg: &str) {
        let Ok(message) = decode(msg.as_bytes()) else { return };
        match message {
            RpcMessage::Response { id: Some(RpcId::Number(id)), result } => {
                self.response(line, id.try_into().unwrap(), result);
            }
            RpcMessage::Response { .. } => {}
            RpcMessage::Notification { method, params } => {
                let params = params.unwrap_or(RawValue::NULL);
                let route = Route::of(params);
                for at in 0..self.threads.len() {
                    if self.threads[at].translator.accepts(&route) {
                        self.step(Some(line), at, |thread, step| {
                            let out = &mut step.emitted;
                            step.ended = thread.translator.on_notification(&method, params, out);
                        });
                    }
                }
            }
            RpcMessage::Request { id, method, params } => {
                let (id, params) = (RequestId::from(id), params.unwrap_or(RawValue::NULL));
                let route = Route::of(params);
                let at = (self.threads.iter()).position(|one| one.translator.accepts(&route));
                let Some(at) = at else { return };
                self.step(Some(line), at, |thread, step| {
                    let answer =
                        thread.translator.on_request(&id, &method, params, &mut step.emitted);
                    if let RequestOutcome::CallerTool(tool) = &answer {
                        let waiting = Waiting::Tool(tool.clone());
                        thread.asked.insert(id.to_string(), waiting);
                    }
                    step.answer = Some(answer);
                });
            }
        }
    }

    fn response(&mut self, line: usize, id: u64, result: Result<&RawValue, ErrorObject>) {
        if let Some(resumed) = self.opening.remove(&id) {
            let Some(opened) = result.ok().and_then(ThreadInfo::of) else {
                return;
            };
            let context = CodexContext {
                model: opened.model,
                provider: opened.provider,
                resumed,
                ..context(&opened.thread)
            };
            self.threads.push(Thread {
                id: opened.thread.to_string(),
                translator: CodexTranslator::new(context),
                asked: HashMap::new(),
                turns: 0,
                running: false,
                starting: None,
            });
            return;
        }
        let starts = |thread: &Thread| thread.starting == Some(id);
        let Some(at) = self.threads.iter().position(starts) else {
            return;
        };
        self.step(Some(line), at, |thread, step| {
            thread.starting = None;
            match result {
                Ok(result) => thread.translator.on_turn_accepted(result, &mut step.emitted),
                Err(error) => {
                    let ended = thread.translator.on_turn_refused(&error, &mut step.emitted);
                    step.ended = Some(ended);
                }
            }
        });
    }
}

/// Returns the decision behind a recorded answer; `None` for an answer that we never give.
fn decision(ask: &ApprovalRequest, result: &Value) -> Option<Decision> {
    let verdict = match (&result["decision"], &result["action"]) {
        (Value::String(word), _) => match word.as_str() {
            "accept" => Verdict::Once,
            "acceptForSession" => Verdict::Session,
            "decline" => Verdict::Deny,
            "cancel" => Verdict::Stop,
            _ => return None,
        },
        (_, Value::String(word)) => match (word.as_str(), &result["_meta"]["persist"]) {
            ("accept", Value::Null) => Verdict::Once,
            ("accept", _) => Verdict::Session,
            ("decline", _) => Verdict::Deny,
            _ => Verdict::Stop,
        },
        (Value::Object(_), _) => return None,
        _ if result["permissions"].is_object() || result["answers"].is_object() => Verdict::Once,
        _ => return None,
    };
    let mut decision = Decision::new(verdict, "owner");
    if let ApprovalKind::Question(questions) = &ask.kind {
        let given = result["answers"].as_object().or(result["content"].as_object());
        for (question, given) in questions.iter().zip(given.into_iter().flatten()) {
            let answer = given.1["answers"][0].as_str().or(given.1.as_str()).unwrap();
            decision.answers.push(Given { question: question.text.clone(), answer: answer.into() });
        }
    }
    Some(decision)
}

/// Feeds the lines to translators; the connection ends after the last line.
pub(crate) fn drive(lines: &[Line]) -> Vec<ReplayStep> {
    let mut driver = Driver { threads: Vec::new(), opening: HashMap::new(), steps: Vec::new() };
    for (at, line) in lines.iter().enumerate() {
        if line.out {
            driver.server(at + 1, &line.msg);
        } else {
            driver.client(at + 1, &line.msg);
        }
    }
    for at in 0..driver.threads.len() {
        driver.step(None, at, |thread, step| {
            step.ended = thread.translator.on_end_of_output(&mut step.emitted);
        });
    }
    driver.steps
}

pub(crate) fn run(name: &str) -> Vec<ReplayStep> {
    drive(&fixture(name).lines)
}

pub(crate) fn ends(steps: &[ReplayStep]) -> Vec<&AgentOutcome> {
    steps.iter().filter_map(|step| step.ended.as_ref()).collect()
}

pub(crate) fn request_id(text: &str) -> RequestId {
    RequestId::of(&raw(text)).unwrap()
}
