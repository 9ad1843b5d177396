//! The real agent programs installed by `cargo xtask setup`. A test that needs a missing one fails; it is
//! never skipped.

use std::path::{Path, PathBuf};

use angelia_core::model::SessionSpec;
use angelia_executors::claude::selftest;

use crate::{isolated_home::IsolatedHome, programs};

/// One installed version of Claude Code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealClaude {
    pub version: &'static str,
    pub path: PathBuf,
}

/// The dummy API key that Claude Code uses as its login.
pub const CLAUDE_KEY: &str = selftest::DUMMY_KEY;

/// The dummy subscription token, another kind of login for Claude Code.
pub const CLAUDE_TOKEN: &str = "sk-ant-oat01-dummy-token-of-tests";

/// Set to `all` by `cargo xtask test full`.
const VERSIONS_VARIABLE: &str = "ANGELIA_TEST_VERSIONS";

#[derive(Debug, thiserror::Error)]
#[error("{0} is not installed; run `cargo xtask setup`")]
pub struct ProgramNotInstalled(PathBuf);

impl RealClaude {
    pub const OLDEST: &str = "2.1.197";
    pub const NEWEST: &str = "2.1.325";

    /// Returns the oldest and the newest supported version.
    pub fn all() -> Result<[Self; 2], ProgramNotInstalled> {
        Ok([Self::oldest()?, Self::newest()?])
    }

    /// Returns the versions for a test of the whole product: the newest one and, in `cargo xtask test full`,
    /// also the oldest one. Tests of the executor itself always run on [both](Self::all), so a difference
    /// between the versions is found there at a fraction of the cost.
    #[expect(clippy::disallowed_methods, reason = "the runner of the tests says which suite runs")]
    pub fn for_product_tests() -> Result<Vec<Self>, ProgramNotInstalled> {
        match std::env::var(VERSIONS_VARIABLE).as_deref() {
            Ok("all") => Ok(Self::all()?.into()),
            _ => Ok(vec![Self::newest()?]),
        }
    }

    pub fn oldest() -> Result<Self, ProgramNotInstalled> {
        Self::find(Self::OLDEST)
    }

    pub fn newest() -> Result<Self, ProgramNotInstalled> {
        Self::find(Self::NEWEST)
    }

    fn find(version: &'static str) -> Result<Self, ProgramNotInstalled> {
        let package = format!("claude-code-{version}-{}", platform());
        let path = require_installed(&format!("claude/node_modules/{package}/claude"))?;
        Ok(Self { version, path })
    }

    /// Returns the arguments that make the program speak stream-json over stdin and stdout.
    pub fn stream_arguments() -> Vec<&'static str> {
        let base = "-p --input-format stream-json --output-format stream-json --verbose";
        base.split(' ').collect()
    }

    /// Returns the variables that make the program talk only to the model at `base_url`.
    pub fn model_variables(base_url: &str) -> Vec<(&'static str, String)> {
        selftest::model_variables(base_url)
    }

    /// Returns the variables of a profile: those of [`Self::model_variables`], a runtime folder in this home,
    /// and a single retry, so that a test of a failure is short.
    pub fn variables(place: &IsolatedHome, base_url: &str) -> Vec<(&'static str, String)> {
        selftest::private_variables(place, base_url)
    }

    /// Returns the indented lines of a profile, or of `executors.claude`, that run this program in
    /// this home, logged in with [`CLAUDE_KEY`]. The last lines are the variables, so a test can
    /// append its own.
    pub fn config_lines(&self, place: &IsolatedHome, base_url: &str) -> String {
        let lines = self.config_lines_without_login(place, base_url);
        format!("{lines}      ANTHROPIC_API_KEY: {CLAUDE_KEY}\n")
    }

    /// Returns the same as [`Self::config_lines`], but without an API key, so that the program needs its own
    /// login.
    pub fn config_lines_without_login(&self, place: &IsolatedHome, base_url: &str) -> String {
        let variables = Self::variables(place, base_url).into_iter();
        let variables: Vec<_> =
            variables.map(|(name, value)| format!("      {name}: '{value}'\n")).collect();
        let path = self.path.display();
        format!("    warm: 0\n    binary: {path}\n    env:\n{}", variables.concat())
    }

    /// Returns the specification of a session in this home, logged in with [`CLAUDE_KEY`].
    pub fn spec(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        let mut spec = self.spec_without_login(place, base_url);
        spec.env.insert("ANTHROPIC_API_KEY".into(), CLAUDE_KEY.into());
        spec
    }

    pub fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        let mut spec = SessionSpec::new("claude", place.work_dir());
        spec.binary = Some(self.path.clone());
        spec.model = Some("sonnet".into());
        for (name, value) in Self::variables(place, base_url) {
            spec.env.insert(name.into(), value.into());
        }
        spec
    }

    /// Returns whether Claude Code has a transcript of this conversation on disk.
    pub fn has_record(place: &IsolatedHome, conversation: &str) -> bool {
        contains_file_named(&place.home().join(".claude/projects"), conversation)
    }
}

/// The installed version of Codex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealCodex {
    pub version: &'static str,
    pub path: PathBuf,
}

impl RealCodex {
    pub const VERSION: &str = "0.166.0";

    pub fn find() -> Result<Self, ProgramNotInstalled> {
        let version = Self::VERSION;
        let package = format!("codex-{version}-{}", platform());
        let processor = std::env::consts::ARCH;
        let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
        let path = require_installed(&format!(
            "codex/node_modules/{package}/vendor/{processor}-{system}/bin/codex"
        ))?;
        Ok(Self { version, path })
    }
}

/// Returns the path of a file below `target/npm`, if it is installed.
pub(crate) fn require_installed(path: &str) -> Result<PathBuf, ProgramNotInstalled> {
    let path = programs::workspace_root().join("target/npm").join(path);
    if path.is_file() { Ok(path) } else { Err(ProgramNotInstalled(path)) }
}

/// Returns whether a file or folder anywhere below `folder` has `text` in its name.
pub(crate) fn contains_file_named(folder: &Path, text: &str) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        entry.file_name().to_string_lossy().contains(text)
            || contains_file_named(&entry.path(), text)
    })
}

/// Returns the suffix of the vendor's platform-specific npm packages.
pub(crate) fn platform() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{processor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_what_to_do() {
        let error = RealClaude::find("0.0.0").unwrap_err().to_string();
        assert!(error.contains("cargo xtask setup"), "{error}");
    }
}
