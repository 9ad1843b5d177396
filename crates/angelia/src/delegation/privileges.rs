//! Compares the rights of two profiles: work is never delegated to a profile that may do more than
//! the delegating one. If the comparison is unclear, the rights count as more.

use std::path::{Path, PathBuf};

use angelia_core::model::{Mode, PermissionLevel, Permissions, SessionSpec, ToolPattern, ToolSet};
use angelia_frontends::mcp::OWN_TOOLS_PATTERN;

/// The rights of a profile's agents, and the folders to which they apply.
#[derive(Clone, Debug)]
pub(crate) struct Privileges {
    pub(crate) mode: Mode,
    pub(crate) permissions: Permissions,
    pub(crate) tools: ToolSet,
    /// Whether the settings of the project in the folder are honoured.
    pub(crate) trust: bool,
    /// `None` for the folder from which the agent is called.
    pub(crate) cwd: Option<PathBuf>,
}

impl Privileges {
    pub(crate) fn of(spec: &SessionSpec) -> Self {
        Self {
            mode: spec.mode,
            permissions: spec.permissions.clone(),
            tools: spec.tools.clone(),
            trust: spec.trust,
            cwd: Some(spec.cwd.clone()),
        }
    }

    /// Describes for people how these rights exceed the others. Returns `None` if they do not.
    pub(crate) fn excess_over(&self, other: &Self) -> Option<String> {
        if self.mode == Mode::Model {
            // Model mode can neither read nor change anything on this machine.
            return None;
        }
        if other.mode == Mode::Model {
            return Some("it acts on this machine".to_owned());
        }
        let (ours, theirs) = (&self.permissions, &other.permissions);
        if rank(ours.level) > rank(theirs.level) {
            return Some(format!(
                "its permissions are `{}`, more than `{}`",
                ours.level.as_str(),
                theirs.level.as_str()
            ));
        }
        if let Some(pattern) = find_extra_allowed(ours, theirs) {
            return Some(format!("its allowed_tools have `{pattern}`"));
        }
        if let Some(pattern) = find_missing_disallowed(ours, theirs) {
            return Some(format!("its disallowed_tools lack `{pattern}`"));
        }
        if has_more_tools(&self.tools, &other.tools) {
            return Some("it has more tools (`tools`)".to_owned());
        }
        if self.trust && !other.trust {
            return Some("it trusts the project in its folder (`trust`)".to_owned());
        }
        match (&self.cwd, &other.cwd) {
            (Some(ours), Some(theirs)) if !ours.starts_with(theirs) => {
                Some(describe_other_cwd(ours))
            }
            _ => None,
        }
    }
}

const fn rank(level: PermissionLevel) -> u8 {
    match level {
        PermissionLevel::Ask => 0,
        PermissionLevel::Edit => 1,
        PermissionLevel::Unattended => 2,
    }
}

/// Returns a pattern that needs no approval under `ours` but does under `theirs`.
fn find_extra_allowed<'a>(ours: &'a Permissions, theirs: &Permissions) -> Option<&'a ToolPattern> {
    if theirs.level == PermissionLevel::Unattended {
        return None;
    }
    ours.allowed.iter().find(|pattern| {
        let covered = theirs.allowed.iter().any(|other| other.includes(pattern));
        !covered && pattern.to_string() != OWN_TOOLS_PATTERN
    })
}

/// Returns a pattern that `theirs` refuses but `ours` does not.
fn find_missing_disallowed<'a>(
    ours: &Permissions,
    theirs: &'a Permissions,
) -> Option<&'a ToolPattern> {
    theirs
        .disallowed
        .iter()
        .find(|pattern| !ours.disallowed.iter().any(|own| own.includes(pattern)))
}

fn has_more_tools(ours: &ToolSet, theirs: &ToolSet) -> bool {
    match (ours, theirs) {
        (ToolSet::None, _)
        | (_, ToolSet::All)
        | (ToolSet::Default | ToolSet::List(_), ToolSet::Default) => false,
        (ToolSet::List(ours), ToolSet::List(theirs)) => {
            ours.iter().any(|tool| !theirs.contains(tool))
        }
        _ => true,
    }
}

fn describe_other_cwd(path: &Path) -> String {
    format!("it works in {}, outside of your folder (`cwd`)", path.display())
}
