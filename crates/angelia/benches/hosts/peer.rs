//! A program that reads lines and writes lines, with as little as possible between it and the
//! clock: blocking pipes, lines split at the newline, nothing parsed unless it is asked for.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use serde_json::Value;

/// Killed when dropped.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Peer {
    #[expect(
        clippy::disallowed_methods,
        reason = "what is compared is started here"
    )]
    pub(crate) fn start(
        program: &Path,
        arguments: &[&str],
        environment: Vec<(OsString, OsString)>,
        folder: &Path,
    ) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let input = child.stdin.take().context("no stdin")?;
        let output = child.stdout.take().context("no stdout")?;
        Ok(Self {
            child,
            input,
            output: BufReader::with_capacity(1 << 16, output),
            line: Vec::new(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.input.write_all(format!("{message}\n").as_bytes())?)
    }

    /// The next line, as it is.
    pub(crate) fn next(&mut self) -> Result<&[u8]> {
        self.line.clear();
        let read = self.output.read_until(b'\n', &mut self.line)?;
        ensure!(read > 0, "the program ended early");
        Ok(&self.line)
    }

    /// The first line that has this in it.
    pub(crate) fn until(&mut self, sign: &str) -> Result<Value> {
        while memmem::find(self.next()?, sign.as_bytes()).is_none() {}
        Ok(serde_json::from_slice(&self.line)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
