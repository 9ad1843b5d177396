//! The test setup: a private home with links to the program under its other names.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use tempfile::TempDir;

pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct NotifyFixture {
    folder: TempDir,
}

impl NotifyFixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["notify-hermes", "notify-agent"] {
            let program = env!("CARGO_BIN_EXE_angelia");
            std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns a command with a cleared environment except for the search path.
    #[expect(clippy::disallowed_methods, reason = "a test starts the program under test")]
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(self.path(program.as_ref().to_str().unwrap()));
        if !command.get_program().to_str().is_some_and(|path| Path::new(path).exists()) {
            command = Command::new(program.as_ref());
        }
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("LANG", "C.UTF-8")
            .env("TMUX_TMPDIR", self.folder.path())
            .current_dir(self.folder.path());
        command
    }

    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().unwrap()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Polls until `look` returns something; panics after [`DEADLINE`].
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
