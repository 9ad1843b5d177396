//! Processor time and memory of a process, read from `/proc`. Works only on Linux.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

/// Returns the processor time of all threads of this process.
pub fn own_cpu_time() -> Result<Duration> {
    cpu_time(std::process::id())
}

/// Returns the processor time of another process. Adds up the threads, because only their
/// `schedstat` counts nanoseconds. The time of a thread that has ended is lost, but our threads do
/// not end during a measurement.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    let folder = format!("/proc/{pid}/task");
    for thread in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        // The thread may end between the listing and this read.
        let Ok(numbers) = fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let ran = numbers.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        nanoseconds += ran.unwrap_or_default();
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Returns the resident memory in megabytes.
pub fn resident_megabytes(pid: u32) -> Result<f64> {
    Ok(f64::from(resident_kilobytes(pid)?) / 1024.0)
}

/// Returns the resident memory in kilobytes.
pub fn resident_kilobytes(pid: u32) -> Result<u32> {
    kilobytes(pid, "VmRSS:")
}

/// Returns the process's private resident memory (`RssAnon`) in megabytes. Pages of the program and
/// its libraries do not count: the system shares them between processes and can reclaim them.
pub fn private_megabytes(pid: u32) -> Result<f64> {
    Ok(f64::from(kilobytes(pid, "RssAnon:")?) / 1024.0)
}

fn kilobytes(pid: u32, name: &'static str) -> Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes.context(name)?.trim().parse()?)
}
