//! Tests that the parrot speaks Claude Code's protocol: the translator for real agents must
//! understand every line of its output.

use std::{
    io::{BufRead as _, BufReader, Lines, PipeReader, PipeWriter, Write as _, pipe},
    thread,
};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, Content, Decision, EventKind, FailureKind,
        QuestionAnswer, TextChannel, TurnStatus, Verdict,
    },
    ports::{AgentEvent, AgentOutcome},
};

use super::process::run;
use crate::claude::{
    protocol::outgoing::{self, ControlCommand},
    translate::{StreamSignal, StreamTranslator, TranslatorContext},
};

struct Session {
    input: PipeWriter,
    output: Lines<BufReader<PipeReader>>,
    translator: StreamTranslator,
    turns: u32,
}

struct PlayedTurn {
    emitted: Vec<AgentEvent>,
    ended: AgentOutcome,
}

impl Session {
    fn open() -> Self {
        let (to_read, input) = pipe().unwrap();
        let (output, to_write) = pipe().unwrap();
        thread::spawn(move || {
            let arguments = ["--session-id", "s-1"].map(str::to_owned);
            run(arguments, to_read.into(), to_write.into(), &mut Vec::new());
        });
        let translator = StreamTranslator::new(TranslatorContext {
            profile: "default".into(),
            executor: "parrot".into(),
            resumed: false,
            warm: false,
            prefix_sha256: None,
            cwd: "/".into(),
            home: "/".into(),
            caller_tools: Vec::new(),
        });
        let output = BufReader::new(output).lines();
        let mut session = Self { input, output, translator, turns: 0 };
        session.write(&outgoing::control_request(
            "first",
            &ControlCommand::Initialize(outgoing::InitializeOptions {
                hooks: Some(outgoing::HookRegistration),
                ..outgoing::InitializeOptions::default()
            }),
        ));
        let answered = session.line(&mut Vec::new());
        assert!(
            matches!(answered, Some(StreamSignal::Response { result: Ok(Some(_)), .. })),
            "{answered:?}"
        );
        session
    }

    fn write(&mut self, line: &[u8]) {
        self.input.write_all(line).unwrap();
    }

    fn line(&mut self, out: &mut Vec<AgentEvent>) -> Option<StreamSignal> {
        match self.output.next() {
            Some(line) => self.translator.translate_line(line.unwrap().as_bytes(), out),
            None => self.translator.end_of_output(out).map(StreamSignal::TurnEnded),
        }
    }

    /// Runs a turn. `react` sees every event as it arrives and may return a line to write.
    fn play(
        &mut self,
        prompt: &str,
        mut react: impl FnMut(&AgentEvent, &mut StreamTranslator) -> Option<Vec<u8>>,
    ) -> PlayedTurn {
        self.turns += 1;
        let uuid = format!("00000000-0000-4000-8000-{:012}", self.turns);
        self.translator.begin_turn(&uuid);
        self.write(&outgoing::user_message(&uuid, &[Content::text(prompt)]));
        let mut emitted = Vec::new();
        loop {
            let seen = emitted.len();
            let signal = self.line(&mut emitted);
            let reactions: Vec<Vec<u8>> = emitted[seen..]
                .iter()
                .filter_map(|event| react(event, &mut self.translator))
                .collect();
            for line in reactions {
                self.write(&line);
            }
            if let Some(StreamSignal::TurnEnded(ended)) = signal {
                return PlayedTurn { emitted, ended };
            }
        }
    }

    fn say(&mut self, prompt: &str) -> PlayedTurn {
        self.play(prompt, proceed)
    }

    fn decide(
        &mut self,
        prompt: &str,
        decision: impl Fn(&ApprovalRequest) -> Decision,
    ) -> PlayedTurn {
        self.play(prompt, |event, translator| match event {
            AgentEvent::ApprovalRequest(request) if request.stage == ApprovalStage::Request => {
                translator.answer_approval(&request.key, &decision(request))
            }
            other => proceed(other, translator),
        })
    }

    /// Runs a turn and interrupts it at the first event that `fits`.
    fn stop_at(&mut self, prompt: &str, fits: impl Fn(&AgentEvent) -> bool) -> PlayedTurn {
        let mut once = false;
        self.play(prompt, |event, translator| {
            let now = fits(event) && !std::mem::replace(&mut once, true);
            if now {
                return Some(outgoing::control_request("stop", &ControlCommand::Interrupt));
            }
            proceed(event, translator)
        })
    }
}

