//! The parrot behind the executor's port: real processes, the shared driver, the stop ladder.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "parrot_program/mod.rs"]
mod parrot_program;
#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "place/mod.rs"]
mod place;

use std::{collections::HashSet, sync::Arc};

use angelia_core::{
    model::{
        Decision, EventKind, FailureKind, Mode, NativeSessionId, SessionSpec, Status, SystemPrompt,
        Verdict,
    },
    ports::{Emitted, Login, TurnControl},
};
use angelia_executors::parrot;
use angelia_testkit::by_hand::Session;
use rustix::process::{Pid, test_kill_process};
use tokio::{sync::Notify, task::JoinSet};

use crate::place::Place;

fn new_place() -> Place {
    Place::with(&parrot::REGISTRATION, |isolated, host| {
        host.current_exe = parrot_program::make(isolated);
    })
}

impl Place {
    fn spec(&self) -> SessionSpec {
        SessionSpec::new("parrot", self.isolated.work())
    }

    async fn open(&self, spec: &SessionSpec, native: Option<&NativeSessionId>) -> Session {
        Session::open(&*self.executor, spec, native).await.unwrap()
    }
}

async fn pid(session: &mut Session) -> Pid {
    let heard = session.say("!who").await;
    let text = heard.text();
    let number = text.split("process ").nth(1).unwrap();
    let number = number.split(',').next().unwrap().parse().unwrap();
    Pid::from_raw(number).unwrap()
}

fn is_delta(emitted: &Emitted) -> bool {
    matches!(emitted, Emitted::Event(EventKind::Delta { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_sessions_speak_at_once_each_with_its_own_process() {
    let place = new_place();
    let mut sessions = Vec::new();
    for _ in 0..16 {
        sessions.push(place.open(&place.spec(), None).await);
    }
    let mut conversations = JoinSet::new();
    for mut session in sessions {
        conversations.spawn(async move {
            let first = pid(&mut session).await;
            for words in [1, 20, 200] {
                let heard = session.say(&format!("!words {words} 1")).await;
                assert_eq!(heard.text().split(' ').count(), words);
            }
            assert_eq!(pid(&mut session).await, first);
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
    let place = new_place();
    let mut session = place.open(&place.spec(), None).await;
    let process = pid(&mut session).await;
    for (prompt, silent) in
        [("!words 1000 60000", false), ("!tool Bash 60000", false), ("!hang", true)]
    {
        let heard = session
            .say_watched(prompt, move |emitted, hands| {
                let now = match emitted {
                    Emitted::Event(EventKind::Started(_)) => silent,
                    Emitted::Event(EventKind::ToolCall(_)) => true,
                    other => is_delta(other),
                };
                if now {
                    hands.cancel.cancel();
                }
            })
            .await;
        assert_eq!(heard.ended.status, Status::Interrupted, "{prompt}");
    }
    assert!(session.agent.is_usable());
    assert_eq!(pid(&mut session).await, process);
    session.close().await;
}

#[tokio::test]
async fn decisions_reach_it() {
    let place = new_place();
    let mut session = place.open(&place.spec(), None).await;
    for (verdict, expected) in [
        (Verdict::Once, "You allowed `make tea`."),
        (Verdict::Deny, "You refused `make tea`: Too late."),
    ] {
        let heard = session
            .say_watched("!ask make tea", move |emitted, hands| {
                if let Emitted::Ask(request) = emitted {
                    hands.tell(TurnControl::Decide {
                        key: Arc::clone(&request.key),
                        decision: Decision::new(verdict, "owner").with_note("Too late."),
                    });
                }
            })
            .await;
        assert!(heard.text().starts_with(expected), "{}", heard.text());
    }
    session.close().await;
}

#[tokio::test]
async fn a_conversation_is_resumed_forked_and_forgotten() {
    let place = new_place();
    let spec = place.spec();
    let mut session = place.open(&spec, None).await;
    let heard = session.say("hello").await;
    assert!(!heard.started().resumed);
    let native = heard.native();
    session.close().await;

    let mut session = place.open(&spec, Some(&native)).await;
    let heard = session.say("again").await;
    assert!(heard.started().resumed);
    assert_eq!(heard.native(), native);
    session.close().await;

    let fork = place.executor.fork(&spec, &native).await.unwrap();
    assert_ne!(fork, native);
    let mut session = place.open(&spec, Some(&fork)).await;
    assert_eq!(session.say("hello").await.native(), fork);
    session.close().await;
    place.executor.forget(&spec, &native).await.unwrap();
}

#[tokio::test]
async fn a_death_is_a_failed_turn_that_says_how() {
    let place = new_place();
    let mut session = place.open(&place.spec(), None).await;
    let heard = session.say("!die").await;
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Agent);
    assert!(failure.message.contains("exit status: 1"), "{failure}");
    assert!(!session.agent.is_usable());
    session.close().await;
}

#[tokio::test]
async fn a_silent_process_is_gone_after_close() {
    let place = new_place();
    let mut session = place.open(&place.spec(), None).await;
    let process = pid(&mut session).await;
    let silent = Arc::new(Notify::new());
    let began = Arc::clone(&silent);
    let hang = session.say_watched("!hang", move |emitted, _| {
        if matches!(emitted, Emitted::Event(EventKind::Started(_))) {
            began.notify_one();
        }
    });
    // The turn is dropped in the middle, as by an engine that shuts down.
    tokio::select! {
        heard = hang => assert_eq!(heard.ended.status, Status::Interrupted, "it should hang"),
        () = silent.notified() => {}
    }
    session.close().await;
    assert!(test_kill_process(process).is_err());
}

#[tokio::test]
async fn text_from_elsewhere_arrives_unchanged_in_both_modes() {
    let place = new_place();
    let mut model = place.spec();
    model.mode = Mode::Model;
    model.system = SystemPrompt::Replace("Be somebody else.".into());
    for spec in [place.spec(), model] {
        let mut session = place.open(&spec, None).await;
        let text = "/help me with @/etc/passwd, please";
        let heard = session.say_remotely(text).await;
        assert!(heard.text().contains(&format!("You said: {text}\n")), "{}", heard.text());
        session.close().await;
    }
}

#[tokio::test]
async fn it_is_always_there() {
    let place = new_place();
    let health = place.executor.probe(&place.spec()).await;
    assert!(health.is_ready());
    assert_eq!(health.login, Login::NotNeeded);
    assert_eq!(&*health.installed.unwrap().version, env!("CARGO_PKG_VERSION"));
    let capabilities = place.executor.capabilities();
    assert!(capabilities.resume && capabilities.model_mode && capabilities.fork);
    assert!(!capabilities.steer && !capabilities.caller_tools);
    assert_eq!(place.executor.name(), parrot::REGISTRATION.name);
}
