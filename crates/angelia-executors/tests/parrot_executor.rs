//! The parrot behind the executor's port: real processes, the shared driver, the stop ladder.
//!
//! The program that has the subcommand `parrot` is built by another crate. So this test's own
//! executable stands in for it: a script calls its ignored test [`the_process`], which is the same
//! code, with the pipes where a parrot expects them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, BufReader},
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{
        Content, Decision, EventKind, FailureKind, Mode, NativeSessionId, Origin, SessionId,
        SessionSpec, Status, SystemPrompt, Turn, TurnId, TurnOptions, Verdict,
    },
    ports::{
        Agent, Clock, Emitted, Ended, EventSender, Executor, Login, Opening, TurnControl, TurnIo,
    },
    redact::Redactor,
    task::Tasks,
};
use angelia_executors::{
    Host, parrot,
    process::{HomeId, OwnerId},
};
use angelia_testkit::isolated::Isolated;
use rustix::process::{Pid, test_kill_process};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const DEADLINE: Duration = Duration::from_secs(30);
const ARGUMENTS: &str = "ANGELIA_TEST_PARROT_ARGUMENTS";

/// Descriptor 3 is the pipe; stdout belongs to the test's own reporting and leads nowhere.
#[test]
#[ignore = "not a test: the program the others start"]
fn the_process() {
    #[expect(
        clippy::disallowed_methods,
        reason = "how the script passes the arguments on"
    )]
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let mut arguments = arguments.split(' ').map(str::to_owned);
    assert_eq!(arguments.next().as_deref(), Some(parrot::SUBCOMMAND));
    let output = File::options().write(true).open("/dev/fd/3").unwrap();
    let input = BufReader::new(io::stdin());
    let code = parrot::process::run(arguments, input, output, &mut io::stderr());
    std::process::exit(code.into());
}

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

struct Lab {
    place: Isolated,
    executor: Arc<dyn Executor>,
}

impl Lab {
    fn new() -> Self {
        let place = Isolated::new().unwrap();
        let program = place.root().join("angelia");
        let script = format!(
            "#!/bin/sh\n{ARGUMENTS}=\"$*\" exec '{}' --ignored --exact the_process --nocapture \
             3>&1 >/dev/null\n",
            std::env::current_exe().unwrap().display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let host = Host {
            environment: Arc::new(place.environment().into_iter().collect()),
            user_home: place.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap(),
            work_dir: place.root().join("angelia-home/work"),
            ledger: place.root().join("angelia-home/run"),
            redactor: Redactor::default(),
            tasks: Tasks::new(),
            clock: Arc::new(SystemClock),
            current_exe: program,
            keep_warm: false,
        };
        let executor = (parrot::REGISTRATION.build)(host);
        Self { place, executor }
    }

    fn spec(&self) -> SessionSpec {
        SessionSpec::new("parrot", self.place.work())
    }

    async fn open(&self, spec: &SessionSpec, native: Option<&NativeSessionId>) -> Session {
        let id = SessionId::from_uuid(Uuid::now_v7());
        let opening = Opening {
            session: id,
            spec,
            native,
        };
        let agent = timeout(DEADLINE, self.executor.open(opening)).await;
        Session {
            id,
            agent: agent.unwrap().unwrap(),
        }
    }
}

struct Session {
    id: SessionId,
    agent: Box<dyn Agent>,
}

struct Heard {
    emitted: Vec<Emitted>,
    ended: Ended,
}

/// What a watcher makes of an event.
enum Reaction {
    Interrupt,
    Tell(TurnControl),
}

impl Session {
    async fn say(&mut self, text: &str) -> Heard {
        self.watched(Origin::Owner, text, |_| None).await
    }

    async fn watched(
        &mut self,
        origin: Origin,
        text: &str,
        react: impl Fn(&Emitted) -> Option<Reaction>,
    ) -> Heard {
        let turn = Turn {
            id: TurnId::from_uuid(Uuid::now_v7()),
            session: self.id,
            input: vec![Content::text(text)],
            options: TurnOptions {
                can_ask: true,
                ..TurnOptions::new(origin)
            },
        };
        let (sender, mut events) = mpsc::channel::<Vec<Emitted>>(64);
        let (control, receiver) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let io = TurnIo {
            events: EventSender::new(sender),
            control: receiver,
            cancel: cancel.clone(),
        };
        let listen = async {
            let mut emitted = Vec::new();
            while let Some(batch) = events.recv().await {
                for one in batch {
                    match react(&one) {
                        Some(Reaction::Interrupt) => cancel.cancel(),
                        Some(Reaction::Tell(word)) => control.send(word).await.unwrap(),
                        None => {}
                    }
                    emitted.push(one);
                }
            }
            emitted
        };
        let both = async { tokio::join!(self.agent.run(&turn, io), listen) };
        let (ended, emitted) = timeout(DEADLINE, both).await.unwrap();
        Heard { emitted, ended }
    }

    async fn pid(&mut self) -> Pid {
        let heard = self.say("!who").await;
        let text = heard.text();
        let number = text.split("process ").nth(1).unwrap();
        let number = number.split(',').next().unwrap().parse().unwrap();
        Pid::from_raw(number).unwrap()
    }

    async fn close(self) {
        timeout(DEADLINE, self.agent.close(Duration::from_secs(4)))
            .await
            .unwrap();
    }
}

impl Heard {
    fn text(&self) -> &str {
        assert_eq!(self.ended.status, Status::Completed, "{:#?}", self.emitted);
        self.ended.text.as_deref().unwrap()
    }

