//! Process queries that depend on the system: one file per system, with the same functions.

use rustix::process::Pid;

#[cfg(target_os = "linux")]
mod linux;
// Also built for tests on Linux, which is the only place where it is tested.
#[cfg(any(target_os = "macos", all(test, target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(unreachable_pub, reason = "exported on macOS"))]
mod macos;

#[cfg(target_os = "linux")]
pub use linux::ProcessHandle;
#[cfg(target_os = "linux")]
pub(super) use linux::{
    find_marked, is_released, list_processes, mark_of, program_name, record_in_ledger,
    remove_from_ledger, resident_bytes, start_time,
};
#[cfg(target_os = "macos")]
pub use macos::ProcessHandle;
#[cfg(target_os = "macos")]
pub(super) use macos::{
    find_marked, is_released, list_processes, mark_of, program_name, record_in_ledger,
    remove_from_ledger, resident_bytes, start_time,
};

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("process supervision is written for Linux and macOS; add a file to process/os/");

/// The start time of a process, in the system's own unit; only meaningful for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StartTime(u64);

/// One entry of the process table. Two equal rows are the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessRow {
    pub(super) pid: Pid,
    /// `None` for the topmost process, and for processes started from outside a container.
    pub(super) parent: Option<Pid>,
    pub(super) start: StartTime,
}
