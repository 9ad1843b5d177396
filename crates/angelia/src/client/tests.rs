//! Tests of the client against the real HTTP frontend over a real socket, with a puppet agent and a
//! proxy between them whose connections can be cut.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{
        ApprovalKind, Decision, EventKind, QuestionAnswer, SessionId, TurnEvent, TurnId,
        TurnOrigin, TurnStatus, Verdict,
    },
    ports::{AgentEvent, AgentOutcome, Page, TurnControl},
    task::TaskGroup,
};
use angelia_frontends::{
    http::NewSessionBody,
    turn_service::{TurnService as _, TurnSubmission},
};
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{UnixListener, UnixStream},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    ClientError, DaemonClient, TurnEvents,
    test_daemon::{DEADLINE, TestDaemon, approval_request, owners_turn},
};
use crate::cli::error::{CommandError, Exit};

impl TestDaemon {
    /// Opens a second socket to the same daemon, whose connections the test can cut.
    fn open_proxy(&self) -> SocketProxy {
        let line = SocketProxy {
            socket: self.folder.path().join("line.sock"),
            cut: Arc::default(),
            tasks: TaskGroup::new(),
        };
        let listener = UnixListener::bind(&line.socket).unwrap();
        let (tasks, cut, target) = (line.tasks.clone(), Arc::clone(&line.cut), self.socket());
        line.tasks.spawn_until_stopped(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let now = CancellationToken::clone(&cut.lock().unwrap());
                let target = target.clone();
                tasks.spawn_until_stopped(async move {
                    let mut far = UnixStream::connect(target).await.unwrap();
                    now.run_until_cancelled(copy_bidirectional(&mut near, &mut far)).await;
                });
            }
        });
        line
    }
}

struct SocketProxy {
    socket: PathBuf,
    cut: Arc<std::sync::Mutex<CancellationToken>>,
    tasks: TaskGroup,
}

impl SocketProxy {
    /// Ends all current connections; new ones are possible.
    fn cut_connections(&self) {
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }

    /// Ends all connections and removes the socket.
    async fn remove(&self) {
        std::fs::remove_file(&self.socket).unwrap();
        assert!(self.tasks.shutdown(DEADLINE).await);
    }
}

async fn next_events(events: &mut TurnEvents) -> Vec<TurnEvent> {
    let next = timeout(DEADLINE, events.next()).await.unwrap();
    next.unwrap().expect("the turn goes on")
}

async fn remaining_events(events: &mut TurnEvents) -> Vec<TurnEvent> {
    let mut all = Vec::new();
    while let Some(some) = timeout(DEADLINE, events.next()).await.unwrap().unwrap() {
        all.extend(some);
    }
    all
}

fn seqs(events: &[TurnEvent]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn where_nobody_listens_there_is_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let stale = std::os::unix::net::UnixListener::bind(path("stale")).unwrap();
    drop(stale);
    std::fs::write(path("file"), "").unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    let began = Instant::now();
    for name in ["absent", "stale", "file", "folder", "absent/below", &"x".repeat(200)] {
        assert!(DaemonClient::connect(&path(name)).await.is_none(), "{name}");
    }
    assert!(began.elapsed() < Duration::from_millis(100));
    assert!(DaemonClient::connect(Path::new("")).await.is_none());
}

#[tokio::test]
async fn the_daemon_says_who_it_is() {
    let stage = TestDaemon::new();
    let hello = stage.client().await.hello().await.unwrap();
    assert_eq!(hello.version, "1.2.3");
    assert_eq!(hello.config_sha256.as_deref(), Some("c0ffee"));
    assert_eq!(hello.pid, Some(std::process::id()));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_hangs_is_given_up_soon() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("angelia.sock");
    let _never_accepts = UnixListener::bind(&socket).unwrap();
    let daemon = DaemonClient::connect(&socket).await.unwrap();
    let began = Instant::now();
    let error = daemon.hello().await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout), "{error}");
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn sessions_are_made_found_forked_and_deleted() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let new = NewSessionBody {
        model: Some("oak".into()),
        cwd: Some(PathBuf::from("/elsewhere")),
        name: Some("my work/ä?&=%".to_owned()),
        ..NewSessionBody::default()
    };
    assert!(daemon.find_session("my work/ä?&=%").await.unwrap().is_none());
    let session = daemon.create_session(new, true).await.unwrap();
    assert_eq!(session.model.as_deref(), Some("oak"));
    assert_eq!(session.cwd, Path::new("/elsewhere"));
    let spec = stage.engine.session(session.id).await.unwrap().spec;
    assert!(spec.trust, "at a terminal");
    assert_eq!(daemon.find_session("my work/ä?&=%").await.unwrap().as_ref(), Some(&session));
    assert_eq!(daemon.session(session.id).await.unwrap(), session);
    let forked = daemon.fork_session(session.id).await.unwrap();
    assert_eq!(forked.forked_from, Some(session.id));
    daemon.delete_session(session.id).await.unwrap();
    for gone in [session.id, SessionId::from_uuid(uuid::Uuid::nil())] {
        let error = CommandError::from(daemon.session(gone).await.unwrap_err());
        assert_eq!(error.exit, Exit::Failed);
        assert_eq!(error.message, "no such session");
        assert!(error.hint.is_some());
    }
    let elsewhere = NewSessionBody::default();
    let elsewhere = daemon.create_session(elsewhere, false).await.unwrap();
    assert!(!stage.engine.session(elsewhere.id).await.unwrap().spec.trust);
}

