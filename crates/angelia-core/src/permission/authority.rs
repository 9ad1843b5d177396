//! Decides about a request: deny rules first, then the grants of people, protected paths, allow
//! patterns, and the level.

use std::path::{Path, PathBuf};

use super::{
    access::ResolvedRequest,
    command_rules::{CommandDenial, covers_command, denial},
    pattern::{ANY_COMMAND, PatternBase, matches_path, matches_tool},
    protected::{Protection, Touch, Toucher, find_protection, is_for_chat, is_own_file},
};
use crate::{
    model::{
        ApprovalKind, ApprovalStage, GrantRule, PermissionLevel, Permissions, SessionId, ToolClass,
        ToolPattern, glob_matches,
    },
    ports::KnownPlaces,
};

/// The verdict of the rules on a request, before a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessCheck {
    Allow,
    Deny(String),
    /// A person must decide. Names the protected path that no level allows, if there is one.
    Ask {
        protected: Option<ProtectedTouch>,
    },
    /// The agent's own rules decide.
    Proceed,
}

/// A protected path that a call reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedTouch {
    pub path: PathBuf,
    pub is_read: bool,
}

/// Decides what one session may do.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a> {
    pub permissions: &'a Permissions,
    pub session: SessionId,
    pub profile: &'a str,
    pub places: &'a KnownPlaces,
}

