//! Feeds recorded processes to a translator, as a running agent does.

use std::{fmt::Write as _, fs, path::PathBuf};

use angelia_core::{
    model::EventKind,
    ports::{AgentEvent, AgentOutcome},
};
use angelia_executors::claude::translate::{
    CliRequestKind, StreamSignal, StreamTranslator, TranslatorContext,
};
use serde_json::Value;

use super::translated::format::{cut, format_agent_event, format_outcome};

pub(crate) struct ClaudeRecording {
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

pub(crate) fn recording(version: &'static str, name: &str) -> ClaudeRecording {
    let read = |end: &str| fs::read_to_string(folder(version).join(format!("{name}{end}")));
    let lines = read(".ndjson").unwrap().lines().map(str::to_owned).collect();
    let stdin = read(".stdin.ndjson").unwrap();
    let stdin = stdin.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = stdin.filter(|line| line["type"] == "user").enumerate();
    let messages = messages.map(|(number, line)| match line["uuid"].as_str() {
        Some(uuid) => uuid.to_owned(),
        None => format!("00000000-0000-4000-8000-{number:012}"),
    });
    ClaudeRecording { version, name: name.to_owned(), lines, messages: messages.collect() }
}

pub(crate) fn all_recordings() -> Vec<ClaudeRecording> {
    let mut all = Vec::new();
    for version in VERSIONS {
        let mut names: Vec<String> = fs::read_dir(folder(version))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|file| Some(file.strip_suffix(".ndjson")?.to_owned()))
            .filter(|name| name.strip_suffix(".stdin").is_none())
            .collect();
        names.sort();
        all.extend(names.iter().map(|name| recording(version, name)));
    }
    assert!(all.len() > 140, "the recordings are there");
    all
}

pub(crate) fn translator(resumed: bool) -> StreamTranslator {
    StreamTranslator::new(TranslatorContext {
        profile: "default".into(),
        executor: "claude".into(),
        resumed,
        warm: false,
        prefix_sha256: Some("abc".into()),
        cwd: "/workspace".into(),
        home: "/home/user".into(),
        caller_tools: Vec::new(),
    })
}

/// The effects of one line, or of the end of the output.
pub(crate) struct LineOutcome {
    /// The line's number, from 1; `None` at the end of the output.
    pub(crate) line: Option<usize>,
    pub(crate) emitted: Vec<AgentEvent>,
    pub(crate) signal: Option<StreamSignal>,
    /// The number of turns that had started.
    pub(crate) turn: usize,
}

impl LineOutcome {
    pub(crate) fn ended(&self) -> Option<&AgentOutcome> {
        match &self.signal {
            Some(StreamSignal::TurnEnded(ended)) => Some(ended),
            _ => None,
        }
    }
}

/// Feeds the lines to a translator. The next message starts when a turn has ended and the CLI
/// proceeds to it.
pub(crate) fn drive(fixture: &ClaudeRecording, lines: &[String]) -> Vec<LineOutcome> {
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
        let signal = translator.translate_line(line.as_bytes(), &mut emitted);
        let step = LineOutcome { line: Some(at + 1), emitted, signal, turn };
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
    let signal = translator.end_of_output(&mut emitted).map(StreamSignal::TurnEnded);
    steps.push(LineOutcome { line: None, emitted, signal, turn });
    steps
}

pub(crate) fn run(fixture: &ClaudeRecording) -> Vec<LineOutcome> {
    drive(fixture, &fixture.lines)
}

pub(crate) fn outcomes(steps: &[LineOutcome]) -> Vec<&AgentOutcome> {
    steps.iter().filter_map(LineOutcome::ended).collect()
}

pub(crate) fn events(steps: &[LineOutcome]) -> impl Iterator<Item = &EventKind> {
    let emitted = steps.iter().flat_map(|step| &step.emitted);
    emitted.filter_map(|emitted| match emitted {
        AgentEvent::Event(kind) => Some(kind),
        _ => None,
    })
}

/// Formats the steps: one line per emission, after the number of the line that caused it.
pub(crate) fn format_outcomes(steps: &[LineOutcome]) -> String {
    let mut text = String::new();
    for step in steps {
        let line = step.line.map_or_else(|| "eof".to_owned(), |line| line.to_string());
        let emitted = step.emitted.iter().map(format_agent_event);
        for said in emitted.chain(step.signal.iter().map(format_signal)) {
            writeln!(text, "{line:>3}  {said}").unwrap();
        }
    }
    text
}

fn format_signal(signal: &StreamSignal) -> String {
    match signal {
        StreamSignal::TurnEnded(ended) => format_outcome(ended),
        StreamSignal::Response { request_id, result } => match result {
            Ok(Some(raw)) => format!("=> answered {request_id} ({} bytes)", raw.get().len()),
            Ok(None) => format!("=> answered {request_id}"),
            Err(error) => format!("=> answered {request_id} error {:?}", cut(error)),
        },
        StreamSignal::Respond(_) => "=> decided".to_owned(),
        StreamSignal::FutileRetry => "=> in vain".to_owned(),
        StreamSignal::Request(asked) => match &asked.kind {
            CliRequestKind::Mcp { server, message } => {
                format!("=> asked mcp {server} {}", cut(message.get()))
            }
            CliRequestKind::Hook { callback_id, .. } => format!("=> asked hook {callback_id}"),
            CliRequestKind::Unknown { subtype, .. } => format!("=> asked unknown {subtype}"),
        },
    }
}
