//! Messages that become turns: their session, their timing, their text, and the channel of the
//! reply.

use std::{fs, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts, NewSession, SpendLimit, Submission},
    model::{Content, Failure, FailureKind, SessionSpec, TurnOptions, TurnOrigin, bus::BusMessage},
    ports::{
        AgentOutcome, BoxFuture, ProfileRequest, ProfileSummary, Profiles, SendErrorKind,
        TurnControl,
        bus::{BusDelivery, BusPosition},
    },
    task::TaskGroup,
};
use angelia_frontends::{
    bus_context::{EndpointHost, EndpointHostParts, LaneLimits},
    bus_rules::{Launcher, LauncherLimits, LiveRules, RuleRunner},
};
use angelia_testkit::{
    lexical_paths::LexicalPaths,
    manual_executor::{ExecutorControl, ManualExecutor, ManualTurn},
    memory_store::MemoryStore,
};
use jiff::tz::TimeZone;
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};

use super::{
    courier,
    fakes::{
        CountingClock, InboxControl, RecordingBus, RecordingCommands, RecordingScreen, inbox,
        message,
    },
};

const DEADLINE: Duration = Duration::from_secs(30);

const RULES: &str = "callbacks:\n\
    - match_type: ask\n  context: true\n\
    - match_type: help\n  context: true\n  profile: helper\n\
    - match_type: lost\n  context: true\n  profile: nowhere\n";

struct ContextHarness {
    engine: Engine,
    strings: ExecutorControl,
    inbox: InboxControl,
    published: mpsc::Receiver<BusMessage>,
    dead_letters: mpsc::Receiver<(BusMessage, String)>,
    courier: courier::DeliveryHarness,
    lines: Arc<RecordingScreen>,
    tasks: TaskGroup,
    next: u64,
    _folder: TempDir,
}

/// The profile `nowhere` does not exist; every other profile uses the manual executor.
pub(crate) struct AnyProfile;

impl Profiles for AnyProfile {
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(async move {
            let profile = wanted.profile.unwrap_or_else(|| "default".into());
            if &*profile == "nowhere" {
                return Err(Failure::new(FailureKind::Invalid, "there is no such profile"));
            }
            let mut spec = SessionSpec::new("puppet", "/project");
            spec.profile = profile;
            Ok(spec)
        })
    }

    fn list(&self) -> Vec<ProfileSummary> {
        Vec::new()
    }
}

fn context_harness(interval: Duration) -> ContextHarness {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus-rules.yaml");
    fs::write(&path, RULES).unwrap();
    let (puppet, strings) = ManualExecutor::new();
    let engine = Engine::new(EngineParts {
        store: Arc::new(MemoryStore::new()),
        clock: Arc::new(CountingClock::default()),
        paths: Arc::new(LexicalPaths::default()),
        edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
        session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
        executors: vec![puppet],
        limits: EngineLimits::default(),
        tasks: TaskGroup::new(),
    });
    let (commands, _asked) = RecordingCommands::new();
    let lines = Arc::<RecordingScreen>::default();
    let (sent, published) = mpsc::channel(64);
    let (dead_letters, dead) = mpsc::channel(64);
    let courier = courier::delivery_harness();
    let tasks = TaskGroup::new();
    let host = EndpointHost::new(EndpointHostParts {
        engine: engine.clone(),
        profiles: Arc::new(AnyProfile),
        bus: Arc::new(RecordingBus { published: sent, dead_letters, seen: vec!["alice", "bob"] }),
        delivery_queue: courier.queue.clone(),
        rule_runner: RuleRunner {
            rules: Arc::new(LiveRules::new(vec![path])),
            commands: Arc::clone(&commands) as _,
            launcher: Launcher::new(commands, LauncherLimits::default(), tasks.clone()),
            screen: Arc::clone(&lines) as _,
            clock: Arc::new(CountingClock::default()),
            zone: TimeZone::UTC,
        },
        lane_limits: LaneLimits { interval, max_merged: 8 },
        tasks: tasks.clone(),
        caller_cwd: None,
    });
    let (mut receiving, inbox) = inbox();
    tasks.spawn_until_stopped(async move {
        host.serve(&mut receiving).await;
    });
    ContextHarness {
        engine,
        strings,
        inbox,
        published,
        dead_letters: dead,
        courier,
        lines,
        tasks,
        next: 0,
        _folder: folder,
    }
}

impl ContextHarness {
    async fn deliver(&mut self, message: BusMessage, again: bool) -> u64 {
        self.next += 1;
        let position = BusPosition(self.next);
        let delivery = BusDelivery { position, message, redelivered: again };
        self.inbox.deliver.send(delivery).await.unwrap();
        position.0
    }

    async fn ask(&mut self, from: &str, verified: bool, body: &str) -> u64 {
        self.deliver(message(from, verified, body), false).await
    }

    async fn run(&self) -> ManualTurn {
        timeout(DEADLINE, self.strings.next_turn()).await.unwrap()
    }

