//! Feeds recorded conversations with ACP agents to translators, as a running agent does.

use std::{collections::HashMap, fmt::Write as _, path::PathBuf, sync::LazyLock};

use angelia_core::{
    model::{Decision, NativeSessionId, Verdict},
    ports::{AgentEvent, AgentOutcome},
};
use angelia_executors::acp::{
    protocol::handshake::{AcpSessionInfo, AgentDescription},
    translate::{AcpContext, AcpRequestOutcome, AcpTranslator, DecisionEffect},
};
use angelia_wire::jsonrpc::{RpcMessage, decode};
use serde_json::Value;

use super::{
    recorded::{self, Fixture, Line},
    translated::format::{format_agent_event, format_outcome},
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/acp")
}

pub(crate) fn fixture(name: &str) -> Fixture {
    recorded::fixture(&folder(), name)
}

pub(crate) fn all() -> &'static [Fixture] {
    static ALL: LazyLock<Vec<Fixture>> = LazyLock::new(|| recorded::all(&folder(), 7));
    &ALL
}

pub(crate) fn context(session: &str) -> AcpContext {
    AcpContext {
        profile: "default".into(),
        executor: "acp".into(),
        session: NativeSessionId::new(session),
        model: Some("m".into()),
        resumed: false,
        warm: false,
        prefix_sha256: Some("abc".into()),
        roots: vec!["/workspace".into()],
        agent: AgentDescription::default(),
        reports_cost: false,
    }
}

/// The effects of one message, or of the end of the output.
#[derive(Default)]
pub(crate) struct ReplayStep {
    /// The line's number, from 1; `None` at the end of the output.
    pub(crate) line: Option<usize>,
    pub(crate) emitted: Vec<AgentEvent>,
    pub(crate) ended: Option<AgentOutcome>,
    /// The messages sent to the agent.
    pub(crate) told: Vec<String>,
    /// The conversation's number, and how many of its turns had started; 0 between turns.
    pub(crate) turn: (usize, usize),
}

/// Feeds a recording to translators, one for each opened conversation.
#[derive(Default)]
pub(crate) struct Driver {
    greeting: AgentDescription,
    translator: Option<AcpTranslator>,
    /// The methods of the client's requests, by their ids.
    calls: HashMap<i64, String>,
    /// The kind of each option of a permission request, by the request's id.
    asked: HashMap<String, HashMap<String, String>>,
    prompt: Option<i64>,
    conversations: usize,
    turns: usize,
    pub(crate) steps: Vec<ReplayStep>,
}

