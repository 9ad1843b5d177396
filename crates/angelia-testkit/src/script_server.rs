//! A loopback server that is a script, in a separate process with a private home. The script prints its
//! address, and ends when its stdin does.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{isolated_home::IsolatedHome, programs};

/// The running server. Dropping it ends its process.
#[derive(Debug)]
pub struct ScriptServer {
    child: Child,
    /// Closing this makes the process exit on its own, even if the test is killed.
    _stdin: Option<ChildStdin>,
    address: SocketAddr,
    _home: IsolatedHome,
}

/// Returns the Python of a folder in `tests/python`.
pub(crate) fn python_of(group: &str) -> Result<PathBuf> {
    let python = programs::workspace_root().join("target/python").join(group).join("bin/python");
    if !python.is_file() {
        bail!("{} is not installed; run `cargo xtask setup`", python.display());
    }
    Ok(python)
}

/// Returns the path of a script in this crate.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)
}

impl ScriptServer {
    /// Starts a script of this crate with the packages of a folder in `tests/python`.
    pub(crate) fn start_python(
        group: &str,
        name: &str,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Self> {
        let script = script(name).into_os_string();
        let arguments = arguments.into_iter().map(Into::into);
        Self::start(&python_of(group)?, std::iter::once(script).chain(arguments))
    }

    /// Starts a program with a script as its first argument, and waits until it has printed its address.
    #[expect(clippy::disallowed_methods, reason = "starting the server is this module's purpose")]
    pub(crate) fn start(
        program: &Path,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self> {
        let home = IsolatedHome::new()?;
        let name = program.display();
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(home.environment())
            .current_dir(home.work_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut stderr = child.stderr.take().context("no stderr")?;
        // Its log must be read, or the server blocks on a full pipe.
        let log = std::thread::spawn(move || {
            let mut log = Vec::new();
            let _ended = stderr.read_to_end(&mut log);
            String::from_utf8_lossy(&log).into_owned()
        });
        let mut line = String::new();
        let address = loop {
            line.clear();
            if stdout.read_line(&mut line)? == 0 {
                child.wait()?;
                bail!("{name} did not start: {}", log.join().unwrap_or_default());
            }
            if let Some(address) = line.trim().strip_prefix("http://") {
                break address.parse().context("not an address")?;
            }
        };
        std::thread::spawn(move || {
            let _ended = std::io::copy(&mut stdout, &mut std::io::sink());
        });
        Ok(Self { child, _stdin: stdin, address, _home: home })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        // The process has nothing to save, and may already have ended.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}
