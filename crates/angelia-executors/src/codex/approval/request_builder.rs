//! Builds the approval requests that people read. Their texts are never empty and never understate
//! the effect of a call.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{
    ApprovalKind, ApprovalRequest, ApprovalStage, CommandAccess, Question, QuestionOption, RawJson,
    ToolAccess, ToolClass, ToolId,
};
use serde_json::{json, value::RawValue};

use super::QuestionWithId;
use crate::{
    codex::{
        patch::PatchSummary,
        protocol::server_request::{
            ElicitationParams, ItemRequestParams, RequestedPermissions as Wanted, UserInputParams,
        },
        shell,
        tool::{self, to_raw_json, wrap_in_object},
    },
    lenient::{BorrowedStr, Lenient},
    truncation::{first_line, truncate_chars},
};

/// How many characters of an unknown input are shown.
const MAX_INPUT_CHARS: usize = 2000;

/// Builds approval requests, given what is known about the call and the agent that asks.
#[derive(Debug)]
pub(crate) struct ApprovalRequestBuilder<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) by_sub_agent: bool,
    pub(crate) tool_id: Option<ToolId>,
}

/// The detail text of an approval, line by line.
struct DetailText(String);

impl DetailText {
    fn add_line(&mut self, label: &str, value: &str) {
        if !value.trim().is_empty() {
            let _infallible = writeln!(self.0, "{label}{value}");
        }
    }

    fn finish(mut self) -> Arc<str> {
        self.0.truncate(self.0.trim_end().len());
        self.0.into()
    }
}