    async fn settled(&mut self) -> (u64, Option<String>) {
        timeout(DEADLINE, self.inbox.settled.recv()).await.unwrap().unwrap()
    }

    async fn reply(&mut self) -> serde_json::Value {
        let message = timeout(DEADLINE, self.published.recv()).await.unwrap().unwrap();
        serde_json::from_slice(&message.envelope).unwrap()
    }
}

pub(crate) fn prompt_text(run: &ManualTurn) -> String {
    let text = |content: &Content| match content {
        Content::Text(text) => text.to_string(),
        Content::Image { .. } => panic!("only text"),
    };
    run.turn.input.iter().map(text).collect()
}

const SOURCE_LINE: &str = "**Source:** bus (endpoint: coder)\n\n";

#[tokio::test]
async fn a_message_becomes_a_turn_and_the_answer_goes_to_its_sender() {
    let mut stage = context_harness(Duration::ZERO);
    let first = stage.ask("alice", true, r#"{"type":"ask","text":"one?"}"#).await;
    let run = stage.run().await;
    assert_eq!(prompt_text(&run), format!("{SOURCE_LINE}one?"));
    let options = &run.turn.options;
    assert_eq!((options.origin, options.can_ask), (TurnOrigin::Remote, false));
    assert_eq!(options.account(), None);
    run.emit_started().await;
    run.complete("1");
    let reply = stage.reply().await;
    assert_eq!((&reply["to"], &reply["from"]), (&"alice".into(), &"coder".into()));
    assert_eq!((&reply["body"]["text"], &reply["body"]["type"]), (&"1".into(), &"reply".into()));
    assert_eq!(stage.settled().await, (first, None));

    // The introduction is sent once per session; an unverified sender is marked as such.
    stage.ask("bob", false, r#"{"type":"ask","text":"two?"}"#).await;
    let run = stage.run().await;
    assert_eq!(prompt_text(&run), "[unverified sender: bob] two?");
    run.complete("2");
    assert_eq!(stage.reply().await["to"], "bob");
    assert!(stage.lines.lines().is_empty(), "what an agent is told is not shown");
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_merged_within_its_channel_and_never_across() {
    let mut stage = context_harness(Duration::from_secs(10));
    let body = |channel: &str, text: &str| {
        format!(r#"{{"type":"ask","text":"{text}","channel":"chat:{channel}"}}"#)
    };
    stage.ask("alice", true, &body("a", "a1")).await;
    let first = stage.run().await;
    first.complete("first a");
    for (channel, text) in [("a", "a2"), ("b", "b1"), ("a", "a3")] {
        stage.ask("alice", true, &body(channel, text)).await;
    }
    let other = stage.run().await;
    assert_eq!(prompt_text(&other), format!("{SOURCE_LINE}b1"));
    other.complete("answer b");
    let merged = stage.run().await;
    assert_eq!(prompt_text(&merged), "[2023-11-14 22:13:20] a2\n\n[2023-11-14 22:13:20] a3");
    merged.complete("answer a");
    for _ in 0..4 {
        assert_eq!(stage.settled().await.1, None);
    }
    let mut got = stage.courier.chat.received();
    got.sort();
    let pair = |chat: &str, text: &str| (chat.to_owned(), text.to_owned());
    assert_eq!(got, [pair("a", "answer a"), pair("a", "first a"), pair("b", "answer b")]);
}

#[tokio::test]
async fn a_busy_agent_is_steered_by_its_own_lane_and_queued_by_others() {
    let mut stage = context_harness(Duration::ZERO);
    let one = stage.ask("alice", true, r#"{"type":"ask","text":"one"}"#).await;
    let mut run = stage.run().await;
    run.emit_started().await;
    let two = stage.ask("alice", true, r#"{"type":"ask","text":"and this"}"#).await;
    let control = timeout(DEADLINE, run.io.control.recv()).await.unwrap().unwrap();
    let TurnControl::Steer(words) = control else {
        panic!("{control:?}");
    };
    assert_eq!(words, [Content::text("and this")]);
    assert_eq!(stage.settled().await, (two, None), "it is in the turn");

    let three = stage.ask("bob", true, r#"{"type":"ask","text":"mine"}"#).await;
    run.complete("for alice");
    assert_eq!(stage.reply().await["to"], "alice");
    assert_eq!(stage.settled().await, (one, None));
    let run = stage.run().await;
    assert_eq!(prompt_text(&run), "mine");
    run.complete("for bob");
    let reply = stage.reply().await;
    assert_eq!((&reply["to"], &reply["body"]["text"]), (&"bob".into(), &"for bob".into()));
    assert_eq!(stage.settled().await, (three, None));
}

#[tokio::test]
async fn a_message_that_comes_again_finds_its_turn() {
    let mut stage = context_harness(Duration::ZERO);
    let question = message("alice", true, r#"{"type":"ask","text":"once?"}"#);
    stage.deliver(question.clone(), false).await;
    stage.run().await.complete("once");
    stage.reply().await;
    stage.settled().await;
    let again = stage.deliver(question, true).await;
    assert_eq!(stage.reply().await["body"]["text"], "once");
    assert_eq!(stage.settled().await, (again, None));
    let turns = stage.engine.turns(None, angelia_core::ports::Page::first(9)).await.unwrap();
    assert_eq!(turns.len(), 1);
}

#[tokio::test]
async fn whoever_pays_for_an_agent_pays_for_its_messages() {
    let mut stage = context_harness(Duration::ZERO);
    let spec = SessionSpec::new("puppet", "/project");
    let new = NewSession { spec, title: None, name: None, source: None };
    let session = stage.engine.create_session(new).await.unwrap().id;
    let options =
        TurnOptions { caller: Some("key:guest".into()), ..TurnOptions::new(TurnOrigin::Remote) };
    let limit = SpendLimit { usd: 1.0, period: Duration::from_hours(24) };
    let work = Submission {
        spend_limit: Some(limit),
        ..Submission::new(session, vec![Content::text("work")], options)
    };
    stage.engine.submit_with(work).await.unwrap();
    let sender = stage.run().await;
    let body = r#"{"type":"ask","text":"for the guest"}"#;
    let of_agent = message("alice", true, body).with_sender_session(session);
    stage.deliver(of_agent, false).await;
    let run = stage.run().await;
    assert_eq!(run.turn.options.account().map(|name| &**name), Some("key:guest"));
    // It is limited by what its payer may spend, although the message does not say how much.
    assert!((run.turn.options.max_cost_usd.unwrap() - 0.9).abs() < 1e-9);
    // A message of somebody else to the same session neither joins it nor is paid by the guest.
    stage.ask("alice", true, r#"{"type":"ask","text":"mine"}"#).await;
    run.complete("1");
    let run = stage.run().await;
    assert_eq!((prompt_text(&run).as_str(), run.turn.options.account()), ("mine", None));
    run.complete("2");
    sender.complete("sent");
}

#[tokio::test]
async fn profiles_have_their_own_sessions() {
    let mut stage = context_harness(Duration::ZERO);
    stage.ask("alice", true, r#"{"type":"ask","text":"a"}"#).await;
    let one = stage.run().await;
    stage.ask("alice", true, r#"{"type":"help","text":"b"}"#).await;
    let two = stage.run().await;
    assert_ne!(one.turn.session, two.turn.session);
    assert_eq!(prompt_text(&two), format!("{SOURCE_LINE}b"));
    let session = stage.engine.session(two.turn.session).await.unwrap();
    assert_eq!(&*session.spec.profile, "helper");
}

#[tokio::test]
async fn failures_are_told_and_kept() {
    let mut stage = context_harness(Duration::ZERO);
    let lost = stage.ask("alice", true, r#"{"type":"lost","text":"a"}"#).await;
    let reply = stage.reply().await;
    assert_eq!(reply["body"]["status"], "failed");
    assert_eq!(reply["body"]["text"], "(failed: there is no such profile)");
    let (position, why) = stage.settled().await;
    assert_eq!((position, why.as_deref()), (lost, Some("there is no such profile")));

    stage.ask("alice", true, r#"{"type":"ask","text":"a"}"#).await;
    let run = stage.run().await;
    run.end(AgentOutcome::failed(Failure::new(FailureKind::Agent, "it broke")));
    let reply = stage.reply().await;
    assert_eq!(reply["body"]["text"], "(failed: it broke)");
}

#[tokio::test]
async fn an_answer_without_an_address_is_shown() {
    let mut stage = context_harness(Duration::ZERO);
    let table = [
        ("stranger", r#"{"type":"ask","text":"a"}"#, "nobody has ever listened as `stranger`"),
        ("alice", r#"{"type":"ask","text":"a","channel":"pigeon:1"}"#, "no platform `pigeon`"),
    ];
    for (from, body, why) in table {
        let position = stage.ask(from, false, body).await;
        stage.run().await.complete("the answer");
        assert_eq!(stage.settled().await, (position, None));
        assert_eq!(stage.lines.lines().last().unwrap(), "the answer");
        assert!(stage.lines.notices().last().unwrap().contains(why));
    }
    // The answer to a sender that has never listened is also kept.
    let (letter, reason) = stage.dead_letters.try_recv().unwrap();
    assert_eq!(letter.content().text, "the answer");
    assert_eq!(reason, "nobody has ever listened as `stranger`");
    // A rule prints a line for a channel that refuses it.
    stage.courier.chat.fail_next(&[SendErrorKind::Refused]);
    let body = r#"{"type":"other","text":"ho","channel":"chat:1"}"#;
    stage.ask("alice", true, body).await;
    stage.settled().await;
    while stage.lines.lines().last().unwrap() != "ho" {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // A rule prints a line for an unknown channel.
    stage.ask("alice", true, r#"{"type":"other","text":"hey","channel":"pigeon"}"#).await;
    stage.settled().await;
    assert_eq!(stage.lines.lines().last().unwrap(), "hey");
    assert!(stage.tasks.shutdown(DEADLINE).await);
}
