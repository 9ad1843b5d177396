//! The interface through which the checks drive an agent.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::{model::SessionSpec, ports::Executor};
use serde_json::Value;

use super::private_home::PrivateFolders;
use crate::claude::version::ClaudeVersion;

/// An agent in a private home, with the prompts that make it do what a check needs.
///
/// A prompt is `None` if the agent cannot be made to do that.
pub trait CheckedAgent: Sync {
    fn executor(&self) -> &Arc<dyn Executor>;

    /// Returns a plain specification: agent mode, logged in, every tool call needs approval.
    fn spec(&self) -> SessionSpec;

    /// Returns a prompt that makes the agent include `text` in its answer.
    fn say_prompt(&self, text: &str) -> String;

    /// Returns a prompt that makes the agent answer with `count` words one by one, `pause` apart.
    fn words_prompt(&self, count: usize, pause: Duration) -> String;

    /// Returns a prompt that makes the agent run this shell command after asking for approval, and
    /// then answer.
    fn approval_prompt(&self, command: &str) -> String;

    /// Returns a prompt that makes the agent write a new file with this one line, and then answer.
    fn write_prompt(&self, path: &Path, line: &str) -> Option<String>;

    /// Returns a prompt to which the model responds with an error that says `message`.
    fn model_error_prompt(&self, message: &str) -> Option<String>;

    /// Returns a prompt that makes the agent call one of the caller's tools without arguments, and
    /// then answer.
    fn tool_call_prompt(&self, tool: &str) -> Option<String>;

    /// Writes a text to the file from which the agent reads its owner's instructions.
    fn plant_instructions(&self, text: &str) -> Option<io::Result<()>>;

    /// Reports whether the agent must be able to continue its conversations in a new process.
    fn must_resume(&self) -> bool {
        true
    }

    /// Returns the whole last request that the model received, if it is visible.
    fn last_model_request(&self) -> Option<Value>;

    /// Reports whether allowed commands are really executed.
    fn executes_commands(&self) -> bool;
}

/// The versions of an agent's program that our own tests run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestedVersions {
    pub oldest: String,
    pub newest: String,
}

impl TestedVersions {
    pub fn only(version: &str) -> Self {
        Self { oldest: version.to_owned(), newest: version.to_owned() }
    }

    /// Compares a version with the tested ones. A version without a number counts as newer, because
    /// nothing is known about it.
    pub fn place(&self, version: &str) -> VersionPlace {
        let number = ClaudeVersion::find;
        match number(version) {
            Some(found) if Some(found) < number(&self.oldest) => VersionPlace::Older,
            Some(found) if Some(found) <= number(&self.newest) => VersionPlace::Within,
            _ => VersionPlace::Newer,
        }
    }
}

/// How a version relates to those that our tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionPlace {
    Older,
    Within,
    Newer,
}

/// How a scripted model drives the agent of an executor. A call is a directive for the scripted
/// model ([`crate::scripted_model::directive`]).
pub trait ScriptedAgent: fmt::Debug + Send + Sync {
    /// Returns the versions that our tests run. `version` is how the installed program describes
    /// itself.
    fn tested_versions(&self, version: &str) -> Option<TestedVersions>;

    /// Writes the files and sets the variables that make the program use the model at `base_url`
    /// with a dummy key, and touch nothing outside the folders.
    fn connect(
        &self,
        spec: &mut SessionSpec,
        folders: &PrivateFolders,
        base_url: &str,
    ) -> io::Result<()>;

    /// Returns a call that runs a shell command.
    fn command_call(&self, command: &str) -> String;

    /// Returns a call that writes a new file with one line.
    fn write_call(&self, path: &Path, line: &str) -> String;

    /// Returns a call to one of the caller's tools, without arguments.
    fn caller_tool_call(&self, tool: &str) -> Option<String>;

    /// Reports whether the agent must be able to continue its conversations in a new process.
    fn must_resume(&self) -> bool {
        true
    }

    /// Returns the file from which the program reads its owner's instructions.
    fn instructions_file(&self, folders: &PrivateFolders) -> Option<PathBuf>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_older_within_or_newer() {
        let tested = TestedVersions { oldest: "2.1.197".into(), newest: "2.1.325".into() };
        assert_eq!(tested.place("2.1.9"), VersionPlace::Older);
        assert_eq!(tested.place("2.1.197"), VersionPlace::Within);
        assert_eq!(tested.place("Claude Code 2.1.325"), VersionPlace::Within);
        assert_eq!(tested.place("2.10.0"), VersionPlace::Newer);
        assert_eq!(tested.place("unknown"), VersionPlace::Newer);
    }
}
