//! The test setup: an isolated home, working folder and environment, and the program in it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use angelia_testkit::isolated_home::IsolatedHome;
use rustix::process::{Pid, Signal, kill_process};

use crate::transcript::Transcript;

/// The note of `run` if the demo answers without being chosen.
pub(crate) const DEMO_NOTE: &str = "angelia: the built-in demo agent answers; no coding agent is \
    behind it\n  hint: `angelia doctor` says how to get one\n";

/// A prompt for a turn that answers some text, calls a tool so that the text is complete and
/// recorded, and then hangs.
pub(crate) const SAYS_AND_HANGS: &str = "said before\n!tool Wait\n!hang";

/// Longer than any step takes, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct Machine {
    pub(crate) place: IsolatedHome,
    environment: Vec<(OsString, OsString)>,
}

impl Machine {
    /// Creates a machine without any installed program: its search path is empty.
    pub(crate) fn new() -> Self {
        let place = IsolatedHome::new().unwrap();
        let mut machine = Self { environment: place.environment(), place };
        machine.set("PATH", machine.place.root().join("bin"));
        machine
    }

    /// Creates a machine with a shell and its tools.
    pub(crate) fn with_shell() -> Self {
        let mut machine = Self::new();
        machine.set("PATH", "/usr/local/bin:/usr/bin:/bin");
        machine
    }

    /// Sets a variable for every program started from now on.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.into(), value.into()));
    }

    /// Returns `ANGELIA_HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.place.home().join(".angelia")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.place.work_dir()
    }

    pub(crate) fn configure(&self, yaml: &str) {
        fs::create_dir_all(self.home()).unwrap();
        fs::write(self.home().join("config.yaml"), yaml).unwrap();
    }

    /// Returns a command for any program, in this machine's environment and working folder.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        #[expect(clippy::disallowed_methods, reason = "starting the program is what is tested")]
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter().cloned());
        command.current_dir(self.work());
        command
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(ANGELIA);
        command.args(arguments);
        command
    }

    /// Runs a shell script, in which `$ANGELIA` is the program.
    pub(crate) fn shell(&self, script: &str) -> ProgramOutput {
        let mut command = self.program("/bin/sh");
        command.args(["-c", script]).env("ANGELIA", ANGELIA);
        RunningCommand::spawn(command, Stdio::null()).wait()
    }

    /// Runs a command to its end, with empty stdin.
    pub(crate) fn angelia(&self, arguments: &[&str]) -> ProgramOutput {
        self.start(arguments).wait()
    }

    pub(crate) fn angelia_with_input(&self, arguments: &[&str], input: &[u8]) -> ProgramOutput {
        let mut running = RunningCommand::spawn(self.command(arguments), Stdio::piped());
        let mut stdin = running.child.stdin.take().unwrap();
        // The program may close the pipe early; the test sees the effect in the output.
        let _closed = stdin.write_all(input);
        drop(stdin);
        running.wait()
    }

    /// Runs one turn and returns its events.
    pub(crate) fn turn(&self, arguments: &[&str]) -> Transcript {
        let ran = self.angelia(&[&["run", "--json"], arguments].concat());
        Transcript::read(&ran.stdout)
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> RunningCommand {
        RunningCommand::spawn(self.command(arguments), Stdio::null())
    }

    pub(crate) fn serve(&self) -> RunningDaemon {
        self.serve_with(&SERVE[1..])
    }

    pub(crate) fn serve_with(&self, arguments: &[&str]) -> RunningDaemon {
        let running = self.start(&[&["serve"], arguments].concat());
        let address = self.home().join("run/http.addr");
        let socket = self.home().join("run/angelia.sock");
        let pid = running.pid();
        let is_ready = || {
            let ours = fs::read_to_string(self.home().join("run/angelia.pid"));
            // A daemon that was killed has left its files, so the new one must also answer.
            ours.is_ok_and(|text| text.trim() == pid.to_string())
                && address.exists()
                && UnixStream::connect(&socket).is_ok()
        };
        let mut running = running;
        until("the daemon is ready", || {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("the daemon ended with {status}: {}", running.stderr());
            }
            is_ready()
        });
        RunningDaemon { running, socket }
    }

    /// Returns every event of a session, turn by turn.
    pub(crate) fn export(&self, session: &str) -> Vec<Transcript> {
        let exported = self.angelia(&["sessions", "export", session]);
        exported.assert_code(0);
        Transcript::read_export(&exported.stdout)
    }

    pub(crate) fn list(&self, what: &str) -> Vec<serde_json::Value> {
        let listed = self.angelia(&[what, "list", "--json", "-n", "1000"]);
        listed.assert_code(0);
        listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The arguments for a daemon on any free port: the default port may be taken by another test or by
/// the machine's user.
pub(crate) const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];

