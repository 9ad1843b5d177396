//! Feeds recorded conversations with ACP agents to translators, as a running agent does.

use std::{collections::HashMap, fmt::Write as _, path::PathBuf, sync::LazyLock};

use angelia_core::{
    model::{Decision, NativeSessionId, PermissionLevel, Permissions, Verdict},
    ports::{Emitted, Ended},
};
use angelia_executors::acp::{
    protocol::opened::{Greeting, Opened},
    translate::{Answer, Context, Decided, Translator},
};
use angelia_wire::jsonrpc::{Incoming, decode};
use serde_json::Value;

use super::{
    recorded::{self, Fixture, Line},
    translated::spell::{spell_emitted, spell_ended},
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

pub(crate) fn context(session: &str) -> Context {
    Context {
        profile: "default".into(),
        executor: "acp".into(),
        session: NativeSessionId::new(session),
        model: Some("m".into()),
        resumed: false,
        warm: false,
        prefix_sha256: Some("abc".into()),
        roots: vec!["/workspace".into()],
        permissions: Permissions {
            level: PermissionLevel::Ask,
            allowed: Vec::new(),
            disallowed: Vec::new(),
        },
        greeting: Greeting::default(),
        tells_cost: false,
    }
}

/// The effects of one message, or of the end of the output.
#[derive(Default)]
pub(crate) struct Step {
    /// The line's number, from 1; `None` at the end of the output.
    pub(crate) line: Option<usize>,
    pub(crate) emitted: Vec<Emitted>,
    pub(crate) ended: Option<Ended>,
    /// The messages sent to the agent.
    pub(crate) told: Vec<String>,
    /// The conversation's number, and how many of its turns had started; 0 between turns.
    pub(crate) turn: (usize, usize),
}

/// Feeds a recording to translators, one for each opened conversation.
#[derive(Default)]
pub(crate) struct Driver {
    greeting: Greeting,
    translator: Option<Translator>,
    /// The methods of the client's requests, by their ids.
    calls: HashMap<i64, String>,
    /// The kind of each option of a permission request, by the request's id.
    asked: HashMap<String, HashMap<String, String>>,
    prompt: Option<i64>,
    conversations: usize,
    turns: usize,
    pub(crate) steps: Vec<Step>,
}

impl Driver {
    fn step(&mut self, line: Option<usize>, act: impl FnOnce(&mut Translator, &mut Step)) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        let mut step = Step { line, ..Step::default() };
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
                for decided in translator.stop(&mut step.emitted) {
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
        let option = value["result"]["outcome"]["optionId"].as_str();
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
            Ok(Incoming::Notification { method, params }) => {
                self.step(Some(number), |translator, step| {
                    translator.notification(&method, params, &mut step.emitted);
                });
            }
            Ok(Incoming::Request { id, method, params }) => {
                let value: Value = serde_json::from_str(msg).unwrap();
                let options = value["params"]["options"].as_array();
                let kinds = options.into_iter().flatten().map(|option| {
                    let text = |key: &str| option[key].as_str().unwrap_or_default().to_owned();
                    (text("optionId"), text("kind"))
                });
                self.asked.insert(value["id"].to_string(), kinds.collect());
                self.step(Some(number), |translator, step| {
                    let answer = translator.request(&id, &method, params, &mut step.emitted);
                    if !matches!(answer, Answer::Asked) {
                        step.told.push(spell_answer(&answer));
                    }
                });
            }
            Ok(Incoming::Response { id, result }) => {
                let number_of = id.and_then(|id| id.to_string().parse().ok());
                let Some(call) = number_of.and_then(|id| self.calls.remove(&id)) else {
                    return;
                };
                match (call.as_str(), result) {
                    ("initialize", Ok(result)) => self.greeting = Greeting::of(result),
                    ("session/new", Ok(result)) => self.open(&Opened::of(result), false),
                    ("session/load", Ok(result)) => {
                        let session = NativeSessionId::new("loaded");
                        let opened = Opened { session: Some(session), ..Opened::of(result) };
                        self.open(&opened, true);
                    }
                    ("session/prompt", result) if number_of == self.prompt => {
                        self.prompt = None;
                        self.step(Some(number), |translator, step| {
                            if translator.in_turn() {
                                step.ended = Some(translator.answered(result, &mut step.emitted));
                            }
                        });
                    }
                    _ => {}
                }
            }
            Err(_) => {}
        }
    }

    fn open(&mut self, opened: &Opened, resumed: bool) {
        let Some(session) = &opened.session else {
            return;
        };
        self.conversations += 1;
        self.turns = 0;
        self.prompt = None;
        let model = opened.model.as_ref();
        self.translator = Some(Translator::new(Context {
            model: model.and_then(|model| model.current.clone()),
            resumed,
            greeting: self.greeting.clone(),
            ..context(session.as_str())
        }));
    }

    pub(crate) fn end(&mut self) {
        self.step(None, |translator, step| {
            step.ended = translator.end_of_output(&mut step.emitted);
        });
    }
}

pub(crate) fn drive(lines: &[Line]) -> Vec<Step> {
    let mut driver = Driver::default();
    for (number, line) in (1..).zip(lines) {
        driver.line(number, line);
    }
    driver.end();
    driver.steps
}

fn spell_decided(decided: &Decided) -> String {
    match decided {
        Decided::Reply(id, result) => format!("{id} {}", result.get()),
        Decided::Refuse(id, why) => format!("{id} refused: {why}"),
        Decided::Do(id, wish) => format!("{id} does {wish:?}"),
    }
}

fn spell_answer(answer: &Answer) -> String {
    match answer {
        Answer::Now(result) => result.get().to_owned(),
        Answer::Error(error) => format!("error {error}"),
        Answer::Do(wish) => format!("does {wish:?}"),
        Answer::Asked => "asked".to_owned(),
    }
}

/// Formats the steps for a snapshot, one line for each emission.
pub(crate) fn spell(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        let place = step.line.map_or_else(|| "end".to_owned(), |line| line.to_string());
        let mut line = |what: &str| writeln!(text, "{place:>3} {what}").unwrap();
        for emitted in &step.emitted {
            line(&spell_emitted(emitted));
        }
        for told in &step.told {
            line(&format!("-> {told}"));
        }
        if let Some(ended) = &step.ended {
            line(&spell_ended(ended));
        }
    }
    text
}
