//! Matches patterns against tools, paths and texts. `*` stands for anything, also for `/`.

use std::path::Path;

use crate::{
    model::{ToolClass, ToolPattern, glob_matches},
    ports::KnownPlaces,
};

/// The directories that relative paths and `~` in a pattern stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatternBase<'a> {
    /// The session's directory as it was given.
    pub(super) stated_cwd: &'a Path,
    /// The same as a real path.
    pub(super) cwd: &'a Path,
    pub(super) places: &'a KnownPlaces,
}

/// The tool that stands for every tool that runs commands.
pub(super) const ANY_COMMAND: &str = "Bash";

/// Whether the pattern is about this tool. `Bash(…)`, `Edit(…)` and `Read(…)` are about every tool
/// that runs commands, edits or reads files, whatever the agent calls it.
pub(super) fn matches_tool(pattern: &ToolPattern, tool: &str, class: ToolClass) -> bool {
    let is_class = matches!(
        (pattern.tool(), class),
        (ANY_COMMAND, ToolClass::Execute) | ("Edit", ToolClass::Edit) | ("Read", ToolClass::Read)
    );
    matches_name(pattern.tool(), tool) || is_class && pattern.subject().is_some()
}

/// Compares names without regard to case: agents write the same tool as `Write` and as `write`. The
/// names of MCP servers are their owners' own.
fn matches_name(pattern: &str, tool: &str) -> bool {
    glob_matches(pattern, tool)
        || !tool.starts_with("mcp__")
            && glob_matches(&pattern.to_ascii_lowercase(), &tool.to_ascii_lowercase())
}

/// Whether the subject of a pattern matches a real path.
pub(super) fn matches_path(subject: &str, real: &Path, base: &PatternBase<'_>) -> bool {
    let absolute = real.to_string_lossy();
    // Users of some agents write the root as `//`.
    let subject = if subject.starts_with("//") { &subject[1..] } else { subject };
    if let Some(rest) = subject.strip_prefix("~/") {
        let pattern = format!("{}/{rest}", base.places.user_home.display());
        return glob_matches(&pattern, &absolute);
    }
    if subject.starts_with('/') {
        let inside = base.stated_cwd.to_str().and_then(|cwd| subject.strip_prefix(cwd));
        let moved = inside.filter(|rest| rest.starts_with('/') || rest.is_empty());
        let moved = moved.map(|rest| format!("{}{rest}", base.cwd.display()));
        return glob_matches(subject, &absolute)
            || moved.is_some_and(|pattern| glob_matches(&pattern, &absolute));
    }
    let relative = real.strip_prefix(base.cwd).ok().map(|path| path.to_string_lossy());
    let pattern = subject.strip_prefix("./").unwrap_or(subject);
    relative.is_some_and(|relative| glob_matches(pattern, &relative))
        || pattern.starts_with('*') && glob_matches(pattern, &absolute)
}

/// A text of which some parts are not known.
pub(super) type PartlyKnown = Vec<Option<char>>;

/// Whether the pattern matches the text for some content of its unknown parts.
pub(super) fn may_match(pattern: &str, text: &[Option<char>]) -> bool {
    let pattern: Vec<Option<char>> = pattern.chars().map(|c| (c != '*').then_some(c)).collect();
    // `reached[j]`: the pattern so far can match the first `j` parts of the text.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    spread(&mut reached, text);
    for part in &pattern {
        let mut next = vec![false; text.len() + 1];
        match part {
            None => {
                let first = reached.iter().position(|is_reached| *is_reached);
                if let Some(first) = first {
                    next[first..].fill(true);
                }
            }
            Some(c) => {
                for (j, part) in text.iter().enumerate() {
                    if let Some(known) = part {
                        next[j + 1] |= reached[j] && known == c;
                    } else {
                        // The unknown part can contain the character and go on.
                        next[j] |= reached[j];
                        next[j + 1] |= reached[j];
                    }
                }
            }
        }
        spread(&mut next, text);
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

/// An unknown part can be empty.
fn spread(reached: &mut [bool], text: &[Option<char>]) {
    for (j, part) in text.iter().enumerate() {
        if part.is_none() && reached[j] {
            reached[j + 1] = true;
        }
    }
}
