//! Permissions: what an agent may do without asking. Three levels, and patterns that name tools.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use super::{ApprovalKind, ApprovalRequest, ToolClass};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    pub level: PermissionLevel,
    /// Allowed without asking.
    pub allowed: Vec<ToolPattern>,
    /// Denied; wins over everything else.
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

/// What the rules say about a request, before a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionCheck {
    Allow,
    Deny(String),
    Ask,
}

impl Permissions {
    /// Returns the reason if a pattern denies the tool, whatever the level.
    pub fn denial_reason(&self, tool: &str, subject: Option<&str>) -> Option<String> {
        let mut rules = self.disallowed.iter();
        let rule = rules.find(|rule| rule.matches_any_part(tool, subject))?;
        Some(format!("`{rule}` is in disallowed_tools of this profile"))
    }

    /// Applies the rules to a request of an agent that works in `cwd`.
    pub fn check(&self, request: &ApprovalRequest, cwd: &Path) -> PermissionCheck {
        let name = &request.tool_name;
        let subject = request.subject.as_deref();
        if let Some(why) = self.denial_reason(name, subject) {
            return PermissionCheck::Deny(why);
        }
        // A question needs an answer, so no level and no pattern can allow it.
        if let ApprovalKind::Question(_) = request.kind {
            return match self.level {
                PermissionLevel::Unattended => {
                    PermissionCheck::Deny("nobody is there to answer; decide yourself".to_owned())
                }
                PermissionLevel::Ask | PermissionLevel::Edit => PermissionCheck::Ask,
            };
        }
        if self.allowed.iter().any(|rule| rule.covers(name, request.class, subject)) {
            return PermissionCheck::Allow;
        }
        match (self.level, request.class) {
            (PermissionLevel::Unattended, _) => PermissionCheck::Allow,
            (PermissionLevel::Edit, ToolClass::Edit)
                if subject.is_some_and(|path| is_inside(Path::new(path), cwd)) =>
            {
                PermissionCheck::Allow
            }
            _ => PermissionCheck::Ask,
        }
    }
}

/// Whether `path` is inside `cwd`, lexically: `..` is resolved, symbolic links are not followed.
fn is_inside(path: &Path, cwd: &Path) -> bool {
    let mut resolved = PathBuf::from(cwd);
    for component in path.components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved.starts_with(cwd)
}

/// `Tool` or `Tool(subject)`, each with `*` for anything: `Bash(git status*)`, `mcp__docs__*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolPattern {
    tool: Arc<str>,
    subject: Option<Arc<str>>,
}

impl ToolPattern {
    /// Whether the pattern allows everything the request does. A command that chains, substitutes
    /// or redirects does more than its first words say, so only a pattern without a subject, or
    /// with the identical text, covers it.
    fn covers(&self, tool: &str, class: ToolClass, subject: Option<&str>) -> bool {
        if !glob_matches(&self.tool, tool) {
            return false;
        }
        let Some(pattern) = &self.subject else {
            return true;
        };
        let Some(subject) = subject else { return false };
        if class == ToolClass::Execute && is_compound(subject) {
            return **pattern == *subject;
        }
        glob_matches(pattern, subject)
    }

    /// Whether this pattern matches everything that `other` matches. `false` if that is not
    /// obvious.
    pub fn includes(&self, other: &Self) -> bool {
        // `other` is matched as plain text: a `*` in it is matched only by a `*` in ours.
        let subject = match (&self.subject, &other.subject) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(other)) => glob_matches(ours, other),
        };
        subject && glob_matches(&self.tool, &other.tool)
    }

    /// Whether the pattern matches any part of the request: enough to deny it.
    fn matches_any_part(&self, tool: &str, subject: Option<&str>) -> bool {
        if !glob_matches(&self.tool, tool) {
            return false;
        }
        let Some(pattern) = &self.subject else {
            return true;
        };
        let Some(subject) = subject else { return false };
        glob_matches(pattern, subject)
            || subject.split(SHELL_OPERATORS).any(|part| glob_matches(pattern, part.trim()))
    }
}