impl Authority<'_> {
    /// Applies the rules. `grants`: the rules that people have granted so far.
    pub fn check(&self, request: &ResolvedRequest<'_>, grants: &[GrantRule]) -> AccessCheck {
        if let Some(why) = self.denial(request) {
            return AccessCheck::Deny(why);
        }
        // A question needs an answer, so no level and no pattern can allow it.
        if let ApprovalKind::Question(_) = request.request.kind {
            return match self.permissions.level {
                PermissionLevel::Unattended => {
                    AccessCheck::Deny("nobody is there to answer; decide yourself".to_owned())
                }
                PermissionLevel::Ask | PermissionLevel::Edit => {
                    AccessCheck::Ask { protected: None }
                }
            };
        }
        let is_report = request.request.stage == ApprovalStage::Report;
        let exact = request.exact_rule();
        if grants.contains(&exact) {
            return if is_report { AccessCheck::Proceed } else { AccessCheck::Allow };
        }
        let patterns: Vec<&ToolPattern> = self
            .permissions
            .allowed
            .iter()
            .chain(grants.iter().filter_map(|grant| match grant {
                GrantRule::Pattern(pattern) => Some(pattern),
                GrantRule::Exact { .. } => None,
            }))
            .collect();
        if let Some(touch) = self.protected_touch(request, &patterns) {
            return AccessCheck::Ask { protected: Some(touch) };
        }
        if request.request.access.must_ask.is_some() {
            return AccessCheck::Ask { protected: None };
        }
        if is_report {
            return AccessCheck::Proceed;
        }
        if self.is_covered(request, &patterns) || self.reads_own_files(request) {
            return AccessCheck::Allow;
        }
        match self.permissions.level {
            PermissionLevel::Unattended => AccessCheck::Allow,
            PermissionLevel::Edit if self.is_edit_inside(request) => AccessCheck::Allow,
            PermissionLevel::Edit | PermissionLevel::Ask => AccessCheck::Ask { protected: None },
        }
    }

    fn base<'r>(&'r self, request: &'r ResolvedRequest<'_>) -> PatternBase<'r> {
        PatternBase { stated_cwd: request.stated_cwd, cwd: &request.cwd, places: self.places }
    }

    fn toucher<'r>(&'r self, request: &'r ResolvedRequest<'_>) -> Toucher<'r> {
        Toucher {
            session: self.session,
            profile: self.profile,
            cwd: &request.cwd,
            places: self.places,
        }
    }

    /// Returns why a deny rule refuses the request.
    fn denial(&self, request: &ResolvedRequest<'_>) -> Option<String> {
        let call = request.request;
        let base = self.base(request);
        self.permissions.disallowed.iter().find_map(|rule| {
            // A profile can run on several agents, which have names of their own for a shell.
            let is_any_command = rule.tool() == ANY_COMMAND && request.command.is_some();
            if !matches_tool(rule, &call.tool_name, call.class) && !is_any_command {
                return None;
            }
            let matched = || format!("`{rule}` is in disallowed_tools of this profile");
            let Some(subject) = rule.subject() else {
                return Some(matched());
            };
            let mut paths = request.reads.iter().chain(&request.writes);
            let named = call.subject.as_deref().is_some_and(|text| glob_matches(subject, text));
            let stated = call.access.reads.iter().chain(&call.access.writes);
            let is_stated =
                stated.filter_map(|path| path.to_str()).any(|path| glob_matches(subject, path));
            if named || is_stated || paths.any(|path| matches_path(subject, path, &base)) {
                return Some(matched());
            }
            match denial(subject, request.command.as_ref()?)? {
                CommandDenial::Matches => Some(matched()),
                CommandDenial::Unknown(why) => Some(format!(
                    "the command cannot be checked against `{rule}` in disallowed_tools: {why}; \
                     write it as plain commands"
                )),
            }
        })
    }

    /// Returns a protected path that the request touches and that no pattern of the owner names.
    fn protected_touch(
        &self,
        request: &ResolvedRequest<'_>,
        patterns: &[&ToolPattern],
    ) -> Option<ProtectedTouch> {
        let by = self.toucher(request);
        let reads = request.reads.iter().map(|path| (Touch::Read, path));
        let writes = request.writes.iter().map(|path| (Touch::Write, path));
        let named = request.command_paths.iter().map(|(touch, path)| (*touch, path));
        let mut touches = reads.chain(writes).chain(named);
        touches
            .find(|(touch, path)| {
                find_protection(path, *touch, &by).is_some_and(|protection| {
                    !self.is_lifted(&protection, *touch, path, request, patterns)
                })
            })
            .map(|(touch, path)| ProtectedTouch {
                path: path.clone(),
                is_read: touch == Touch::Read,
            })
    }

    /// Whether a pattern that covers the path also names what protects it.
    fn is_lifted(
        &self,
        protection: &Protection,
        touch: Touch,
        path: &Path,
        request: &ResolvedRequest<'_>,
        patterns: &[&ToolPattern],
    ) -> bool {
        let call = request.request;
        let base = self.base(request);
        let class = match touch {
            Touch::Read => ToolClass::Read,
            Touch::Write => ToolClass::Edit,
        };
        patterns.iter().any(|pattern| {
            let Some(subject) = pattern.subject().filter(|text| protection.is_named_by(text))
            else {
                return false;
            };
            let is_path =
                matches_tool(pattern, &call.tool_name, class) && matches_path(subject, path, &base);
            let is_command = matches_tool(pattern, &call.tool_name, call.class)
                && request.command.as_ref().is_some_and(|one| covers_command(&[subject], one));
            is_path || is_command
        })
    }

    /// Whether the patterns together cover everything the request does.
    fn is_covered(&self, request: &ResolvedRequest<'_>, patterns: &[&ToolPattern]) -> bool {
        let call = request.request;
        let base = self.base(request);
        let about: Vec<_> = patterns
            .iter()
            .filter(|pattern| matches_tool(pattern, &call.tool_name, call.class))
            .collect();
        if about.iter().any(|pattern| pattern.subject().is_none()) {
            return true;
        }
        let subjects: Vec<&str> = about.iter().filter_map(|pattern| pattern.subject()).collect();
        if subjects.is_empty() {
            return false;
        }
        if let Some(command) = &request.command {
            return covers_command(&subjects, command);
        }
        let mut paths = request.reads.iter().chain(&request.writes).peekable();
        if paths.peek().is_some() {
            return paths.all(|path| subjects.iter().any(|text| matches_path(text, path, &base)));
        }
        let subject = call.subject.as_deref();
        subject.is_some_and(|text| subjects.iter().any(|pattern| glob_matches(pattern, text)))
    }

    fn reads_own_files(&self, request: &ResolvedRequest<'_>) -> bool {
        let by = self.toucher(request);
        request.command.is_none()
            && request.writes.is_empty()
            && !request.reads.is_empty()
            && request.reads.iter().all(|path| is_own_file(path, &by))
    }

    /// Whether the request only edits files in the session's directory, and the agent itself has no
    /// objection; or only files for its chat.
    fn is_edit_inside(&self, request: &ResolvedRequest<'_>) -> bool {
        let by = self.toucher(request);
        let writes = &request.writes;
        let is_inside = || writes.iter().all(|path| path.starts_with(&request.cwd));
        // Agents object to that folder because it is outside their directory.
        let is_for_chat = || writes.iter().all(|path| is_for_chat(path, &by));
        let has_objection = request.request.access.vendor_objection.is_some();
        request.request.class == ToolClass::Edit
            && request.command.is_none()
            && !writes.is_empty()
            && (!has_objection && is_inside() || is_for_chat())
    }
}