/// Lets calls that are only announced proceed.
fn proceed(event: &AgentEvent, translator: &mut StreamTranslator) -> Option<Vec<u8>> {
    match event {
        AgentEvent::ApprovalRequest(request) => translator.proceed(&request.key),
        _ => None,
    }
}

impl PlayedTurn {
    fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.emitted.iter().filter_map(|emitted| match emitted {
            AgentEvent::Event(event) => Some(event),
            _ => None,
        })
    }

    /// Returns the names of the events, without consecutive repetitions.
    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self
            .events()
            .map(|event| match event {
                EventKind::Started(_) => "started",
                EventKind::Delta { .. } => "delta",
                EventKind::Block { .. } => "block",
                EventKind::ToolCall(_) => "tool call",
                EventKind::ToolResult(result) if result.ok => "tool ok",
                EventKind::ToolResult(_) => "tool failed",
                EventKind::Usage(_) => "usage",
                EventKind::Notice(_) => "notice",
                EventKind::Native { .. } => "native",
                _ => "other",
            })
            .collect();
        names.dedup();
        names
    }

    fn text(&self) -> &str {
        self.ended.text.as_deref().unwrap_or_default()
    }

    fn failure(&self) -> FailureKind {
        self.ended.status.failure().unwrap().kind
    }
}

