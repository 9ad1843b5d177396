//! A child process that misbehaves on request, for tests of process supervision.
//!
//! Its arguments are verbs that are executed in order. After the last one, it exits with 0.
//!
//! | verb | what it does |
//! |---|---|
//! | `say TEXT`, `stderr TEXT` | one line on that stream |
//! | `pid` | the line `pid N` on stdout |
//! | `pid-file PATH` | writes its pid there |
//! | `env` | its environment, one `NAME=VALUE` line each, sorted |
//! | `echo` | copies stdin to stdout until the end of input |
//! | `await-eof` | reads stdin until its end without output |
//! | `ignore-term` | from now on SIGTERM does nothing |
//! | `exit-on-term CODE` | from now on SIGTERM ends it with that code |
//! | `setsid` | becomes the leader of a new session |
//! | `fork VERBS` | starts itself with these verbs (split at spaces) on the same pipes; continues |
//! | `flood BYTES` | that many bytes of short lines on stdout |
//! | `flood-stderr BYTES` | the same on stderr |
//! | `long-line BYTES` | one line of that length |
//! | `half-line TEXT` | text without its newline |
//! | `close-stdout` | closes its end of the pipe |
//! | `sleep MILLISECONDS`, `hang` | waits; `hang` for ten minutes, so that nothing stays forever |
//! | `exit CODE`, `abort`, `kill` | ends with that code, by SIGABRT, by SIGKILL |
//!
//! A grandchild in its own session that keeps the pipe open: `fork "setsid pid-file P hang" exit 0`.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::AsFd as _,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};

const HANG: Duration = Duration::from_mins(10);

fn main() -> anyhow::Result<ExitCode> {
    let mut agent = FakeAgent { stdout: Some(duplicate(&io::stdout())?) };
    let mut verbs = env::args().skip(1);
    while let Some(verb) = verbs.next() {
        let needed = if takes_value(&verb) { verbs.next() } else { Some(String::new()) };
        let value = needed.with_context(|| format!("{verb} needs a value"))?;
        if let Some(code) = agent.act(&verb, &value)? {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn takes_value(verb: &str) -> bool {
    let alone = [
        "pid",
        "env",
        "echo",
        "await-eof",
        "ignore-term",
        "setsid",
        "close-stdout",
        "hang",
        "abort",
        "kill",
    ];
    !alone.contains(&verb)
}

struct FakeAgent {
    stdout: Option<File>,
}

impl FakeAgent {
    fn act(&mut self, verb: &str, value: &str) -> anyhow::Result<Option<ExitCode>> {
        match verb {
            "say" => self.write(format!("{value}\n").as_bytes())?,
            "stderr" => io::stderr().write_all(format!("{value}\n").as_bytes())?,
            "pid" => self.write(format!("pid {}\n", std::process::id()).as_bytes())?,
            "pid-file" => write_pid(value)?,
            "env" => self.write(environment().as_bytes())?,
            "echo" => self.echo()?,
            "await-eof" => drop(io::copy(&mut io::stdin(), &mut io::sink())?),
            "ignore-term" => on_term(None)?,
            "exit-on-term" => on_term(Some(value.parse()?))?,
            "setsid" => drop(rustix::process::setsid()?),
            "fork" => fork(value)?,
            "flood" => flood(&mut self.open()?, value.parse()?)?,
            "flood-stderr" => flood(&mut io::stderr(), value.parse()?)?,
            "long-line" => self.long_line(value.parse()?)?,
            "half-line" => self.write(value.as_bytes())?,
            "close-stdout" => self.close()?,
            "sleep" => thread::sleep(Duration::from_millis(value.parse()?)),
            "hang" => thread::sleep(HANG),
            "exit" => return Ok(Some(ExitCode::from(value.parse::<u8>()?))),
            "abort" => std::process::abort(),
            "kill" => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
            }
            unknown => bail!("no such verb: {unknown}"),
        }
        Ok(None)
    }

    fn open(&self) -> anyhow::Result<&File> {
        self.stdout.as_ref().context("stdout is closed")
    }

    fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.open()?.write_all(bytes)?)
    }

    fn echo(&self) -> anyhow::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match io::stdin().read(&mut buffer)? {
                0 => return Ok(()),
                read => self.write(&buffer[..read])?,
            }
        }
    }

    fn long_line(&self, length: usize) -> anyhow::Result<()> {
        let block = vec![b'x'; 64 * 1024];
        let mut left = length;
        while left > 0 {
            let part = left.min(block.len());
            self.write(&block[..part])?;
            left -= part;
        }
        self.write(b"\n")
    }

    /// Closes stdout. Descriptor 1 must be closed as well as our copy of it, so it is redirected to
    /// `/dev/null`.
    fn close(&mut self) -> anyhow::Result<()> {
        self.stdout = None;
        let nowhere = File::options().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(nowhere)?;
        Ok(())
    }
}

fn duplicate(stream: &io::Stdout) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// Writes the pid to a draft and renames it, so that a reader never sees half a number.
fn write_pid(path: &str) -> io::Result<()> {
    let draft = format!("{path}.draft");
    std::fs::write(&draft, std::process::id().to_string())?;
    std::fs::rename(draft, path)
}

fn environment() -> String {
    #[expect(clippy::disallowed_methods, reason = "showing the environment is the verb's purpose")]
    let mut lines: Vec<String> = env::vars_os()
        .map(|(name, value)| format!("{}={}\n", name.display(), value.display()))
        .collect();
    lines.sort();
    lines.concat()
}

fn flood(stream: &mut impl io::Write, bytes: usize) -> io::Result<()> {
    let line = [&[b'f'; 1023][..], b"\n"].concat().repeat(64);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(line.len());
        stream.write_all(&line[..part])?;
        left -= part;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a leftover descendant is what this fake is for")]
fn fork(verbs: &str) -> anyhow::Result<()> {
    Command::new(env::current_exe()?).args(verbs.split(' ')).spawn()?;
    Ok(())
}

/// Installs a SIGTERM handler. It runs on its own thread, because the verbs continue in the
/// meantime.
fn on_term(exit: Option<i32>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut term = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?
    };
    thread::Builder::new().spawn(move || {
        runtime.block_on(async {
            while term.recv().await.is_some() {
                if let Some(code) = exit {
                    std::process::exit(code);
                }
            }
        });
    })?;
    Ok(())
}