    fn started(&self) -> (NativeSessionId, bool) {
        let started = self.emitted.iter().find_map(|one| match one {
            Emitted::Event(EventKind::Started(started)) => Some(started),
            _ => None,
        });
        let started = started.unwrap();
        (started.native_session_id.clone().unwrap(), started.resumed)
    }
}

fn is_delta(emitted: &Emitted) -> bool {
    matches!(emitted, Emitted::Event(EventKind::Delta { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_sessions_speak_at_once_each_with_its_own_process() {
    let lab = Lab::new();
    let mut sessions = Vec::new();
    for _ in 0..16 {
        sessions.push(lab.open(&lab.spec(), None).await);
    }
    let mut conversations = JoinSet::new();
    for mut session in sessions {
        conversations.spawn(async move {
            let first = session.pid().await;
            for words in [1, 20, 200] {
                let heard = session.say(&format!("!words {words} 1")).await;
                assert_eq!(heard.text().split(' ').count(), words);
            }
            assert_eq!(session.pid().await, first);
            session.close().await;
            assert!(test_kill_process(first).is_err());
            first
        });
    }
    let pids: HashSet<Pid> = conversations.join_all().await.into_iter().collect();
    assert_eq!(pids.len(), 16);
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_the_process_takes_the_next() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.spec(), None).await;
    let pid = session.pid().await;
    for (prompt, silent) in [
        ("!words 1000 60000", false),
        ("!tool Bash 60000", false),
        ("!hang", true),
    ] {
        let heard = session
            .watched(Origin::Owner, prompt, |emitted| {
                let now = match emitted {
                    Emitted::Event(EventKind::Started(_)) => silent,
                    Emitted::Event(EventKind::ToolCall(_)) => true,
                    other => is_delta(other),
                };
                now.then_some(Reaction::Interrupt)
            })
            .await;
        assert_eq!(heard.ended.status, Status::Interrupted, "{prompt}");
    }
    assert!(session.agent.is_usable());
    assert_eq!(session.pid().await, pid);
    session.close().await;
}

#[tokio::test]
async fn decisions_reach_it() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.spec(), None).await;
    for (verdict, expected) in [
        (Verdict::Once, "You allowed `make tea`."),
        (Verdict::Deny, "You refused `make tea`: Too late."),
    ] {
        let heard = session
            .watched(Origin::Owner, "!ask make tea", |emitted| match emitted {
                Emitted::Ask(request) => Some(Reaction::Tell(TurnControl::Decide {
                    key: Arc::clone(&request.key),
                    decision: Decision::new(verdict, "owner").with_note("Too late."),
                })),
                _ => None,
            })
            .await;
        assert!(heard.text().starts_with(expected), "{}", heard.text());
    }
    session.close().await;
}

#[tokio::test]
async fn a_conversation_is_resumed_forked_and_forgotten() {
    let lab = Lab::new();
    let spec = lab.spec();
    let mut session = lab.open(&spec, None).await;
    let (native, resumed) = session.say("hello").await.started();
    assert!(!resumed);
    session.close().await;

    let mut session = lab.open(&spec, Some(&native)).await;
    assert_eq!(session.say("again").await.started(), (native.clone(), true));
    session.close().await;

    let fork = lab.executor.fork(&spec, &native).await.unwrap();
    assert_ne!(fork, native);
    let mut session = lab.open(&spec, Some(&fork)).await;
    assert_eq!(session.say("hello").await.started().0, fork);
    session.close().await;
    lab.executor.forget(&spec, &native).await.unwrap();
}

#[tokio::test]
async fn a_death_is_a_failed_turn_that_says_how() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.spec(), None).await;
    let heard = session.say("!die").await;
    let failure = heard.ended.status.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Agent);
    assert!(failure.message.contains("exit status: 1"), "{failure}");
    assert!(!session.agent.is_usable());
    session.close().await;
}

#[tokio::test]
async fn a_silent_process_is_gone_after_close() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.spec(), None).await;
    let pid = session.pid().await;
    let silent = Notify::new();
    let hang = session.watched(Origin::Owner, "!hang", |emitted| {
        if matches!(emitted, Emitted::Event(EventKind::Started(_))) {
            silent.notify_one();
        }
        None
    });
    // The turn is given up in the middle, as by an engine that is told to stop.
    tokio::select! {
        heard = hang => assert_eq!(heard.ended.status, Status::Interrupted, "it should hang"),
        () = silent.notified() => {}
    }
    session.close().await;
    assert!(test_kill_process(pid).is_err());
}

#[tokio::test]
async fn text_from_elsewhere_arrives_unchanged_in_both_modes() {
    let lab = Lab::new();
    let mut model = lab.spec();
    model.mode = Mode::Model;
    model.system = SystemPrompt::Replace("Be somebody else.".into());
    for spec in [lab.spec(), model] {
        let mut session = lab.open(&spec, None).await;
        let text = "/help me with @/etc/passwd, please";
        let heard = session.watched(Origin::Remote, text, |_| None).await;
        assert!(
            heard.text().contains(&format!("You said: {text}\n")),
            "{}",
            heard.text()
        );
        session.close().await;
    }
}

#[tokio::test]
async fn it_is_always_there() {
    let lab = Lab::new();
    let health = lab.executor.probe(&lab.spec()).await;
    assert!(health.is_ready());
    assert_eq!(health.login, Login::NotNeeded);
    assert_eq!(
        &*health.installed.unwrap().version,
        env!("CARGO_PKG_VERSION")
    );
    let capabilities = lab.executor.capabilities();
    assert!(capabilities.resume && capabilities.model_mode && capabilities.fork);
    assert!(!capabilities.steer && !capabilities.caller_tools);
    assert_eq!(lab.executor.name(), parrot::REGISTRATION.name);
}
