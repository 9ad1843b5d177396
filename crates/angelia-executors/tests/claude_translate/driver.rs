//! Feeds recorded processes to a translator, as a running agent does.

use std::{fmt::Write as _, fs, path::PathBuf};

use angelia_core::{
    model::EventKind,
    ports::{Emitted, Ended},
};
use angelia_executors::claude::translate::{Ask, Context, Signal, Translator};
use serde_json::Value;

use super::translated::spell::{cut, spell_emitted, spell_ended};

pub(crate) struct Fixture {
    pub(crate) version: &'static str,
    pub(crate) name: String,
    /// The lines of stdout.
    pub(crate) lines: Vec<String>,
    /// The uuids of the user messages on stdin; invented where the recording has none.
    pub(crate) messages: Vec<String>,
}

pub(crate) const VERSIONS: [&str; 2] = ["2.1.197", "2.1.325"];

fn folder(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude").join(version)
}

pub(crate) fn fixture(version: &'static str, name: &str) -> Fixture {
    let read = |end: &str| fs::read_to_string(folder(version).join(format!("{name}{end}")));
    let lines = read(".ndjson").unwrap().lines().map(str::to_owned).collect();
    let stdin = read(".stdin.ndjson").unwrap();
    let stdin = stdin.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = stdin.filter(|line| line["type"] == "user").enumerate();
    let messages = messages.map(|(number, line)| match line["uuid"].as_str() {
        Some(uuid) => uuid.to_owned(),
        None => format!("00000000-0000-4000-8000-{number:012}"),
    });
    Fixture { version, name: name.to_owned(), lines, messages: messages.collect() }
}

pub(crate) fn all() -> Vec<Fixture> {
    let mut all = Vec::new();
    for version in VERSIONS {
        let mut names: Vec<String> = fs::read_dir(folder(version))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|file| Some(file.strip_suffix(".ndjson")?.to_owned()))
            .filter(|name| name.strip_suffix(".stdin").is_none())
            .collect();
        names.sort();
        all.extend(names.iter().map(|name| fixture(version, name)));
    }
    assert!(all.len() > 140, "the recordings are there");
    all
}

pub(crate) fn translator(resumed: bool) -> Translator {
    Translator::new(Context {
        profile: "default".into(),
        executor: "claude".into(),
        resumed,
        warm: false,
        prefix_sha256: Some("abc".into()),
        cwd: "/workspace".into(),
    })
}

/// The effects of one line, or of the end of the output.
pub(crate) struct Step {
    /// The line's number, from 1; `None` at the end of the output.
    pub(crate) line: Option<usize>,
    pub(crate) emitted: Vec<Emitted>,
    pub(crate) signal: Option<Signal>,
    /// How many turns had started.
    pub(crate) turn: usize,
}

impl Step {
    pub(crate) fn ended(&self) -> Option<&Ended> {
        match &self.signal {
            Some(Signal::Ended(ended)) => Some(ended),
            _ => None,
        }
    }
}

/// Feeds the lines to a translator. The next message starts when a turn has ended and the CLI
/// proceeds to it.
pub(crate) fn drive(fixture: &Fixture, lines: &[String]) -> Vec<Step> {
    let resumed = fixture.name.starts_with("resume_") || fixture.name.starts_with("carried_");
    let mut translator = translator(resumed);
    let mut messages = fixture.messages.iter();
    let mut turn = 0;
    if let Some(uuid) = messages.next() {
        translator.begin_turn(uuid);
        turn += 1;
    }
    let mut steps = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let mut emitted = Vec::new();
        let signal = translator.line(line.as_bytes(), &mut emitted);
        let step = Step { line: Some(at + 1), emitted, signal, turn };
        let goes_on = || lines[at + 1..].iter().any(|line| line.contains(r#""subtype":"init""#));
        if step.ended().is_some()
            && goes_on()
            && let Some(uuid) = messages.next()
        {
            translator.begin_turn(uuid);
            turn += 1;
        }
        steps.push(step);
    }
    let mut emitted = Vec::new();
    let signal = translator.end_of_output(&mut emitted);
    steps.push(Step { line: None, emitted, signal, turn });
    steps
}

pub(crate) fn run(fixture: &Fixture) -> Vec<Step> {
    drive(fixture, &fixture.lines)
}

pub(crate) fn ends(steps: &[Step]) -> Vec<&Ended> {
    steps.iter().filter_map(Step::ended).collect()
}

pub(crate) fn events(steps: &[Step]) -> impl Iterator<Item = &EventKind> {
    let emitted = steps.iter().flat_map(|step| &step.emitted);
    emitted.filter_map(|emitted| match emitted {
        Emitted::Event(kind) => Some(kind),
        _ => None,
    })
}

/// Formats the steps: one line per emission, after the number of the line that caused it.
pub(crate) fn spell(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        let line = step.line.map_or_else(|| "eof".to_owned(), |line| line.to_string());
        let emitted = step.emitted.iter().map(spell_emitted);
        for said in emitted.chain(step.signal.iter().map(spell_signal)) {
            writeln!(text, "{line:>3}  {said}").unwrap();
        }
    }
    text
}

fn spell_signal(signal: &Signal) -> String {
    match signal {
        Signal::Ended(ended) => spell_ended(ended),
        Signal::Answered { request_id, result } => match result {
            Ok(Some(raw)) => format!("=> answered {request_id} ({} bytes)", raw.get().len()),
            Ok(None) => format!("=> answered {request_id}"),
            Err(error) => format!("=> answered {request_id} error {:?}", cut(error)),
        },
        Signal::InVain => "=> in vain".to_owned(),
        Signal::Asked(asked) => match &asked.ask {
            Ask::Mcp { server, message } => format!("=> asked mcp {server} {}", cut(message.get())),
            Ask::Hook { callback_id, .. } => format!("=> asked hook {callback_id}"),
            Ask::Unknown { subtype, .. } => format!("=> asked unknown {subtype}"),
        },
    }
}