#[tokio::test]
async fn a_turn_is_followed_decided_and_ends() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let session = daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    let (turn, _) = daemon.submit(&owners_turn(session.id, "paint it", true)).await.unwrap();
    assert_eq!(turn.status, "running");
    let mut run = stage.control.next_turn().await;
    assert_eq!(run.turn.options.origin, TurnOrigin::Owner);
    assert!(run.turn.options.can_ask);
    let mut events = daemon.events(turn.id, 0).await.unwrap();
    run.emit_started().await;
    run.emit(vec![AgentEvent::ApprovalRequest(approval_request(ApprovalKind::Tool))]).await;
    let approval = loop {
        let some = next_events(&mut events).await;
        if let Some(EventKind::Approval(approval)) = some.last().map(|event| &event.kind) {
            break approval.clone();
        }
    };
    assert_eq!(&*approval.title, "paint");
    let mut decision = Decision::new(Verdict::Once, "owner").with_note("but carefully");
    decision.answers.push(QuestionAnswer { question: "how?".into(), answer: "slowly".into() });
    // While the events are followed, on another connection.
    daemon.decide(approval.id, decision.clone()).await.unwrap();
    let Some(TurnControl::Decide { decision: told, .. }) = run.io.control.recv().await else {
        panic!("the agent is told");
    };
    assert_eq!(told, decision);
    let late = daemon.decide(approval.id, decision.clone()).await.unwrap_err();
    assert_eq!(CommandError::from(late).exit, Exit::Failed);
    run.complete("painted");
    let all = remaining_events(&mut events).await;
    let Some(EventKind::Finished(outcome)) = all.last().map(|event| &event.kind) else {
        panic!("{all:?}");
    };
    assert_eq!((&outcome.status, &*outcome.text), (&TurnStatus::Completed, "painted"));
    assert!(events.next().await.unwrap().is_none());
}

/// Without its key, a request that is sent again would run a second time.
#[tokio::test]
async fn a_turn_is_not_sent_without_its_key() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let session = daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    let turn = owners_turn(session.id, "once", false);
    let bad = TurnSubmission { key: Some("two\nlines".to_owned()), ..turn.clone() };
    let error = daemon.submit(&bad).await.unwrap_err();
    assert!(matches!(error, ClientError::InvalidKey), "{error}");
    assert!(daemon.turns(None, Page::first(10)).await.unwrap().is_empty());

    let keyed = TurnSubmission { key: Some("key".to_owned()), ..turn };
    let (first, is_repeat) = daemon.submit(&keyed).await.unwrap();
    assert!(!is_repeat);
    let (second, is_repeat) = daemon.submit(&keyed).await.unwrap();
    assert!(is_repeat);
    assert_eq!(first.id, second.id);
}

/// A list may be longer than a page of the daemon.
#[tokio::test]
async fn lists_have_the_length_that_is_asked_for() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    for _ in 0..502 {
        daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    }
    for (limit, expected) in [(0, 0), (1, 1), (500, 500), (501, 501), (usize::MAX, 502)] {
        let listed = daemon.sessions_by_use(None, Page::first(limit)).await.unwrap();
        assert_eq!(listed.len(), expected);
        assert!(listed.windows(2).all(|pair| pair[0].id > pair[1].id), "newest first");
    }
}

