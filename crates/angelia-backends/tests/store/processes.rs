//! Several processes on one file, and one of them killed. The other process is this same test
//! program, started to run one of its ignored tests.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
};

use angelia_backends::{owners::OwnerRegistry, store::SqliteStore};
use angelia_core::{
    model::{SessionId, TurnState},
    ports::{Page, Store as _, StoreError},
};
use angelia_testkit::conformance::store::{
    assert_same_debug, event, finished, notice, plain_session, stored_turn,
};

use crate::home::TempHome;

struct OtherProcess {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Held open: closing it tells the child to stop.
    input: ChildStdin,
}

impl OtherProcess {
    #[expect(clippy::disallowed_methods, reason = "a test plays a process of its own")]
    fn start(test: &str, home: &TempHome) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{}", home.path().display()).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output, input }
    }

    /// Returns the rest of the next line that starts with `word`.
    fn wait_for_line(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let length = self.output.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "it ended without saying `{word}`");
            if let Some(rest) = line.trim().strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the first line that this process was sent; `None` when a user runs all ignored tests.
fn read_stdin_line() -> Option<String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

fn open_store(home: &str) -> SqliteStore {
    let home = Path::new(home);
    let owner = OwnerRegistry::new(home.join("run/owners")).register("serve").unwrap();
    SqliteStore::open(&home.join("state.db"), Arc::new(owner)).unwrap()
}

#[tokio::test]
#[ignore = "run by the tests below as a process of its own"]
async fn owner_that_appends_until_it_is_killed() {
    let Some(home) = read_stdin_line() else { return };
    let store = open_store(&home);
    let (lease, turn) = stored_turn(&store).await;
    store.set_turn_state(&lease, turn.id, &TurnState::Running).await.unwrap();
    println!("\nsession {}", lease.session);
    for seq in 1.. {
        let append = store.append(&lease, vec![event(&turn, seq, notice("n"))]);
        append.await.unwrap().await.unwrap();
        println!("committed {seq}");
    }
}

#[tokio::test]
#[ignore = "run by the tests below as a process of its own"]
async fn process_that_opens_at_once_with_others() {
    let Some(home) = read_stdin_line() else { return };
    println!("\nready");
    if read_stdin_line().is_none() {
        return;
    }
    let store = open_store(&home);
    store.create_session(&plain_session()).await.unwrap();
    store.close().await;
    println!("done");
}

#[tokio::test]
async fn what_a_killed_owner_committed_is_there_and_its_turn_is_lost() {
    let home = TempHome::new();
    let mut other = OtherProcess::start("processes::owner_that_appends_until_it_is_killed", &home);
    let session: SessionId = other.wait_for_line("session").parse().unwrap();
    let pid = other.child.id();

    let store = home.open();
    assert!(store.lost_turns().await.unwrap().is_empty());
    let held = store.acquire_lease(session).await;
    let Err(StoreError::Held(holder)) = held else {
        panic!("its owner lives: {held:?}");
    };
    assert_eq!((holder.pid, holder.command.as_str()), (pid, "serve"));

    let mut committed: u64 = 0;
    while committed < 20 {
        committed = other.wait_for_line("committed").parse().unwrap();
    }
    other.kill();

    let lost = store.lost_turns().await.unwrap();
    let [turn] = &lost[..] else {
        panic!("one turn was running: {lost:?}");
    };
    assert_eq!((turn.session, &turn.state), (session, &TurnState::Running));
    let events = store.replay(turn.id, 0, usize::MAX).await.unwrap();
    assert!(events.len() as u64 >= committed, "an answer was taken back");
    for (seq, event) in (1..).zip(&events) {
        assert_eq!(event.seq, seq, "a gap");
    }

    let lease = store.acquire_lease(session).await.unwrap();
    let end = event(turn, events.len() as u64 + 1, finished());
    let append = store.append(&lease, vec![end]).await.unwrap();
    append.await.unwrap();
    assert!(store.lost_turns().await.unwrap().is_empty());
}

#[tokio::test]
async fn many_processes_may_start_on_a_new_home_at_once() {
    let home = TempHome::new();
    let test = "processes::process_that_opens_at_once_with_others";
    let mut others: Vec<_> = (0..8).map(|_| OtherProcess::start(test, &home)).collect();
    for other in &mut others {
        other.wait_for_line("ready");
    }
    for other in &mut others {
        writeln!(other.input, "go").unwrap();
    }
    for other in &mut others {
        other.wait_for_line("done");
    }
    let store = home.open();
    assert_eq!(store.sessions(Page::first(100)).await.unwrap().len(), 8);
    assert_same_debug(&store.lost_turns().await.unwrap(), &[(); 0]);
}
