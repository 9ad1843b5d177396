//! Processor time and memory of a process, as the system counts them. Only Linux tells.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

/// Of this process, all threads.
pub fn own_time() -> Result<Duration> {
    time_of(std::process::id())
}

/// Of another process. In nanoseconds, which the sum for the whole process would not be; what a
/// thread used that has ended meanwhile is lost, and ours live on.
pub fn time_of(pid: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    let folder = format!("/proc/{pid}/task");
    for thread in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        // A thread may end while we look.
        let Ok(numbers) = fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let ran = numbers.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        nanoseconds += ran.unwrap_or_default();
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Resident memory in megabytes.
pub fn resident_megabytes(pid: u32) -> Result<f64> {
    megabytes(pid, "VmRSS:")
}

/// What of it is the process's own, and not pages of its program and libraries, which the system
/// shares among all who run them and takes back when it likes.
pub fn own_megabytes(pid: u32) -> Result<f64> {
    megabytes(pid, "RssAnon:")
}

fn megabytes(pid: u32, name: &'static str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u32 = kilobytes.context(name)?.trim().parse()?;
    Ok(f64::from(kilobytes) / 1024.0)
}
