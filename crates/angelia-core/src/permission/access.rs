//! The paths that a request touches, resolved to real paths. The plan lists the paths to resolve,
//! the engine resolves them, and the rules are applied to the resolved request.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{command_paths::named_paths, protected::Touch};
use crate::{
    model::{
        ApprovalKind, ApprovalRequest, CommandAccess, CommandLine, GrantRule, ToolClass,
        ToolPattern,
    },
    ports::KnownPlaces,
};

/// A request whose paths are not resolved yet.
#[derive(Debug)]
pub struct AccessPlan<'a> {
    request: &'a ApprovalRequest,
    command: Option<CommandAccess>,
    stated_cwd: &'a Path,
    /// The session's directory, the call's directory, then the paths of `touches`, all absolute.
    paths: Vec<PathBuf>,
    touches: Vec<(Touch, PathOrigin)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathOrigin {
    /// The agent says that the call touches the path.
    Call,
    /// The call's command names the path.
    Command,
}

impl<'a> AccessPlan<'a> {
    /// `cwd`: the session's directory.
    pub fn new(request: &'a ApprovalRequest, cwd: &'a Path, places: &KnownPlaces) -> Self {
        let access = &request.access;
        let call_cwd = access.cwd.as_ref().map_or_else(|| cwd.to_owned(), |own| cwd.join(own));
        let stated = |path: &Path| match path.strip_prefix("~") {
            Ok(rest) => places.user_home.join(rest),
            Err(_) => call_cwd.join(path),
        };
        // An agent that gives neither paths nor a command has put them into the subject.
        let is_silent =
            access.reads.is_empty() && access.writes.is_empty() && access.command.is_none();
        let subject = request.subject.as_deref().filter(|_| is_silent);
        let command = match (&access.command, request.class, subject) {
            (None, ToolClass::Execute, Some(text)) => Some(CommandAccess::shell(text)),
            (command, ..) => command.clone(),
        };
        let mut paths = vec![cwd.to_owned(), call_cwd.clone()];
        let mut touches = Vec::new();
        let subject_path = |class| subject.filter(|_| request.class == class).map(Path::new);
        let reads = access.reads.iter().map(PathBuf::as_path).chain(subject_path(ToolClass::Read));
        let writes =
            access.writes.iter().map(PathBuf::as_path).chain(subject_path(ToolClass::Edit));
        for path in reads {
            paths.push(stated(path));
            touches.push((Touch::Read, PathOrigin::Call));
        }
        for path in writes {
            paths.push(stated(path));
            touches.push((Touch::Write, PathOrigin::Call));
        }
        if let Some(command) = &command {
            for (touch, path) in named_paths(command, &call_cwd, &places.user_home) {
                paths.push(path);
                touches.push((touch, PathOrigin::Command));
            }
        }
        Self { request, command, stated_cwd: cwd, paths, touches }
    }

    /// The paths to resolve.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// `real`: the real path of each of [`AccessPlan::paths`].
    pub fn resolved(self, mut real: Vec<PathBuf>) -> ResolvedRequest<'a> {
        // If the resolver returns too few paths, the unresolved ones must not be ignored.
        while real.len() < self.paths.len() {
            real.push(self.paths[real.len()].clone());
        }
        let mut real = real.into_iter();
        let cwd = real.next().unwrap_or_default();
        let call_cwd = real.next().unwrap_or_default();
        let mut resolved = ResolvedRequest {
            request: self.request,
            command: self.command,
            stated_cwd: self.stated_cwd,
            cwd,
            call_cwd,
            reads: Vec::new(),
            writes: Vec::new(),
            command_paths: Vec::new(),
        };
        for ((touch, origin), path) in self.touches.into_iter().zip(real) {
            match (origin, touch) {
                (PathOrigin::Command, touch) => resolved.command_paths.push((touch, path)),
                (PathOrigin::Call, Touch::Read) => resolved.reads.push(path),
                (PathOrigin::Call, Touch::Write) => resolved.writes.push(path),
            }
        }
        resolved
    }
}

/// A request with real paths.
#[derive(Debug)]
pub struct ResolvedRequest<'a> {
    pub(super) request: &'a ApprovalRequest,
    pub(super) command: Option<CommandAccess>,
    pub(super) stated_cwd: &'a Path,
    /// The session's directory.
    pub(super) cwd: PathBuf,
    /// The call's directory.
    pub(super) call_cwd: PathBuf,
    pub(super) reads: Vec<PathBuf>,
    pub(super) writes: Vec<PathBuf>,
    pub(super) command_paths: Vec<(Touch, PathBuf)>,
}

impl ResolvedRequest<'_> {
    /// The rules that a person can grant: first exactly this call, then the agent's suggestions.
    pub fn offered_rules(&self) -> Vec<GrantRule> {
        if let ApprovalKind::Question(_) = self.request.kind {
            return Vec::new();
        }
        let mut rules = vec![self.exact_rule()];
        let suggestions = self.request.suggestions.iter().cloned();
        // A call that is described only by its arguments is rarely repeated with the same ones, so
        // a rule for the whole tool is offered too.
        let tool = self.is_described_by_input().then(|| self.request.tool_name.parse().ok());
        let tool: Option<ToolPattern> = tool.flatten();
        for suggestion in suggestions.chain(tool) {
            let rule = GrantRule::Pattern(suggestion);
            let is_new = !rules.iter().any(|known| known.to_string() == rule.to_string());
            if is_new {
                rules.push(rule);
            }
        }
        rules
    }

    fn is_described_by_input(&self) -> bool {
        let has_paths = !(self.reads.is_empty() && self.writes.is_empty());
        !has_paths && self.command.is_none() && self.request.subject.is_none()
    }

    /// The rule for exactly this call.
    pub(super) fn exact_rule(&self) -> GrantRule {
        GrantRule::Exact {
            tool: Arc::clone(&self.request.tool_name),
            subject: self.exact_subject().into(),
        }
    }

    fn exact_subject(&self) -> String {
        if self.is_described_by_input() {
            return self.request.input.get().to_owned();
        }
        let mut text = String::new();
        let mut line = |label: &str, value: &str| {
            let separator = if text.is_empty() { "" } else { "\n" };
            let _infallible = write!(text, "{separator}{label}{value}");
        };
        match &self.command {
            Some(CommandAccess { line: CommandLine::Shell(script), .. }) => line("", script),
            Some(CommandAccess { line: CommandLine::Argv(argv), .. }) => {
                // Quoted, so that arguments with spaces differ from several arguments.
                let quoted: Vec<String> = argv.iter().map(|one| quote_argument(one)).collect();
                line("", &quoted.join(" "));
            }
            None => {}
        }
        for (name, value) in self.command.iter().flat_map(|command| &command.env) {
            line("with ", &format!("{name}={value}"));
        }
        for path in &self.writes {
            line("", &path.to_string_lossy());
        }
        for path in &self.reads {
            line(if self.writes.is_empty() { "" } else { "reads " }, &path.to_string_lossy());
        }
        if let Some(subject) = &self.request.subject
            && self.command.is_none()
            && self.reads.is_empty()
            && self.writes.is_empty()
        {
            line("", subject);
        }
        if self.command.is_some() && self.call_cwd != self.cwd {
            line("in ", &self.call_cwd.to_string_lossy());
        }
        text
    }
}

fn quote_argument(argument: &str) -> String {
    let is_plain = !argument.is_empty()
        && argument.chars().all(|c| c.is_alphanumeric() || "-_=+./:,@%".contains(c));
    if is_plain { argument.to_owned() } else { format!("'{}'", argument.replace('\'', "'\\''")) }
}