pub(crate) const ANGELIA: &str = env!("CARGO_BIN_EXE_angelia");

/// The output and status of a command that has ended.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProgramOutput {
    /// Asserts that the command ended with this code, and not by a panic.
    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        for text in [&self.stdout, &self.stderr] {
            assert!(!text.contains("panicked"), "{self:#?}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn assert_stdout(&self, part: &str) -> &Self {
        assert!(self.stdout.contains(part), "no {part:?} on stdout: {self:#?}");
        self
    }

    /// Asserts that the error on stderr contains this text.
    #[track_caller]
    pub(crate) fn assert_stderr(&self, part: &str) -> &Self {
        assert!(self.stderr.contains(part), "no {part:?} on stderr: {self:#?}");
        self
    }
}

/// A command that may still run; killed on drop.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    pub(crate) child: Child,
    stdout: Option<OutputReader>,
    stderr: Option<OutputReader>,
}

#[derive(Debug)]
struct OutputReader {
    seen: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl OutputReader {
    fn start(mut stream: impl Read + Send + 'static) -> Self {
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let shared = Arc::clone(&seen);
        let read = move || {
            let mut piece = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                shared.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        };
        Self { seen, thread: thread::spawn(read) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    fn finish(self) -> String {
        self.thread.join().unwrap();
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }
}

impl RunningCommand {
    pub(crate) fn spawn(mut command: Command, stdin: Stdio) -> Self {
        let command = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map(OutputReader::start);
        let stderr = child.stderr.take().map(OutputReader::start);
        Self { child, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Returns the output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.as_ref().map(OutputReader::so_far).unwrap_or_default()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.as_ref().map(OutputReader::so_far).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn wait_for_stdout(&self, part: &str) {
        until(&format!("{part:?} is printed"), || self.stdout().contains(part));
    }

    #[track_caller]
    pub(crate) fn wait(self) -> ProgramOutput {
        self.wait_within(DEADLINE)
    }

    #[track_caller]
    pub(crate) fn wait_within(mut self, limit: Duration) -> ProgramOutput {
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let late = Instant::now() > end;
            assert!(!late, "it does not end: {:?} {:?}", self.stdout(), self.stderr());
            thread::sleep(Duration::from_millis(2));
        };
        let stdout = self.stdout.take().map(OutputReader::finish).unwrap_or_default();
        let stderr = self.stderr.take().map(OutputReader::finish).unwrap_or_default();
        ProgramOutput { status, stdout, stderr }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // The process may have exited already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// A running daemon that is ready.
pub(crate) struct RunningDaemon {
    pub(crate) running: RunningCommand,
    pub(crate) socket: PathBuf,
}

impl RunningDaemon {
    /// Stops the daemon with a signal and returns its output.
    pub(crate) fn stop(self) -> ProgramOutput {
        self.running.signal(Signal::TERM);
        self.running.wait()
    }

    /// Kills the daemon with SIGKILL.
    pub(crate) fn kill(self) {
        self.running.signal(Signal::KILL);
        self.running.wait();
    }
}

/// Polls until a condition holds; panics after [`DEADLINE`].
#[track_caller]
pub(crate) fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(within(DEADLINE, condition), "this did not happen: {what}");
}

pub(crate) fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
