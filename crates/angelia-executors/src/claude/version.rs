//! The version of the program, and the options it supports.

use std::{collections::BTreeSet, fmt};

/// The oldest supported version. Older programs speak another protocol.
const MIN_VERSION: ClaudeVersion = ClaudeVersion(2, 0, 0);

/// From this version on, every option that we use is known to exist, so `--help` is not read.
pub(crate) const ALL_OPTIONS_SINCE: ClaudeVersion = ClaudeVersion(2, 1, 197);

/// The newest version whose behaviour we have verified.
pub(crate) const NEWEST_VERIFIED: ClaudeVersion = ClaudeVersion(2, 1, 325);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaudeVersion(u32, u32, u32);

impl ClaudeVersion {
    /// Returns the first `1.2.3` in the text.
    pub(crate) fn find(text: &str) -> Option<Self> {
        text.split(|char: char| !(char.is_ascii_digit() || char == '.')).find_map(|word| {
            let mut parts = word.split('.').map(str::parse);
            match (parts.next(), parts.next(), parts.next(), parts.next()) {
                (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => {
                    Some(Self(major, minor, patch))
                }
                _ => None,
            }
        })
    }

    pub(crate) fn is_too_old(self) -> bool {
        self < MIN_VERSION
    }
}

impl fmt::Display for ClaudeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The features that a version of the program supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramFeatures {
    version: Option<ClaudeVersion>,
    options: SupportedOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SupportedOptions {
    All,
    /// The options that `--help` lists.
    Listed(BTreeSet<Box<str>>),
}

impl ProgramFeatures {
    /// Returns the features of a version, or `None` if `--help` must be read to determine them.
    pub(crate) fn of(version: Option<ClaudeVersion>) -> Option<Self> {
        let version = version?;
        (version >= ALL_OPTIONS_SINCE)
            .then_some(Self { version: Some(version), options: SupportedOptions::All })
    }

    pub(crate) fn from_help(version: Option<ClaudeVersion>, help: &str) -> Self {
        let listed = help
            .split(|char: char| !(char.is_ascii_alphanumeric() || char == '-'))
            .filter(|word| word.starts_with("--") && word.len() > 2)
            .map(Box::from)
            .collect();
        Self { version, options: SupportedOptions::Listed(listed) }
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        match &self.options {
            SupportedOptions::All => true,
            SupportedOptions::Listed(listed) => listed.contains(option),
        }
    }

    /// Reports whether we have verified how this version handles text.
    pub(crate) fn is_verified(&self) -> bool {
        self.version.is_some_and(|version| (ALL_OPTIONS_SINCE..=NEWEST_VERIFIED).contains(&version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let found = |text| ClaudeVersion::find(text).map(|version| version.to_string());
        assert_eq!(found("2.1.197 (Claude Code)\n").as_deref(), Some("2.1.197"));
        assert_eq!(found("claude v3.0.0-beta.1").as_deref(), Some("3.0.0"));
        assert_eq!(found("Node 20: 1.0.12").as_deref(), Some("1.0.12"));
        for text in ["", "no version", "2.1", "1.2.3.4", "99999999999.0.0"] {
            assert_eq!(found(text), None, "{text}");
        }
        assert!(ClaudeVersion(1, 9, 9).is_too_old() && !ClaudeVersion(2, 0, 0).is_too_old());
    }

    #[test]
    fn options_are_known_or_asked_for() {
        let newest = ProgramFeatures::of(Some(ClaudeVersion(2, 1, 325))).unwrap();
        assert!(newest.has("--anything") && newest.is_verified());
        let next = ProgramFeatures::of(Some(ClaudeVersion(2, 2, 0))).unwrap();
        assert!(next.has("--tools") && !next.is_verified());

        assert_eq!(ProgramFeatures::of(None), None);
        let old = Some(ClaudeVersion(2, 0, 5));
        assert_eq!(ProgramFeatures::of(old), None);
        let listed =
            ProgramFeatures::from_help(old, "  --tools <tools...>  one of --a, [--b=x]\n -p");
        for (option, has) in [("--tools", true), ("--a", true), ("--b", true), ("--c", false)] {
            assert_eq!(listed.has(option), has, "{option}");
        }
        assert!(!listed.is_verified());
    }
}
