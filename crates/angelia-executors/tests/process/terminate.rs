//! The stop ladder, rung by rung, and the processes that must not be left when it ends.

use std::{os::unix::process::ExitStatusExt, time::Duration};

use angelia_executors::process::{
    Child, StopStage, StopTimeouts, Termination, spawn, sweep::SweepOutcome, terminate,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{io::AsyncReadExt, time::timeout};

use super::{
    DEADLINE, eventually, is_alive, parse_pid, pid_of, shell, start, start_with_grandchild,
    state_of,
};

/// Short waits for children that do not react.
const SHORT_TIMEOUTS: StopTimeouts = StopTimeouts {
    after_eof: Duration::from_millis(150),
    after_term: Duration::from_millis(150),
    after_kill: DEADLINE,
    output_drain: Duration::from_millis(200),
    sweep_grace: Duration::from_millis(300),
};

/// Long waits for children that do react, with room for a busy machine.
const LONG_TIMEOUTS: StopTimeouts = StopTimeouts {
    after_eof: DEADLINE,
    after_term: DEADLINE,
    sweep_grace: DEADLINE,
    ..SHORT_TIMEOUTS
};

/// Waits for children that react only to SIGTERM.
const SHORT_EOF_TIMEOUT: StopTimeouts =
    StopTimeouts { after_eof: SHORT_TIMEOUTS.after_eof, ..LONG_TIMEOUTS };

async fn terminate_child(child: Child, ladder: &StopTimeouts) -> Termination {
    timeout(2 * DEADLINE, terminate(child, ladder, |_| ())).await.unwrap()
}

fn signal_of(ended: &Termination) -> Option<i32> {
    ended.status.unwrap().signal()
}

#[tokio::test]
async fn closing_stdin_is_enough_for_the_polite() {
    let (child, _) = start("echo ready; cat; exit 4").await;
    let ended = terminate_child(child, &LONG_TIMEOUTS).await;
    assert_eq!(ended.stage, StopStage::StdinClosed);
    assert_eq!(ended.status.unwrap().code(), Some(4));
    assert!(!ended.leaked && ended.swept.is_empty());
}

#[tokio::test]
async fn who_ignores_the_end_of_stdin_gets_sigterm() {
    let (child, _) = start("echo ready; exec sleep 60").await;
    let ended = terminate_child(child, &SHORT_EOF_TIMEOUT).await;
    assert_eq!((ended.stage, signal_of(&ended)), (StopStage::Terminated, Some(15)));
}

#[tokio::test]
async fn who_ignores_sigterm_gets_sigkill() {
    let (child, _) = start("trap '' TERM; echo ready; while :; do sleep 60; done").await;
    let ended = terminate_child(child, &SHORT_TIMEOUTS).await;
    assert_eq!((ended.stage, signal_of(&ended)), (StopStage::Killed, Some(9)));
    assert!(!ended.leaked, "the sleeping member of the group was killed too");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_is_stopped_is_woken_to_hear_sigterm() {
    let (child, _) = start("echo ready; kill -STOP $$; exec sleep 60").await;
    let pid = pid_of(&child);
    eventually("the child is stopped", || state_of(pid) == Some('T')).await;
    assert_eq!(terminate_child(child, &SHORT_EOF_TIMEOUT).await.stage, StopStage::Terminated);
}

#[tokio::test]
async fn who_died_in_the_middle_of_a_line_is_still_heard() {
    let mut child =
        spawn(&shell("printf 'whole\nhalf a li'; echo why >&2; kill -9 $$")).await.unwrap();
    let stderr = child.stderr();
    let status = timeout(DEADLINE, child.wait_exit()).await.unwrap();
    assert_eq!(status.signal(), Some(9));
    let mut output = Vec::new();
    let ended = terminate(child, &SHORT_TIMEOUTS, |bytes| output.extend_from_slice(bytes)).await;
    assert_eq!((ended.stage, ended.status), (StopStage::AlreadyExited, Some(status)));
    assert_eq!(output, b"whole\nhalf a li");
    assert_eq!(stderr.tail(|text| text.into()), "why\n");
}

#[tokio::test]
async fn a_flood_is_drained_to_its_end_in_bounded_memory() {
    const FLOOD: usize = 200_000_000;
    let script = format!(
        "echo ready; cat; head -c {FLOOD} /dev/zero & head -c {FLOOD} /dev/zero >&2; wait; exit 7"
    );
    let (child, _) = start(&script).await;
    let before = peak_memory();
    let mut drained = 0;
    let ended = terminate(child, &LONG_TIMEOUTS, |bytes| drained += bytes.len()).await;
    assert_eq!((ended.stage, ended.status.unwrap().code()), (StopStage::StdinClosed, Some(7)));
    assert_eq!(drained, FLOOD);
    assert!(!ended.leaked);
    assert!(peak_memory() - before < 16 * 1024, "KiB more: {}", peak_memory() - before);
}

#[tokio::test]
async fn an_endless_flood_cannot_hold_up_the_ladder() {
    let (child, _) = start("trap '' TERM; echo ready; yes >&2 & exec yes").await;
    let ended = terminate_child(child, &SHORT_TIMEOUTS).await;
    assert_eq!((ended.stage, signal_of(&ended)), (StopStage::Killed, Some(9)));
    assert!(!ended.leaked);
}

#[tokio::test]
async fn a_grandchild_in_its_own_session_cannot_hold_the_pipe_for_ever() {
    let (child, grandchild) =
        start_with_grandchild("setsid sh -c 'echo $$; exec sleep 60' & exit 5").await;
    let ended = terminate_child(child, &LONG_TIMEOUTS).await;
    assert_eq!(ended.status.unwrap().code(), Some(5));
    assert!(ended.leaked);
    assert_swept(&ended, grandchild, SweepOutcome::Terminated);
    assert!(ended.elapsed < DEADLINE / 2, "{ended:?}");
}

#[tokio::test]
async fn a_grandchild_that_ignores_sigterm_is_killed() {
    let script = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 60; done' & wait $!";
    let (child, grandchild) = start_with_grandchild(script).await;
    let ended = terminate_child(child, &SHORT_TIMEOUTS).await;
    assert_eq!(ended.stage, StopStage::Terminated);
    assert_swept(&ended, grandchild, SweepOutcome::Killed);
}

#[tokio::test]
async fn a_silent_grandchild_is_found_too() {
    let script = "setsid sh -c 'echo $$; exec sleep 60 >/dev/null 2>&1 </dev/null' & exit 0";
    let (child, grandchild) = start_with_grandchild(script).await;
    let ended = terminate_child(child, &LONG_TIMEOUTS).await;
    assert!(!ended.leaked);
    assert_swept(&ended, grandchild, SweepOutcome::Terminated);
}

#[tokio::test]
async fn an_unmarked_child_of_a_marked_grandchild_goes_with_it() {
    let script = "setsid sh -c 'env -i sleep 60 >/dev/null 2>&1 & echo $!; wait' & wait $!";
    let (child, unmarked) = start_with_grandchild(script).await;
    let ended = terminate_child(child, &SHORT_TIMEOUTS).await;
    assert_swept(&ended, unmarked, SweepOutcome::Terminated);
}

#[tokio::test]
async fn an_unmarked_member_of_the_group_goes_with_the_group() {
    let script = "env -i sleep 60 >/dev/null 2>&1 </dev/null & echo $!; exit 0";
    let (child, unmarked) = start_with_grandchild(script).await;
    terminate_child(child, &LONG_TIMEOUTS).await;
    eventually("the group is empty", || !is_alive(unmarked)).await;
}

#[tokio::test]
async fn who_is_born_during_the_sweep_is_swept() {
    let script = "setsid sh -c 'trap \"setsid sleep 60 & echo \\$!; exit\" TERM; echo $$; \
                  while :; do sleep 0.01; done' 2>/dev/null & wait $!";
    let (mut child, grandchild) = start_with_grandchild(script).await;
    // The new process prints its pid only when the sweep's SIGTERM arrives, after the leak timeout.
    let mut stdout = child.stdout.take().unwrap();
    let mut output = Vec::new();
    let (ended, read) =
        tokio::join!(terminate_child(child, &SHORT_TIMEOUTS), stdout.read_to_end(&mut output));
    read.unwrap();
    let newborn = parse_pid(std::str::from_utf8(&output).unwrap());
    assert!(!is_alive(grandchild) && !is_alive(newborn), "{ended:?}");
    assert!(ended.swept.len() >= 2, "{ended:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_released_process_and_its_children_stay() {
    let script = "setsid sh -c 'ANGELIA_AGENT=released setsid sh -c \"sleep 60 & echo \\$!; wait\" \
                  </dev/null 2>/dev/null & wait' & wait $!";
    let (mut child, below) = start_with_grandchild(script).await;
    child.stdout = None;
    terminate_child(child, &SHORT_TIMEOUTS).await;
    assert!(is_alive(below));
    kill_process(below, Signal::KILL).unwrap();
}

#[tokio::test]
async fn dropping_a_child_kills_its_group_and_its_runaways() {
    let script = "trap '' TERM; setsid sleep 60 & echo $!; while :; do sleep 60; done";
    let (child, grandchild) = start_with_grandchild(script).await;
    let leader = pid_of(&child);
    drop(child);
    eventually("both are gone", || !is_alive(leader) && !is_alive(grandchild)).await;
}

#[tokio::test]
async fn dropping_the_ladder_kills_at_once() {
    let (child, _) = start("trap '' TERM; echo ready; while :; do sleep 60; done").await;
    let leader = pid_of(&child);
    let endless = StopTimeouts { after_eof: 10 * DEADLINE, ..SHORT_TIMEOUTS };
    let cut_short = timeout(Duration::from_millis(20), terminate(child, &endless, |_| ())).await;
    assert!(cut_short.is_err());
    eventually("the child is gone", || !is_alive(leader)).await;
}

/// The zombie reserves its pid and group id, so that they are not reused by an unrelated process.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_exited_child_keeps_its_pid_until_it_is_terminated() {
    let (mut child, _) = start("echo ready; exit 3").await;
    let (pid, start) = (pid_of(&child), child.start_time());
    assert!(start.is_some());
    let status = timeout(DEADLINE, child.wait_exit()).await.unwrap();
    assert_eq!(child.try_exit_status(), Some(status));
    assert_eq!(state_of(pid), Some('Z'));
    let ended = terminate_child(child, &SHORT_TIMEOUTS).await;
    assert_eq!((ended.stage, ended.status), (StopStage::AlreadyExited, Some(status)));
    assert_ne!(state_of(pid), Some('Z'));
}

fn assert_swept(ended: &Termination, pid: Pid, fate: SweepOutcome) {
    let raw = pid.as_raw_nonzero().get().unsigned_abs();
    if cfg!(target_os = "linux") {
        let found = ended.swept.iter().find(|swept| swept.pid == raw);
        assert_eq!(found.map(|swept| swept.outcome), Some(fate), "{ended:?}");
    }
    assert!(!is_alive(pid), "{ended:?}");
}

/// Returns the peak memory in KiB; 0 where the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
}