#[tokio::test]
async fn a_turn_is_interrupted_and_cannot_be_twice() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let session = daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    for kill in [false, true] {
        let (turn, _) = daemon.submit(&owners_turn(session.id, "wait", false)).await.unwrap();
        let run = stage.control.next_turn().await;
        assert!(!run.turn.options.can_ask);
        let mut events = daemon.events(turn.id, 0).await.unwrap();
        daemon.interrupt(turn.id, kill).await.unwrap();
        if !kill {
            run.io.cancel.cancelled().await;
            run.end(AgentOutcome {
                status: TurnStatus::Interrupted,
                text: None,
                reason: "asked to".into(),
            });
        }
        let all = remaining_events(&mut events).await;
        let last = all.last().map(|event| &event.kind);
        let Some(EventKind::Finished(outcome)) = last else {
            panic!("{all:?}");
        };
        assert_eq!(outcome.status, TurnStatus::Interrupted);
        assert!(daemon.interrupt(turn.id, kill).await.is_err());
    }
}

#[tokio::test]
async fn a_cut_line_loses_and_repeats_nothing() {
    let stage = TestDaemon::new();
    let line = stage.open_proxy();
    let daemon = DaemonClient::connect(&line.socket).await.unwrap();
    let session = daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    let (turn, _) = daemon.submit(&owners_turn(session.id, "talk", true)).await.unwrap();
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let mut events = daemon.events(turn.id, 0).await.unwrap();
    let mut seen = next_events(&mut events).await;
    for block in 0..20 {
        run.emit_answer(block, "something").await;
        if block % 2 == 0 {
            line.cut_connections();
        }
        seen.extend(next_events(&mut events).await);
        if block % 3 == 0 {
            line.cut_connections();
        }
    }
    // The spare connection has been cut as well.
    daemon.hello().await.unwrap();
    run.complete("done");
    seen.extend(remaining_events(&mut events).await);
    assert_eq!(seqs(&seen), (1..=42).collect::<Vec<_>>());
    // From the middle, and from after the last event.
    let mut tail = daemon.events(turn.id, 41).await.unwrap();
    assert_eq!(seqs(&remaining_events(&mut tail).await), [42]);
    let mut nothing = daemon.events(turn.id, 42).await.unwrap();
    assert!(remaining_events(&mut nothing).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_stays_away_is_missed_for_a_while() {
    let stage = TestDaemon::new();
    let line = stage.open_proxy();
    let daemon = DaemonClient::connect(&line.socket).await.unwrap();
    let session = daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    let (turn, _) = daemon.submit(&owners_turn(session.id, "talk", true)).await.unwrap();
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let mut events = daemon.events(turn.id, 0).await.unwrap();
    next_events(&mut events).await;
    line.remove().await;
    let began = Instant::now();
    let error = events.next().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)), "{error}");
    assert!(began.elapsed() >= Duration::from_secs(10));
    assert_eq!(CommandError::from(error).exit, Exit::TryLater);
    let error = CommandError::from(daemon.hello().await.unwrap_err());
    assert_eq!(error.exit, Exit::TryLater);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_falls_silent_in_a_turn_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("angelia.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let daemon = DaemonClient::connect(&socket).await.unwrap();
    let (mut near, _) = listener.accept().await.unwrap();
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let turn = TurnId::from_uuid(uuid::Uuid::from_u128(1));
    let (events, written) = tokio::join!(daemon.events(turn, 0), near.write_all(head));
    written.unwrap();
    let began = Instant::now();
    let error = events.unwrap().next().await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout), "{error}");
    assert_eq!(began.elapsed().as_secs(), 60 + 120);
}

/// A command that shows a turn also waits for keys and signals, and drops the future each time.
#[tokio::test]
async fn a_wait_that_is_dropped_loses_nothing() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let session = daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    let (turn, _) = daemon.submit(&owners_turn(session.id, "talk", true)).await.unwrap();
    let run = stage.control.next_turn().await;
    let mut events = daemon.events(turn.id, 0).await.unwrap();
    run.emit_started().await;
    for block in 0..50 {
        run.emit_answer(block, "something").await;
    }
    run.complete("done");
    let mut seen = Vec::new();
    let deadline = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < deadline);
        tokio::select! {
            biased;
            some = events.next() => match some.unwrap() {
                Some(some) => seen.extend(some),
                None => break,
            },
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(seqs(&seen), (1..=102).collect::<Vec<_>>());
}
