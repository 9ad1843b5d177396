//! The parrot behind the executor's port: real processes, the shared driver, the stop ladder.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests of other executors")]
#[path = "isolated_executor/mod.rs"]
mod isolated_executor;
#[path = "parrot_program/mod.rs"]
mod parrot_program;

use std::{collections::HashSet, sync::Arc};

use angelia_core::{
    model::{
        Decision, EventKind, FailureKind, Mode, NativeSessionId, SessionSpec, SystemPrompt,
        TurnStatus, Verdict,
    },
    ports::{AgentEvent, LoginState, TurnControl},
};
use angelia_executors::parrot;
use angelia_testkit::direct_session::DirectSession;
use rustix::process::{Pid, test_kill_process};
use tokio::{sync::Notify, task::JoinSet};

use crate::isolated_executor::IsolatedExecutor;

fn new_place() -> IsolatedExecutor {
    IsolatedExecutor::with(&parrot::REGISTRATION, |isolated, host| {
        host.current_exe = parrot_program::make(isolated);
    })
}

impl IsolatedExecutor {
    fn spec(&self) -> SessionSpec {
        SessionSpec::new("parrot", self.isolated.work_dir())
    }

    async fn open(&self, spec: &SessionSpec, native: Option<&NativeSessionId>) -> DirectSession {
        DirectSession::open(&*self.executor, spec, native).await.unwrap()
    }
}

async fn pid(session: &mut DirectSession) -> Pid {
    let heard = session.prompt("!who").await;
    let text = heard.answer();
    let number = text.split("process ").nth(1).unwrap();
    let number = number.split(',').next().unwrap().parse().unwrap();
    Pid::from_raw(number).unwrap()
}

fn is_delta(emitted: &AgentEvent) -> bool {
    matches!(emitted, AgentEvent::Event(EventKind::Delta { .. }))
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
                let heard = session.prompt(&format!("!words {words} 1")).await;
                assert_eq!(heard.answer().split(' ').count(), words);
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
            .prompt_watched(prompt, move |emitted, hands| {
                let now = match emitted {
                    AgentEvent::Event(EventKind::Started(_)) => silent,
                    AgentEvent::Event(EventKind::ToolCall(_)) => true,
                    other => is_delta(other),
                };
                if now {
                    hands.cancel.cancel();
                }
            })
            .await;
        assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{prompt}");
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
            .prompt_watched("!ask make tea", move |emitted, hands| {
                if let AgentEvent::ApprovalRequest(request) = emitted {
                    hands.send_control(TurnControl::Decide {
                        key: Arc::clone(&request.key),
                        decision: Decision::new(verdict, "owner").with_note("Too late."),
                    });
                }
            })
            .await;
        assert!(heard.answer().starts_with(expected), "{}", heard.answer());
    }
    session.close().await;
}

#[tokio::test]
async fn a_conversation_is_resumed_forked_and_forgotten() {
    let place = new_place();
    let spec = place.spec();
    let mut session = place.open(&spec, None).await;
    let heard = session.prompt("hello").await;
    assert!(!heard.started().resumed);
    let native = heard.native_session_id();
    session.close().await;

    let mut session = place.open(&spec, Some(&native)).await;
    let heard = session.prompt("again").await;
    assert!(heard.started().resumed);
    assert_eq!(heard.native_session_id(), native);
    session.close().await;

    let fork = place.executor.fork(&spec, &native).await.unwrap();
    assert_ne!(fork, native);
    let mut session = place.open(&spec, Some(&fork)).await;
    assert_eq!(session.prompt("hello").await.native_session_id(), fork);
    session.close().await;
    place.executor.delete_conversation(&spec, &native).await.unwrap();
}

#[tokio::test]
async fn a_death_is_a_failed_turn_that_says_how() {
    let place = new_place();
    let mut session = place.open(&place.spec(), None).await;
    let heard = session.prompt("!die").await;
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
    let hang = session.prompt_watched("!hang", move |emitted, _| {
        if matches!(emitted, AgentEvent::Event(EventKind::Started(_))) {
            began.notify_one();
        }
    });
    // The turn is dropped in the middle, as by an engine that shuts down.
    tokio::select! {
        heard = hang => assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "it should hang"),
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
        let heard = session.prompt_remotely(text).await;
        assert!(heard.answer().contains(&format!("You said: {text}\n")), "{}", heard.answer());
        session.close().await;
    }
}

#[tokio::test]
async fn it_is_always_there() {
    let place = new_place();
    let health = place.executor.probe(&place.spec()).await;
    assert!(health.is_ready());
    assert_eq!(health.login, LoginState::NotNeeded);
    assert_eq!(&*health.installation.unwrap().version, env!("CARGO_PKG_VERSION"));
    let capabilities = place.executor.capabilities();
    assert!(capabilities.resume && capabilities.model_mode && capabilities.fork);
    assert!(!capabilities.steer && !capabilities.caller_tools);
    assert_eq!(place.executor.name(), parrot::REGISTRATION.name);
}
