//! A private home, working folder and environment for a child process.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::real::{CLAUDE_KEY, CLAUDE_TOKEN, RealClaude};

/// A temporary home with its working, temporary and runtime folders; removed on drop.
#[derive(Debug)]
pub struct IsolatedHome {
    root: TempDir,
}

impl IsolatedHome {
    pub fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("angelia-test-").tempdir()?;
        for folder in ["home", "work", "tmp", "run"] {
            std::fs::create_dir(root.path().join(folder))?;
        }
        Ok(Self { root })
    }

    /// Returns the folder that `HOME` points to.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Returns an empty folder to start programs in.
    pub fn work_dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns a child's whole environment, for a process that is started with a cleared one. It
    /// holds only `PATH`, the language, and the variables that keep every file inside this home.
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

    /// Like [`Self::environment`], for an agent that uses the model server at `base_url` with a
    /// dummy key.
    pub fn agent_environment(&self, base_url: &str) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment();
        let variables = RealClaude::model_variables(base_url).into_iter();
        environment.extend(variables.map(|(name, value)| (name.into(), value.into())));
        environment.push(("ANTHROPIC_API_KEY".into(), CLAUDE_KEY.into()));
        environment
    }

    /// Like [`Self::agent_environment`], but with a dummy subscription token instead of an API key.
    pub fn subscription_environment(&self, base_url: &str) -> Vec<(OsString, OsString)> {
        let mut environment = self.agent_environment(base_url);
        environment.retain(|(name, _)| name != "ANTHROPIC_API_KEY");
        environment.push(("CLAUDE_CODE_OAUTH_TOKEN".into(), CLAUDE_TOKEN.into()));
        environment
    }
}

impl Drop for IsolatedHome {
    /// Retries the removal: a child that was just killed may still be writing, which makes it fail
    /// half-way.
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
