//! A place of its own for a child process: private home, working folder, and environment.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use tempfile::TempDir;

/// A temporary home; removed on drop.
#[derive(Debug)]
pub struct Isolated {
    root: TempDir,
}

impl Isolated {
    pub fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("angelia-test-").tempdir()?;
        for folder in ["home", "work", "tmp", "run"] {
            std::fs::create_dir(root.path().join(folder))?;
        }
        Ok(Self { root })
    }

    /// What `HOME` is set to.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// An empty folder to start programs in.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The whole environment of a child, for a process started with a cleared one: only what finds
    /// programs and keeps every file inside this place.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = vec![
            ("HOME".into(), self.home().into()),
            ("TMPDIR".into(), self.root.path().join("tmp").into()),
            ("XDG_RUNTIME_DIR".into(), self.root.path().join("run").into()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        environment.push(("PATH".into(), search_path()));
        environment
    }

    /// The same for an agent that talks to the model server at `base_url` with a dummy key.
    pub fn agent_environment(&self, base_url: &str) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment();
        environment.extend(
            [
                ("ANTHROPIC_BASE_URL", base_url),
                ("ANTHROPIC_API_KEY", "sk-ant-dummy-key-of-the-tests"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                ("DISABLE_TELEMETRY", "1"),
                ("DISABLE_AUTOUPDATER", "1"),
                ("DISABLE_ERROR_REPORTING", "1"),
            ]
            .map(|(name, value)| (name.into(), value.into())),
        );
        environment
    }

    /// As [`Self::agent_environment`], logged in by a dummy subscription token instead of a key.
    pub fn subscription_environment(&self, base_url: &str) -> Vec<(OsString, OsString)> {
        let mut environment = self.agent_environment(base_url);
        environment.retain(|(name, _)| name != "ANTHROPIC_API_KEY");
        environment
            .push(("CLAUDE_CODE_OAUTH_TOKEN".into(), "sk-ant-oat01-dummy-token-of-tests".into()));
        environment
    }
}

impl Drop for Isolated {
    /// A child that was just killed may still be writing, which makes a removal fail half-way.
    fn drop(&mut self) {
        for _ in 0..50 {
            match std::fs::remove_dir_all(self.root.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    thread::sleep(Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a child still has to find shells and tools")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}