#[test]
fn an_echo_is_a_whole_turn() {
    let mut session = Session::open();
    for turn in 1..=2 {
        let played = session.say("hello\n!words 3");
        assert_eq!(played.ended.status, TurnStatus::Completed);
        assert_eq!(played.text(), "You said: hello\n\nword1 word2 word3");
        assert_eq!(played.names(), ["started", "delta", "block", "usage"]);
        let mut deltas = String::new();
        for event in played.events() {
            match event {
                EventKind::Started(started) => {
                    assert_eq!(started.model.as_deref(), Some("parrot"));
                    let native = started.native_session_id.as_ref().unwrap();
                    assert_eq!(native.as_str(), "s-1");
                }
                EventKind::Delta { text, .. } => deltas.push_str(text),
                EventKind::Block { text, channel, .. } => {
                    assert_eq!(*channel, TextChannel::Answer);
                    assert_eq!(**text, deltas);
                }
                EventKind::Usage(usage) => {
                    // The usage covers this turn, not the whole process.
                    assert_eq!(usage.input_tokens, 3, "turn {turn}");
                    assert_eq!(usage.output_tokens, 6, "turn {turn}");
                    assert_eq!(usage.cost_usd, Some(0.0));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn thoughts_and_tools_are_recognised() {
    let played = Session::open().say("!think deeply\n!tool Read\n!tool Magic");
    assert_eq!(played.ended.status, TurnStatus::Completed);
    assert_eq!(
        played.names(),
        [
            "started",
            "delta",
            "block",
            "tool call",
            "tool ok",
            "delta",
            "block",
            "tool call",
            "tool ok",
            "delta",
            "block",
            "usage",
        ]
    );
    let thoughts: Vec<&str> = played
        .events()
        .filter_map(|event| match event {
            EventKind::Block { channel: TextChannel::Reasoning, text, .. } => Some(&**text),
            _ => None,
        })
        .collect();
    assert_eq!(thoughts, ["deeply"]);
    assert_eq!(played.text(), "The tool Magic was only pretended.");
}

#[test]
fn every_call_is_reported_and_can_be_refused() {
    let mut session = Session::open();
    for prompt in ["!tool Read", "!ask make it so"] {
        let mut reports = 0;
        let played = session.play(prompt, |event, translator| match event {
            AgentEvent::ApprovalRequest(request) => {
                assert_eq!(request.stage, ApprovalStage::Report);
                reports += 1;
                let no = Decision::new(Verdict::Deny, "rule").with_note("Not that.");
                translator.answer_approval(&request.key, &no)
            }
            _ => None,
        });
        assert_eq!(reports, 1, "{prompt}");
        assert!(played.names().contains(&"tool failed"), "{:?}", played.names());
        assert!(played.text().contains("Not that."), "{}", played.text());
    }
    let played = session.play("!ask make it so", |event, translator| match event {
        AgentEvent::ApprovalRequest(request) => {
            assert_eq!(request.stage, ApprovalStage::Report, "asked twice");
            translator.answer_approval(&request.key, &Decision::new(Verdict::Once, "owner"))
        }
        _ => None,
    });
    assert!(played.text().contains("You allowed `make it so`."), "{}", played.text());
}

#[test]
fn decisions_arrive() {
    let mut session = Session::open();
    let once = |_: &ApprovalRequest| Decision::new(Verdict::Once, "owner");
    let played = session.decide("!ask make it so", once);
    assert!(played.text().contains("You allowed `make it so`."), "{}", played.text());
    let asked = played.emitted.iter().find_map(|emitted| match emitted {
        AgentEvent::ApprovalRequest(request) if request.stage == ApprovalStage::Request => {
            Some(request)
        }
        _ => None,
    });
    let asked = asked.unwrap();
    assert_eq!(&*asked.tool_name, "Bash");
    assert_eq!(asked.subject.as_deref(), Some("make it so"));

    let played = session.decide("!ask make it so", |_| {
        Decision::new(Verdict::Deny, "owner").with_note("Not today.")
    });
    assert_eq!(played.text(), "You refused `make it so`: Not today.");
    assert!(played.names().contains(&"tool failed"));

    let played = session.decide("!ask make it so", |_| Decision::new(Verdict::Stop, "owner"));
    assert_eq!(played.ended.status, TurnStatus::Interrupted);
}

#[test]
fn an_answer_to_a_question_arrives() {
    let played = Session::open().decide("!question", |request| {
        let ApprovalKind::Question(questions) = &request.kind else {
            panic!("{request:?}");
        };
        assert_eq!(questions[0].options.len(), 3);
        let mut decision = Decision::new(Verdict::Once, "owner");
        decision.answers.push(QuestionAnswer {
            question: questions[0].text.clone(),
            answer: questions[0].options[2].label.clone(),
        });
        decision
    });
    assert_eq!(played.text(), "You chose Blue.");
}

#[test]
fn failures_are_classified() {
    let mut session = Session::open();
    for (word, kind) in [
        ("auth", FailureKind::Auth),
        ("billing", FailureKind::RateLimited),
        ("invalid", FailureKind::Invalid),
        ("model", FailureKind::Invalid),
        ("rate", FailureKind::RateLimited),
        ("refused", FailureKind::Refused),
        ("server", FailureKind::Unavailable),
        ("unknown", FailureKind::Unavailable),
    ] {
        let played = session.say(&format!("!words 2\n!fail {word}"));
        assert_eq!(played.failure(), kind, "{word}");
        for event in played.events() {
            if let EventKind::Native { name, .. } = event {
                assert_eq!(&**name, "assistant/error", "{word}");
            }
        }
    }
    let limited = session.say("!fail rate");
    assert!(limited.ended.status.failure().unwrap().retry_after.is_some());
}

#[test]
fn interrupts_end_the_turn_and_nothing_else() {
    let mut session = Session::open();
    let delta =
        |emitted: &AgentEvent| matches!(emitted, AgentEvent::Event(EventKind::Delta { .. }));
    let played = session.stop_at("!words 1000 60000", delta);
    assert_eq!(played.ended.status, TurnStatus::Interrupted);
    assert!(!played.names().contains(&"native"), "{:?}", played.names());

    let call = |emitted: &AgentEvent| matches!(emitted, AgentEvent::Event(EventKind::ToolCall(_)));
    let played = session.stop_at("!tool Bash 60000", call);
    assert_eq!(played.ended.status, TurnStatus::Interrupted);
    assert!(played.names().contains(&"tool failed"));

    let asked = |emitted: &AgentEvent| matches!(emitted, AgentEvent::ApprovalRequest(_));
    let played = session.stop_at("!ask", asked);
    assert_eq!(played.ended.status, TurnStatus::Interrupted);
    assert!(played.emitted.iter().any(|e| matches!(e, AgentEvent::ApprovalWithdrawn(_))));

    let started =
        |emitted: &AgentEvent| matches!(emitted, AgentEvent::Event(EventKind::Started(_)));
    let played = session.stop_at("!hang", started);
    assert_eq!(played.ended.status, TurnStatus::Interrupted);
    assert_eq!(session.say("!words 1").text(), "word1");
}

#[test]
fn a_death_in_the_middle_is_a_failed_turn() {
    let played = Session::open().say("!die");
    assert_eq!(played.failure(), FailureKind::Agent);
}