impl ApprovalRequestBuilder<'_> {
    fn build(
        &self,
        name: &str,
        class: ToolClass,
        title: &str,
        lines: DetailText,
        input: RawJson,
    ) -> ApprovalRequest {
        let title = first_line(title).map_or_else(|| name.into(), Into::into);
        ApprovalRequest {
            key: "".into(),
            stage: ApprovalStage::Request,
            access: ToolAccess::default(),
            suggestions: Vec::new(),
            edits: Vec::new(),
            kind: ApprovalKind::Tool,
            tool_id: self.tool_id.clone(),
            tool_name: name.into(),
            class,
            subject: None,
            title,
            detail: lines.finish(),
            input,
        }
    }

    /// Appends the last lines of every detail: always the directory, and the reason if it is known.
    fn add_tail(&self, lines: &mut DetailText, cwd: Option<&str>, reason: Option<&str>) {
        let cwd = cwd.filter(|cwd| !cwd.trim().is_empty());
        match cwd {
            Some(cwd) => lines.add_line("in ", cwd),
            None => lines.add_line("in ", &self.cwd.to_string_lossy()),
        }
        lines.add_line("asked because: ", reason.unwrap_or_default());
        if self.by_sub_agent {
            lines.add_line("", "by a sub-agent");
        }
    }

    /// Builds the approval of a command, of input to a running command, or of network access.
    /// Returns `None` if the request does not say which. `known` holds the item's command and
    /// directory.
    pub(crate) fn command(
        &self,
        params: &ItemRequestParams<'_>,
        raw: &RawValue,
        known: (Option<&str>, Option<&str>),
    ) -> Option<ApprovalRequest> {
        let command = params.command.as_str().or(known.0);
        let command = command.map(shell::unwrap_script).filter(|text| !text.trim().is_empty());
        let cwd = params.cwd.as_str().or(known.1);
        let reason = params.reason.as_str();
        let mut lines = DetailText(String::new());
        lines.add_line("", command.as_deref().unwrap_or_default());
        let mut access = ToolAccess::default();
        if let Some(more) = params.additional_permissions.filter(|raw| raw.get() != "null") {
            lines.add_line("also gets: ", &truncate_chars(more.get(), MAX_INPUT_CHARS));
            access = requested_access(&parse_permissions(more));
        }
        access.cwd = cwd.filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
        if let Some(network) = &params.network_approval_context.0 {
            let host = network.host.as_str().unwrap_or("an unknown host");
            let protocol = network.protocol.as_str().unwrap_or("network");
            lines.add_line("reaches: ", &format!("{host} ({protocol})"));
            self.add_tail(&mut lines, cwd, reason);
            let title = format!("network access to {host}");
            let input = raw.to_owned().into();
            let mut request = self.build("network", ToolClass::Other, &title, lines, input);
            request.subject = Some(host.into());
            request.access = access;
            return Some(request);
        }
        if params.kind.as_str().is_some_and(|kind| kind != "command") {
            lines.add_line("asked for: ", &truncate_chars(raw.get(), MAX_INPUT_CHARS));
            self.add_tail(&mut lines, cwd, reason);
            let title = "type into a running command";
            let input = raw.to_owned().into();
            let class = ToolClass::Execute;
            let mut request = self.build("write_stdin", class, title, lines, input);
            // An approval for the session covers exactly this request.
            request.subject = Some(raw.get().into());
            request.access = access;
            return Some(request);
        }
        let command = command?;
        access.command = Some(CommandAccess::shell(&*command));
        self.add_tail(&mut lines, cwd, reason);
        let input = to_raw_json(&json!({"command": command, "cwd": cwd}));
        let mut request = self.build(tool::SHELL_TOOL, ToolClass::Execute, &command, lines, input);
        request.subject = Some((*command).into());
        request.access = access;
        Some(request)
    }

    pub(crate) fn patch(
        &self,
        params: &ItemRequestParams<'_>,
        changes: &PatchSummary,
        input: RawJson,
    ) -> ApprovalRequest {
        let mut lines = DetailText(String::new());
        lines.add_line("", &changes.totals());
        lines.add_line("", &changes.file_list());
        let root = params.grant_root.as_str();
        if let Some(root) = root {
            lines.add_line("also wants to write in: ", root);
        }
        self.add_tail(&mut lines, None, params.reason.as_str());
        let title = changes.title();
        let mut request = self.build(tool::PATCH_TOOL, ToolClass::Edit, &title, lines, input);
        request.edits = changes.edits();
        let paths = changes.paths().chain(root);
        request.access.writes = paths.map(PathBuf::from).collect();
        if let [path] = &*request.access.writes {
            request.subject = Some(path.to_string_lossy().into());
        }
        request
    }

    pub(crate) fn permissions(
        &self,
        params: &ItemRequestParams<'_>,
        wanted: &RawValue,
    ) -> ApprovalRequest {
        let parsed = parse_permissions(wanted);
        let mut all = Vec::new();
        let network = parsed.network.0.as_ref().and_then(|network| network.enabled.get());
        if network == Some(true) {
            all.push("network".to_owned());
        }
        if let Some(files) = &parsed.file_system.0 {
            let mut told = |access: &str, paths: &[BorrowedStr<'_>]| {
                all.extend(paths.iter().map(|path| format!("{access} {}", &**path)));
            };
            told("read", files.read.0.as_deref().unwrap_or_default());
            told("write", files.write.0.as_deref().unwrap_or_default());
            for entry in files.entries.0.iter().flatten() {
                let path = entry.path.map_or("anything", RawValue::get);
                all.push(format!("{} {path}", entry.access.as_str().unwrap_or("access")));
            }
        }
        let mut lines = DetailText(String::new());
        for one in &all {
            lines.add_line("", one);
        }
        lines.add_line("asked for: ", &truncate_chars(wanted.get(), MAX_INPUT_CHARS));
        self.add_tail(&mut lines, params.cwd.as_str(), params.reason.as_str());
        let title = match &*all {
            [] => "wider permissions".to_owned(),
            [first, ..] => {
                format!("wider permissions: {first}{}", if all.len() > 1 { " …" } else { "" })
            }
        };
        let input = wrap_in_object("permissions", wanted);
        let mut request = self.build("request_permissions", ToolClass::Other, &title, lines, input);
        request.subject = Some(wanted.get().into());
        request.access = requested_access(&parsed);
        request.access.cwd = params.cwd.as_str().map(PathBuf::from);
        request
    }

    /// Builds a request with questions for a person, together with the questions' ids. Returns
    /// `None` if there are no questions.
    pub(crate) fn user_input(
        &self,
        raw: &RawValue,
    ) -> Option<(ApprovalRequest, Vec<QuestionWithId>)> {
        let parsed: UserInputParams<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let asked = parsed.questions.0.unwrap_or_default();
        let mut questions = Vec::new();
        let mut ids = Vec::new();
        for one in &asked {
            let text = one.question.as_str().filter(|text| !text.trim().is_empty());
            let (Some(text), Some(id)) = (text, one.id.as_str()) else {
                continue;
            };
            let text: Arc<str> = text.into();
            let options = one.options.0.iter().flatten().filter_map(|option| {
                Some(QuestionOption {
                    label: option.label.as_str()?.into(),
                    description: option.description.as_str().unwrap_or_default().into(),
                })
            });
            questions.push(Question {
                text: Arc::clone(&text),
                header: one.header.as_str().unwrap_or_default().into(),
                options: options.collect(),
                multiple: false,
            });
            ids.push((Box::from(id), text));
        }
        let input = raw.to_owned().into();
        let request = self.questions("request_user_input", questions, input)?;
        Some((request, ids))
    }

    pub(crate) fn questions(
        &self,
        name: &str,
        questions: Vec<Question>,
        input: RawJson,
    ) -> Option<ApprovalRequest> {
        let title = Arc::clone(&questions.first()?.text);
        let mut lines = DetailText(format_questions(&questions));
        if self.by_sub_agent {
            lines.add_line("", "by a sub-agent");
        }
        let mut request = self.build(name, ToolClass::Other, &title, lines, input);
        request.kind = ApprovalKind::Question(questions.into());
        Some(request)
    }

    /// Builds the approval of an MCP server's tool call, or of a URL that the server wants opened.
    pub(crate) fn consent(
        &self,
        params: &ElicitationParams<'_>,
        raw: &RawValue,
        tool: Option<&str>,
    ) -> ApprovalRequest {
        let server = params.server_name.as_str().unwrap_or("unknown");
        let message = params.message.as_str().unwrap_or_default();
        let meta = params.meta.0.as_ref();
        let arguments = meta.and_then(|meta| meta.tool_params);
        let mut lines = DetailText(String::new());
        lines.add_line("", message);
        lines.add_line("opens: ", params.url.as_str().unwrap_or_default());
        let about = meta.and_then(|meta| meta.tool_description.as_str());
        lines.add_line("for: ", about.unwrap_or_default());
        if let Some(arguments) = arguments {
            lines.add_line("with: ", &truncate_chars(arguments.get(), MAX_INPUT_CHARS));
        }
        lines.add_line("of the MCP server: ", server);
        self.add_tail(&mut lines, None, None);
        let (name, title) = match tool {
            Some(tool) => (tool::mcp_name(server, tool), format!("{server}: {tool}")),
            // No tool has this name, so no rule about a single tool covers an unknown one.
            None => (tool::mcp_name(server, "?"), format!("{server}: {message}")),
        };
        let input = arguments.unwrap_or(raw).to_owned().into();
        let mut request = self.build(&name, ToolClass::Other, &title, lines, input);
        if tool.is_none() {
            // An approval for the session covers exactly this request.
            request.subject = Some(raw.get().into());
        }
        request
    }
}

