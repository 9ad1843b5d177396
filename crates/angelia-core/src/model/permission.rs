//! The permission settings of a profile: a level, and patterns that match tools. The `permission`
//! module applies them.

use std::{fmt, str::FromStr, sync::Arc};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    pub level: PermissionLevel,
    /// Allowed without asking.
    pub allowed: Vec<ToolPattern>,
    /// Denied. Overrides everything else.
    pub disallowed: Vec<ToolPattern>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermissionLevel {
    /// A person decides every request.
    Ask,
    /// Edits inside the working directory are allowed; a person decides everything else.
    Edit,
    /// Every request is allowed, unless a pattern denies it.
    Unattended,
}

impl PermissionLevel {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Edit => "edit",
            Self::Unattended => "unattended",
        }
    }
}

impl Permissions {
    /// Returns the reason if a pattern denies every call of the tool.
    pub fn denial_reason(&self, tool: &str) -> Option<String> {
        let mut rules = self.disallowed.iter();
        let rule = rules.find(|rule| rule.subject.is_none() && glob_matches(&rule.tool, tool))?;
        Some(format!("`{rule}` is in disallowed_tools of this profile"))
    }
}

/// `Tool` or `Tool(subject)`, each with `*` for anything: `Bash(git status*)`, `mcp__docs__*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolPattern {
    tool: Arc<str>,
    subject: Option<Arc<str>>,
}

impl ToolPattern {
    pub(crate) fn tool(&self) -> &str {
        &self.tool
    }

    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Returns whether this pattern obviously matches everything that `other` matches. May return
    /// `false` in less obvious cases.
    pub fn includes(&self, other: &Self) -> bool {
        // Match `other` as plain text, so that only a `*` in ours matches a `*` in it.
        let subject = match (&self.subject, &other.subject) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(other)) => glob_matches(ours, other),
        };
        subject && glob_matches(&self.tool, &other.tool)
    }
}

/// Matches a whole text against a pattern with `*`. Takes the first match of each part, without
/// backtracking.
pub(crate) fn glob_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(first) = parts.next() else {
        return text.is_empty();
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(mut last) = parts.next() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(last) else {
            return false;
        };
        rest = &rest[at + last.len()..];
        last = part;
    }
    rest.ends_with(last)
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            None => f.write_str(&self.tool),
            Some(subject) => write!(f, "{}({subject})", self.tool),
        }
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a tool pattern; write a tool's name, or `Tool(subject)` with `*` for anything"
)]
pub struct ToolPatternError(String);

impl FromStr for ToolPattern {
    type Err = ToolPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ToolPatternError(text.to_owned());
        let (tool, subject) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => {
                let subject = rest.strip_suffix(')').ok_or_else(bad)?;
                // Users of some agents write `git:*` for `git` followed by anything. Only one `:*`
                // is converted, because a printed pattern must parse to the same pattern and never
                // to a wider one.
                let subject = match subject.strip_suffix(":*") {
                    Some(prefix) if !prefix.ends_with(':') => format!("{prefix}*"),
                    _ => subject.to_owned(),
                };
                (tool, Some(Arc::from(subject)))
            }
        };
        let tool = tool.trim();
        if tool.is_empty() || tool.contains(char::is_whitespace) || subject.as_deref() == Some("") {
            return Err(bad());
        }
        Ok(Self { tool: tool.into(), subject })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_checked_when_they_are_read() {
        for bad in ["", " ", "Bash(", "Bash()", "(x)", "two words"] {
            assert!(bad.parse::<ToolPattern>().is_err(), "{bad:?}");
        }
        assert_eq!("mcp__docs__*".parse::<ToolPattern>().unwrap().to_string(), "mcp__docs__*");
    }

    #[test]
    fn a_pattern_includes_what_is_narrower() {
        let pattern = |text: &str| text.parse::<ToolPattern>().unwrap();
        let cases = [
            ("Bash", "Bash", true),
            ("Bash", "Bash(git *)", true),
            ("Bash(git *)", "Bash(git status*)", true),
            ("*", "mcp__docs__*", true),
            ("mcp__*", "mcp__docs__read", true),
            ("Bash(git *)", "Bash", false),
            ("Bash(git status)", "Bash(git *)", false),
            ("Bash(git *)", "Bash(*)", false),
            ("Read", "Bash", false),
        ];
        for (wide, narrow, expected) in cases {
            assert_eq!(pattern(wide).includes(&pattern(narrow)), expected, "{wide} and {narrow}");
        }
    }

    #[test]
    fn globs_match_whole_texts() {
        assert!(
            glob_matches("a*c", "abbc")
                && glob_matches("*", "")
                && glob_matches("a", "a")
                && glob_matches("*b*", "abc")
        );
        assert!(
            !glob_matches("a*c", "abcd")
                && !glob_matches("a", "ab")
                && !glob_matches("ab*ba", "aba")
        );
    }
}
