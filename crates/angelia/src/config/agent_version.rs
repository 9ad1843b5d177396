//! A version of an agent in a separate folder, named as in `binary: claude@2.1.197` and `angelia
//! agents install`.

use std::{fmt, fs, path::PathBuf};

use angelia_executors::{EXECUTORS, Registration, npm::NpmProgram};

use super::home::Home;

#[derive(Clone, Debug)]
pub(crate) struct AgentVersion {
    pub(crate) registration: &'static Registration,
    pub(crate) program: &'static NpmProgram,
    pub(crate) version: String,
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.registration.name, self.version)
    }
}

impl AgentVersion {
    pub(crate) fn new(name: &str, version: &str) -> Option<Self> {
        let (registration, program) = installable().find(|(kind, _)| kind.name == name)?;
        is_version(version).then(|| Self { registration, program, version: version.to_owned() })
    }

    /// Parses `NAME@VERSION`. Returns `None` if the text is something else, such as the name of a
    /// program.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, version) = text.split_once('@')?;
        Self::new(name, version)
    }

    pub(crate) fn folder(&self, home: &Home) -> PathBuf {
        home.installed_agents_dir().join(self.to_string())
    }

    /// Returns the path of the program, whether or not it is installed.
    pub(crate) fn launcher(&self, home: &Home) -> PathBuf {
        self.program.launcher_in(&self.folder(home))
    }

    /// Returns the installed versions, ordered by name.
    pub(crate) fn installed(home: &Home) -> Vec<Self> {
        let entries = fs::read_dir(home.installed_agents_dir()).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.iter().filter_map(|name| Self::parse(name)).collect()
    }
}

/// Returns the agents that npm can install.
pub(crate) fn installable() -> impl Iterator<Item = (&'static Registration, &'static NpmProgram)> {
    EXECUTORS.iter().filter_map(|kind| Some((kind, kind.npm?)))
}

/// Returns whether the text is an exact version, such as `2.1.197` or `0.166.0-alpha.1`. A tag or a
/// range would not pin anything, and a path must not get into the folder's name.
fn is_version(text: &str) -> bool {
    let allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '+');
    text.starts_with(|char: char| char.is_ascii_digit())
        && text.matches('.').count() >= 2
        && !text.contains("..")
        && text.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exact_version_of_a_known_agent_is_one() {
        let shown = |text| AgentVersion::parse(text).map(|agent| agent.to_string());
        for text in ["claude@2.1.197", "codex@0.166.0-alpha.1"] {
            assert_eq!(shown(text).as_deref(), Some(text));
        }
        for text in [
            "claude",
            "claude@",
            "claude@latest",
            "claude@2",
            "claude@^2.1.0",
            "claude@2.1.0/..",
            "claude@2..1.0",
            "parrot@1.2.3",
            "gemini@1.2.3",
            "@2.1.0",
            "/opt/claude@2.1.0",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