impl Driver {
    fn step(&mut self, line: Option<usize>, act: impl FnOnce(&mut AcpTranslator, &mut ReplayStep)) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        let mut step = ReplayStep { line, ..ReplayStep::default() };
        let was_in_turn = translator.in_turn();
        act(translator, &mut step);
        if was_in_turn || translator.in_turn() {
            step.turn = (self.conversations, self.turns);
        }
        self.steps.push(step);
    }

    pub(crate) fn line(&mut self, number: usize, line: &Line) {
        if line.out {
            self.agent(number, &line.msg);
        } else {
            self.client(number, &line.msg);
        }
    }

    fn client(&mut self, number: usize, msg: &str) {
        let value: Value = serde_json::from_str(msg).unwrap();
        let session = value["params"]["sessionId"].as_str();
        let method = value["method"].as_str();
        if let (Some(id), Some(method)) = (value["id"].as_i64(), method) {
            self.calls.insert(id, method.to_owned());
        }
        match method {
            Some("session/prompt") => {
                let ours = self.translator.as_ref().map(|one| one.session().as_str());
                if ours != session || self.prompt.is_some() {
                    return;
                }
                self.turns += 1;
                self.prompt = value["id"].as_i64();
                self.step(Some(number), |translator, step| {
                    translator.begin_turn(&mut step.emitted);
                });
            }
            // The replay before the answer belongs to no turn.
            Some("session/load") => {
                self.end();
                self.translator = None;
            }
            Some("session/cancel") => self.step(Some(number), |translator, step| {
                for decided in translator.begin_stop(&mut step.emitted) {
                    step.told.push(spell_decided(&decided));
                }
            }),
            Some(_) => {}
            None => self.client_answers(number, &value),
        }
    }

    /// Makes the decision of the recording's client, through the translator's own interface.
    fn client_answers(&mut self, number: usize, value: &Value) {
        let key = value["id"].to_string();
        let Some(kinds) = self.asked.remove(&key) else {
            return;
        };
        let outcome = &value["result"]["outcome"];
        if outcome.is_null() {
            // The client has carried the request out.
            return self.step(Some(number), |translator, step| {
                let decided = translator.proceed(&key, &mut step.emitted);
                step.told.extend(decided.iter().map(spell_decided));
            });
        }
        let option = outcome["optionId"].as_str();
        let verdict = match option.and_then(|id| kinds.get(id)).map(String::as_str) {
            Some("allow_once") => Verdict::Once,
            Some("allow_always") => Verdict::Session,
            Some(_) => Verdict::Deny,
            None => Verdict::Stop,
        };
        self.step(Some(number), |translator, step| {
            let decision = Decision::new(verdict, "owner");
            let decided = translator.decide(&key, &decision, &mut step.emitted);
            step.told.extend(decided.iter().map(spell_decided));
        });
    }

    fn agent(&mut self, number: usize, msg: &str) {
        match decode(msg.as_bytes()) {
            Ok(RpcMessage::Notification { method, params }) => {
                self.step(Some(number), |translator, step| {
                    translator.on_notification(&method, params, &mut step.emitted);
                });
            }
            Ok(RpcMessage::Request { id, method, params }) => {
                let value: Value = serde_json::from_str(msg).unwrap();
                let options = value["params"]["options"].as_array();
                let kinds = options.into_iter().flatten().map(|option| {
                    let text = |key: &str| option[key].as_str().unwrap_or_default().to_owned();
                    (text("optionId"), text("kind"))
                });
                self.asked.insert(value["id"].to_string(), kinds.collect());
                self.step(Some(number), |translator, step| {
                    let answer = translator.on_request(&id, &method, params, &mut step.emitted);
                    if !matches!(answer, AcpRequestOutcome::Approval) {
                        step.told.push(spell_answer(&answer));
                    }
                });
            }
            Ok(RpcMessage::Response { id, result }) => {
                let number_of = id.and_then(|id| id.to_string().parse().ok());
                let Some(call) = number_of.and_then(|id| self.calls.remove(&id)) else {
                    return;
                };
                match (call.as_str(), result) {
                    ("initialize", Ok(result)) => self.greeting = AgentDescription::of(result),
                    ("session/new", Ok(result)) => self.open(&AcpSessionInfo::of(result), false),
                    ("session/load", Ok(result)) => {
                        let session = NativeSessionId::new("loaded");
                        let opened =
                            AcpSessionInfo { session: Some(session), ..AcpSessionInfo::of(result) };
                        self.open(&opened, true);
                    }
                    ("session/prompt", result) if number_of == self.prompt => {
                        self.prompt = None;
                        self.step(Some(number), |translator, step| {
                            if translator.in_turn() {
                                step.ended =
                                    Some(translator.on_prompt_response(result, &mut step.emitted));
                            }
                        });
                    }
                    _ => {}
                }
            }
            Err(_) => {}
        }
    }

    fn open(&mut self, opened: &AcpSessionInfo, resumed: bool) {
        let Some(session) = &opened.session else {
            return;
        };
        self.conversations += 1;
        self.turns = 0;
        self.prompt = None;
        let model = opened.model.as_ref();
        self.translator = Some(AcpTranslator::new(AcpContext {
            model: model.and_then(|model| model.current.clone()),
            resumed,
            agent: self.greeting.clone(),
            ..context(session.as_str())
        }));
    }

    pub(crate) fn end(&mut self) {
        self.step(None, |translator, step| {
            step.ended = translator.on_end_of_output(&mut step.emitted);
        });
    }
}

pub(crate) fn drive(lines: &[Line]) -> Vec<ReplayStep> {
    let mut driver = Driver::default();
    for (number, line) in (1..).zip(lines) {
        driver.line(number, line);
    }
    driver.end();
    driver.steps
}

fn spell_decided(decided: &DecisionEffect) -> String {
    match decided {
        DecisionEffect::Reply(id, result) => format!("{id} {}", result.get()),
        DecisionEffect::Refuse(id, why) => format!("{id} refused: {why}"),
        DecisionEffect::Execute(id, wish) => format!("{id} does {wish:?}"),
    }
}

fn spell_answer(answer: &AcpRequestOutcome) -> String {
    match answer {
        AcpRequestOutcome::Now(result) => result.get().to_owned(),
        AcpRequestOutcome::Error(error) => format!("error {error}"),
        AcpRequestOutcome::Execute(wish) => format!("does {wish:?}"),
        AcpRequestOutcome::Approval => "asked".to_owned(),
    }
}

/// Formats the steps for a snapshot, one line for each emission.
pub(crate) fn spell(steps: &[ReplayStep]) -> String {
    let mut text = String::new();
    for step in steps {
        let place = step.line.map_or_else(|| "end".to_owned(), |line| line.to_string());
        let mut line = |what: &str| writeln!(text, "{place:>3} {what}").unwrap();
        for emitted in &step.emitted {
            line(&format_agent_event(emitted));
        }
        for told in &step.told {
            line(&format!("-> {told}"));
        }
        if let Some(ended) = &step.ended {
            line(&format_outcome(ended));
        }
    }
    text
}
