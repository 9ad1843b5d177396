//! A private home, working folder and environment for a child process.

use std::{ffi::OsString, io, ops::Deref};

use angelia_executors::selftest::{PrivateFolders, PrivateHome};

use crate::real::{CLAUDE_KEY, CLAUDE_TOKEN, RealClaude};

/// A temporary home with its working, temporary and runtime folders; removed on drop.
#[derive(Debug)]
pub struct IsolatedHome(PrivateHome);

impl Deref for IsolatedHome {
    type Target = PrivateFolders;

    fn deref(&self) -> &PrivateFolders {
        &self.0
    }
}

impl IsolatedHome {
    pub fn new() -> io::Result<Self> {
        PrivateHome::create(&std::env::temp_dir(), "angelia-test-").map(Self)
    }

    /// Returns a child's complete environment, for a process that is started with a cleared one. It
    /// contains only `PATH`, the language, and the variables that keep every file inside this home.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        PrivateFolders::environment(self, search_path())
    }

    /// Returns the same as [`Self::environment`], for an agent that uses the model server at
    /// `base_url` with a dummy key.
    pub fn agent_environment(&self, base_url: &str) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment();
        let variables = RealClaude::model_variables(base_url).into_iter();
        environment.extend(variables.map(|(name, value)| (name.into(), value.into())));
        environment.push(("ANTHROPIC_API_KEY".into(), CLAUDE_KEY.into()));
        environment
    }

    /// Returns the same as [`Self::agent_environment`], but with a dummy subscription token instead
    /// of an API key.
    pub fn subscription_environment(&self, base_url: &str) -> Vec<(OsString, OsString)> {
        let mut environment = self.agent_environment(base_url);
        environment.retain(|(name, _)| name != "ANTHROPIC_API_KEY");
        environment.push(("CLAUDE_CODE_OAUTH_TOKEN".into(), CLAUDE_TOKEN.into()));
        environment
    }
}

#[expect(clippy::disallowed_methods, reason = "a child still has to find shells and tools")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}