const SHELL_OPERATORS: &[char] = &[';', '&', '|', '\n', '`', '(', ')', '<', '>', '{', '}'];

fn is_compound(command: &str) -> bool {
    command.contains(SHELL_OPERATORS)
}

/// Matches a whole text against a pattern with `*`. Greedy, without backtracking over more than one
/// star.
fn glob_matches(pattern: &str, text: &str) -> bool {
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
                // `git:*`, as users of some agents write it, means `git` followed by anything. Only
                // one `:*` is converted: a pattern that is printed must parse to the same pattern,
                // never a wider one.
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

    fn request(tool: &str, class: ToolClass, subject: &str) -> ApprovalRequest {
        ApprovalRequest {
            key: "k".into(),
            kind: ApprovalKind::Tool,
            tool_id: None,
            tool_name: tool.into(),
            class,
            subject: Some(subject.into()),
            title: "t".into(),
            detail: "d".into(),
            input: serde_json::value::to_raw_value(&()).unwrap().into(),
        }
    }

    fn rules(level: PermissionLevel, allowed: &[&str], disallowed: &[&str]) -> Permissions {
        let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        Permissions { level, allowed: parse(allowed), disallowed: parse(disallowed) }
    }

    fn answer(rules: &Permissions, tool: &str, class: ToolClass, subject: &str) -> PermissionCheck {
        rules.check(&request(tool, class, subject), Path::new("/project"))
    }

    #[test]
    fn levels_decide_by_class() {
        use PermissionLevel::{Ask, Edit, Unattended};
        let cases = [
            (Ask, ToolClass::Edit, "/project/a.txt", PermissionCheck::Ask),
            (Ask, ToolClass::Execute, "ls", PermissionCheck::Ask),
            (Edit, ToolClass::Edit, "/project/a.txt", PermissionCheck::Allow),
            (Edit, ToolClass::Edit, "src/a.txt", PermissionCheck::Allow),
            (Edit, ToolClass::Edit, "/project/../etc/passwd", PermissionCheck::Ask),
            (Edit, ToolClass::Edit, "/project-other/a.txt", PermissionCheck::Ask),
            (Edit, ToolClass::Execute, "ls", PermissionCheck::Ask),
            (Unattended, ToolClass::Execute, "rm -r x", PermissionCheck::Allow),
        ];
        for (level, class, subject, expected) in cases {
            let got = answer(&rules(level, &[], &[]), "T", class, subject);
            assert_eq!(got, expected, "{level:?} {class:?} {subject}");
        }
    }

    #[test]
    fn an_allowed_prefix_does_not_cover_what_is_chained_behind_it() {
        let rules = rules(PermissionLevel::Ask, &["Bash(git *)", "Bash(make:*)"], &[]);
        let bash = |command| answer(&rules, "Bash", ToolClass::Execute, command);
        assert_eq!(bash("git status"), PermissionCheck::Allow);
        assert_eq!(bash("make test"), PermissionCheck::Allow);
        for command in [
            "git status; rm -r .",
            "git status && rm x",
            "git log | sh",
            "git log > ~/.bashrc",
            "git $(rm x)",
            "git `rm x`",
            "git status\nrm x",
        ] {
            assert_eq!(bash(command), PermissionCheck::Ask, "{command}");
        }
    }

    #[test]
    fn disallowed_wins_and_sees_every_part_of_a_command() {
        let rules = rules(PermissionLevel::Unattended, &["Bash"], &["Bash(rm *)", "WebFetch"]);
        for command in ["rm -r x", "cd / && rm -r x", "echo $(rm x)"] {
            let got = answer(&rules, "Bash", ToolClass::Execute, command);
            assert!(matches!(got, PermissionCheck::Deny(_)), "{command}");
        }
        assert_eq!(answer(&rules, "Bash", ToolClass::Execute, "ls"), PermissionCheck::Allow);
        let web = answer(&rules, "WebFetch", ToolClass::Other, "http://x");
        assert!(matches!(web, PermissionCheck::Deny(_)));
    }

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
