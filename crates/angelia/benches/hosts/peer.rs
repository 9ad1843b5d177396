//! A program that reads and writes lines, driven with as little overhead as possible: blocking
//! pipes, lines split at the newline, nothing parsed unless requested.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use angelia_testkit::benchmark::MeasuredProcess;
use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use serde_json::Value;

pub(crate) struct LineProcess {
    running: MeasuredProcess,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl LineProcess {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = MeasuredProcess::start(command.stderr(Stdio::null()))?;
        let input = running.child.stdin.take().context("no stdin")?;
        let output = running.child.stdout.take().context("no stdout")?;
        Ok(Self {
            running,
            input,
            output: BufReader::with_capacity(1 << 16, output),
            line: Vec::new(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub(crate) fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.input.write_all(format!("{message}\n").as_bytes())?)
    }

    /// Reads the next line, unparsed.
    pub(crate) fn next_line(&mut self) -> Result<&[u8]> {
        self.line.clear();
        let read = self.output.read_until(b'\n', &mut self.line)?;
        ensure!(read > 0, "the program ended early");
        Ok(&self.line)
    }

    /// Reads up to the first line that contains `sign`, and parses that line.
    pub(crate) fn read_until(&mut self, sign: &str) -> Result<Value> {
        while memmem::find(self.next_line()?, sign.as_bytes()).is_none() {}
        Ok(serde_json::from_slice(&self.line)?)
    }
}