fn parse_permissions(raw: &RawValue) -> Wanted<'_> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// Returns the files that the requested permissions open up. An entry that cannot be read as a path
/// stands for the whole disk.
fn requested_access(wanted: &Wanted<'_>) -> ToolAccess {
    let Some(files) = &wanted.file_system.0 else {
        return ToolAccess::default();
    };
    let paths = |list: &Lenient<Vec<BorrowedStr<'_>>>| -> Vec<PathBuf> {
        list.0.iter().flatten().map(|path| PathBuf::from(&**path)).collect()
    };
    let (mut reads, mut writes) = (paths(&files.read), paths(&files.write));
    for entry in files.entries.0.iter().flatten() {
        let path = entry.path.and_then(entry_path).unwrap_or_else(|| "/".into());
        match entry.access.as_str() {
            Some("read") => reads.push(path),
            Some("none" | "deny") => {}
            _ => writes.push(path),
        }
    }
    ToolAccess { reads, writes, ..ToolAccess::default() }
}

/// Returns the path of an entry: a string, or an object with a `path`.
fn entry_path(raw: &RawValue) -> Option<PathBuf> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum EntryPath {
        Plain(PathBuf),
        Tagged { path: PathBuf },
    }
    match serde_json::from_str(raw.get()).ok()? {
        EntryPath::Plain(path) | EntryPath::Tagged { path } => Some(path),
    }
}

/// Formats the questions with their options, for clients that only show text.
fn format_questions(questions: &[Question]) -> String {
    let mut text = String::new();
    for question in questions {
        let _infallible = writeln!(text, "{}", question.text);
        for option in &question.options {
            let colon = if option.description.is_empty() { "" } else { ": " };
            let _infallible = writeln!(text, "- {}{colon}{}", option.label, option.description);
        }
    }
    text
}
