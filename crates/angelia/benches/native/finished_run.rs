//! A program that was run to its end.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// No run takes that long; a program that still waits has given no answer.
const LIMIT: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(crate) struct FinishedRun {
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
    /// `None`: ended by us after the limit.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Processor time of the program and of everything it waited for.
    pub(crate) cpu: Duration,
}

impl FinishedRun {
    /// Runs a command; its output goes to files in `folder`, so that it never waits for us.
    pub(crate) fn of(mut command: Command, folder: &Path) -> Result<Self> {
        let (out, err) = (folder.join("bench.stdout"), folder.join("bench.stderr"));
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
        let before = children_cpu()?;
        let begun = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let code = loop {
            if let Some(status) = child.try_wait()? {
                break status.code();
            }
            if begun.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let took = begun.elapsed();
        let cpu = children_cpu()?.saturating_sub(before);
        let read = |path: &Path| -> Result<String> {
            Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
        };
        Ok(Self { begun, took, code, stdout: read(&out)?, stderr: read(&err)?, cpu })
    }
}

/// Returns the processor time of all children that have ended, from `/proc/self/stat`, which counts in
/// hundredths of a second.
fn children_cpu() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no name in /proc/self/stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // `cutime` and `cstime` are fields 16 and 17; the state after the name is field 3.
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    let total = ticks(16).unwrap_or_default() + ticks(17).unwrap_or_default();
    Ok(Duration::from_millis(total * 10))
}
