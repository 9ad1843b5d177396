//! The sweep at the next start: real orphans whose owners are dead, alive, or not ours.

use std::{fs, path::Path, process::Command, time::Duration};

use angelia_executors::process::{
    AgentId, HomeId, OwnerId, ProcessMark,
    sweep::{SweepOutcome, SweptProcess, sweep_agent, sweep_dead_owners},
};
use rustix::process::{Pid, Signal, kill_process};

use super::{fresh_mark, is_alive, parse_pid};

const GRACE: Duration = Duration::from_secs(10);
const NO_LEDGER: &str = "/nonexistent";

/// An orphan in its own session, as a killed owner leaves it. Killed when the test ends.
struct Orphan(Pid);

impl Orphan {
    fn with(mark: Option<&ProcessMark>, script: &str) -> Self {
        #[expect(clippy::disallowed_methods, reason = "it must not be a supervised child")]
        let mut command = Command::new("/bin/sh");
        command.env_clear().env("PATH", "/usr/bin:/bin");
        if let Some(mark) = mark {
            let (name, value) = mark.env_variable();
            command.env(name, value);
        }
        let script = format!("setsid sh -c '{script}' </dev/null 2>/dev/null & exit 0");
        let output = command.args(["-c", &script]).output().unwrap();
        Self(parse_pid(std::str::from_utf8(&output.stdout).unwrap()))
    }

    /// Prints its pid and closes stdout once it has reached its final state.
    fn sleeping(mark: Option<&ProcessMark>) -> Self {
        Self::with(mark, "echo $$; exec sleep 60 >/dev/null")
    }

    fn is_alive(&self) -> bool {
        is_alive(self.0)
    }

    fn swept(&self, fate: SweepOutcome) -> SweptProcess {
        SweptProcess { pid: self.0.as_raw_nonzero().get().unsigned_abs(), outcome: fate }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if self.is_alive() {
            _ = kill_process(self.0, Signal::KILL);
        }
    }
}

fn owned_by(home: &HomeId, owner: &str) -> ProcessMark {
    ProcessMark {
        home: home.clone(),
        owner: OwnerId::new(owner).unwrap(),
        agent: AgentId::new("agent").unwrap(),
    }
}

async fn sweep_home(home: &HomeId) -> Vec<SweptProcess> {
    sweep_dead_owners(home, Path::new(NO_LEDGER), GRACE, |owner| owner.as_str() == "living").await
}

#[tokio::test]
async fn only_what_a_dead_owner_of_this_home_left_is_ended() {
    let home = fresh_mark().home;
    let other_home = fresh_mark().home;
    let of_the_dead = Orphan::sleeping(Some(&owned_by(&home, "dead")));
    let of_another_dead = Orphan::sleeping(Some(&owned_by(&home, "dead-too")));
    let of_the_living = Orphan::sleeping(Some(&owned_by(&home, "living")));
    let of_another_home = Orphan::sleeping(Some(&owned_by(&other_home, "dead")));
    let unmarked = Orphan::sleeping(None);

    let mut swept = sweep_home(&home).await;
    swept.sort_by_key(|swept| swept.pid);
    let mut expected = [
        of_the_dead.swept(SweepOutcome::Terminated),
        of_another_dead.swept(SweepOutcome::Terminated),
    ];
    expected.sort_by_key(|swept| swept.pid);
    assert_eq!(swept, expected);

    assert!(!of_the_dead.is_alive() && !of_another_dead.is_alive());
    assert!(of_the_living.is_alive() && of_another_home.is_alive() && unmarked.is_alive());
    assert_eq!(sweep_home(&home).await, []);
}

#[tokio::test]
async fn who_ignores_sigterm_is_killed() {
    let home = fresh_mark().home;
    let mark = owned_by(&home, "dead");
    let script = r#"trap "" TERM; echo $$; exec >/dev/null; while :; do sleep 60; done"#;
    let stubborn = Orphan::with(Some(&mark), script);
    let grace = Duration::from_millis(100);
    let swept = sweep_agent(&mark, Path::new(NO_LEDGER), grace).await;
    assert!(swept.contains(&stubborn.swept(SweepOutcome::Killed)), "{swept:?}");
    assert!(!stubborn.is_alive());
}

#[tokio::test]
async fn an_agent_is_swept_without_its_siblings() {
    let mark = fresh_mark();
    let sibling_mark = ProcessMark { agent: AgentId::new("sibling").unwrap(), ..mark.clone() };
    let closed = Orphan::sleeping(Some(&mark));
    let sibling = Orphan::sleeping(Some(&sibling_mark));
    let swept = sweep_agent(&mark, Path::new(NO_LEDGER), GRACE).await;
    assert_eq!(swept, [closed.swept(SweepOutcome::Terminated)]);
    assert!(sibling.is_alive());
}

/// Only the environment variable counts as a mark: a user may have the same text elsewhere, for
/// example while searching for our processes.
#[tokio::test]
async fn a_mark_in_an_argument_or_another_variable_is_not_a_mark() {
    let mark = fresh_mark();
    let script = format!(
        "echo $$; exec env NOTE=ANGELIA_AGENT={mark} MY_ANGELIA_AGENT={mark} \
         sh -c \"exec sleep 60\" ANGELIA_AGENT={mark} >/dev/null"
    );
    let curious = Orphan::with(None, &script);
    assert_eq!(sweep_agent(&mark, Path::new(NO_LEDGER), GRACE).await, []);
    assert!(curious.is_alive());
}

/// During every `exec` the kernel briefly shows an empty environment.
#[tokio::test]
async fn a_process_that_keeps_executing_itself_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again");
    fs::write(&path, "exec /bin/sh $0\n").unwrap();
    for _ in 0..20 {
        let mark = fresh_mark();
        let script = format!("echo $$; exec /bin/sh {} >/dev/null", path.display());
        let restless = Orphan::with(Some(&mark), &script);
        let swept = sweep_agent(&mark, Path::new(NO_LEDGER), GRACE).await;
        assert_eq!(swept, [restless.swept(SweepOutcome::Terminated)]);
    }
}
