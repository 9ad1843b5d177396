//! The CLI's permission requests and reported tool calls: turns them into approvals, and decisions
//! into responses.
//!
//! The CLI reports every call before it applies its own rules (`PreToolUse`), and asks for
//! permission only if those rules do not allow the call. The engine decides on both. A call that a
//! person allowed when it was reported is not asked about again.
//!
//! The original input is kept until the decision, because an allow must send the input back.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{
    ApprovalKind, ApprovalRequest, ApprovalStage, Decision, RawJson, ToolId, Verdict,
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    access::tool_access,
    edits::file_edits,
    protocol::{
        control::{ControlRequestBody, ToolReport},
        outgoing::{self, HookAnswer, HookRegistration},
    },
    questions::{format_questions, parse_questions},
    suggested_rules::suggested_patterns,
    tool::{self, ToolInput},
    translate::TranslatorContext,
};
use crate::truncation::truncate_chars;

/// How many characters of an unknown tool's input are shown.
const MAX_INPUT_CHARS: usize = 2000;

/// The reasons why the CLI asks about calls that its accept-edits mode would allow too: it asks
/// about every edit, and about every command that it does not consider harmless.
const ORDINARY_REASONS: &[&str] = &["mode", "other", "subcommandResults"];

#[derive(Debug, Default)]
pub(crate) struct PendingPermissions {
    /// By the id of the control request.
    pending: HashMap<Arc<str>, PendingCall>,
    /// The reported calls of the turn, by their tool use id.
    reported: HashMap<Box<str>, ReportedCall>,
}

#[derive(Debug)]
enum PendingCall {
    /// The CLI asks for permission to make a call with this input.
    Request { input: RawJson },
    /// The CLI reports a call.
    Report { tool_use_id: Option<Box<str>> },
}

#[derive(Debug)]
struct ReportedCall {
    cwd: Option<PathBuf>,
    /// Set if a person has allowed the call.
    allowed: bool,
}

/// One call, as described by a request or a report.
struct CallDescription<'a> {
    tool: &'a str,
    tool_use_id: Option<&'a str>,
    input: Option<&'a RawValue>,
    cwd: Option<&'a Path>,
    by_sub_agent: bool,
    /// Why the CLI asks.
    reason: Option<&'a str>,
    blocked_path: Option<&'a str>,
}

impl PendingPermissions {
    /// Keeps a permission request and returns its approval, or `None` if it names no tool.
    pub(crate) fn add_request(
        &mut self,
        key: &str,
        request: &ControlRequestBody<'_>,
        context: &TranslatorContext,
    ) -> Option<ApprovalRequest> {
        let tool = request.tool_name.as_str()?;
        let tool_use_id = request.tool_use_id.as_str();
        let reported = tool_use_id.and_then(|id| self.reported.get(id));
        let call = CallDescription {
            tool,
            tool_use_id,
            input: request.input,
            cwd: reported.and_then(|call| call.cwd.as_deref()),
            by_sub_agent: request.agent_id.0.is_some(),
            reason: request.decision_reason.as_str(),
            blocked_path: request.blocked_path.as_str(),
        };
        let mut approval = call.approval(key, context);
        approval.access.vendor_objection = objection(request).map(Into::into);
        approval.suggestions =
            suggested_patterns(request.permission_suggestions, tool, approval.subject.as_deref());
        let request = PendingCall::Request { input: Arc::clone(&approval.input) };
        self.pending.insert(Arc::clone(&approval.key), request);
        Some(approval)
    }

    /// Keeps a report and returns its approval. Returns `None` if the report is not from our hook,
    /// or is about one of the caller's tools, which the caller decides on.
    pub(crate) fn add_report(
        &mut self,
        key: &str,
        request: &ControlRequestBody<'_>,
        context: &TranslatorContext,
    ) -> Option<ApprovalRequest> {
        if request.callback_id.as_str() != Some(HookRegistration::CALLBACK_ID) {
            return None;
        }
        let report = parse_report(request.input);
        let tool = report.tool_name.as_str()?;
        if context.caller_tools.iter().any(|own| *own == tool) {
            return None;
        }
        let tool_use_id = report.tool_use_id.as_str().or(request.tool_use_id.as_str());
        let cwd = report.cwd.as_str().map(Path::new);
        let call = CallDescription {
            tool,
            tool_use_id,
            input: report.tool_input,
            cwd,
            by_sub_agent: report.agent_id.0.is_some(),
            reason: None,
            blocked_path: None,
        };
        let mut approval = call.approval(key, context);
        approval.stage = ApprovalStage::Report;
        // Questions are asked by the permission request that follows.
        approval.kind = ApprovalKind::Tool;
        if let Some(id) = tool_use_id {
            let call = ReportedCall { cwd: cwd.map(Path::to_owned), allowed: false };
            self.reported.insert(id.into(), call);
        }
        let report = PendingCall::Report { tool_use_id: tool_use_id.map(Into::into) };
        self.pending.insert(Arc::clone(&approval.key), report);
        Some(approval)
    }

    /// Returns the response to a request about a call that a person already allowed when it was
    /// reported.
    pub(crate) fn answer_allowed(
        &mut self,
        key: &str,
        request: &ControlRequestBody<'_>,
    ) -> Option<Vec<u8>> {
        let call = self.reported.get_mut(request.tool_use_id.as_str()?)?;
        std::mem::take(&mut call.allowed)
            .then(|| outgoing::allow(key, request.input.unwrap_or(RawValue::NULL)))
    }

    /// Drops a request that the CLI has withdrawn and that must not be answered any more.
    pub(crate) fn withdraw(&mut self, key: &str) -> Option<Arc<str>> {
        self.pending.remove_entry(key).map(|(key, _)| key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pending.keys()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the calls of the last turn.
    pub(crate) fn begin_turn(&mut self) {
        self.reported.clear();
    }

    pub(crate) fn is_report(&self, key: &str) -> bool {
        matches!(self.pending.get(key), Some(PendingCall::Report { .. }))
    }

    /// Returns the line that lets a reported call proceed under the CLI's own rules. Returns `None`
    /// if the report is not pending.
    pub(crate) fn proceed(&mut self, key: &str) -> Option<Vec<u8>> {
        if !self.is_report(key) {
            return None;
        }
        self.pending.remove(key);
        Some(outgoing::answer_hook(key, HookAnswer::Proceed))
    }

    /// Returns the line that sends a decision to the CLI, or `None` if the request is not pending.
    pub(crate) fn answer(&mut self, key: &str, decision: &Decision) -> Option<Vec<u8>> {
        let stops = decision.verdict == Verdict::Stop;
        let default_note = match decision.verdict {
            Verdict::Stop => "This was declined; stop here.",
            _ => "This was declined; go on without it.",
        };
        let note = decision.note.as_deref().unwrap_or(default_note);
        Some(match (self.pending.remove(key)?, decision.verdict.allows()) {
            (PendingCall::Request { input }, true) => {
                outgoing::allow(key, &add_answers(input, decision))
            }
            (PendingCall::Request { .. }, false) => outgoing::deny(key, note, stops),
            (PendingCall::Report { tool_use_id }, true) => {
                if let Some(call) = tool_use_id.and_then(|id| self.reported.get_mut(&id)) {
                    call.allowed = true;
                }
                outgoing::answer_hook(key, HookAnswer::Allow)
            }
            (PendingCall::Report { .. }, false) => {
                outgoing::answer_hook(key, HookAnswer::Deny(note))
            }
        })
    }
}

/// Returns the answer to a hook callback that is not an approval: one about a caller's tool, or one
/// that cannot be read.
pub(crate) fn answer_other_hook(
    key: &str,
    callback_id: &str,
    input: &RawValue,
    is_callers: impl FnOnce(&str) -> bool,
) -> Vec<u8> {
    if callback_id != HookRegistration::CALLBACK_ID {
        return outgoing::respond_error(key, "there is no such hook here");
    }
    let answer = if parse_report(Some(input)).tool_name.as_str().is_some_and(is_callers) {
        HookAnswer::Proceed
    } else {
        HookAnswer::Deny("the report of this call does not say which tool it is")
    };
    outgoing::answer_hook(key, answer)
}

fn parse_report(input: Option<&RawValue>) -> ToolReport<'_> {
    input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Returns why the CLI would ask about the call even if edits were allowed.
fn objection<'a>(request: &'a ControlRequestBody<'_>) -> Option<&'a str> {
    let kind = request.decision_reason_type.as_str()?;
    if ORDINARY_REASONS.contains(&kind) {
        return None;
    }
    Some(request.decision_reason.as_str().unwrap_or(kind))
}

/// Returns the tool input to run with: the original input plus the answers to questions.
fn add_answers(input: RawJson, decision: &Decision) -> RawJson {
    if decision.answers.is_empty() {
        return input;
    }
    let mut with_answers: Map<String, Value> =
        serde_json::from_str(input.get()).unwrap_or_default();
    let answers: Map<String, Value> = decision
        .answers
        .iter()
        .map(|one| (one.question.to_string(), Value::from(&*one.answer)))
        .collect();
    with_answers.insert("answers".to_owned(), answers.into());
    serde_json::value::to_raw_value(&with_answers).map_or(input, Into::into)
}

impl CallDescription<'_> {
    fn approval(&self, key: &str, context: &TranslatorContext) -> ApprovalRequest {
        let input: RawJson = self.input.unwrap_or(RawValue::NULL).to_owned().into();
        let look = ToolInput::parse(&input);
        let is_question = self.tool == tool::ASK_USER_QUESTION;
        let questions = is_question.then(|| parse_questions(&input)).flatten();
        let (kind, title, detail) = if let Some(questions) = questions {
            let title = Arc::clone(&questions[0].text);
            let detail = format_questions(&questions).into();
            (ApprovalKind::Question(questions.into()), title, detail)
        } else {
            let detail = self.detail(&look, &context.cwd).into();
            (ApprovalKind::Tool, look.title(self.tool), detail)
        };
        let subject = look.pattern_subject(self.tool).map(Into::into);
        let mut access = tool_access(self.tool, &look, &context.home);
        access.cwd = self.cwd.map(Path::to_owned);
        ApprovalRequest {
            key: key.into(),
            stage: ApprovalStage::Request,
            access,
            edits: file_edits(self.tool, &look, &context.home),
            suggestions: Vec::new(),
            kind,
            tool_id: self.tool_use_id.map(ToolId::new),
            tool_name: self.tool.into(),
            class: tool::tool_class(self.tool),
            subject,
            title,
            detail,
            input,
        }
    }

    fn detail(&self, input: &ToolInput<'_>, session_cwd: &Path) -> String {
        let mut text = String::new();
        let mut line = |label: &str, value: &str| {
            let _infallible = writeln!(text, "{label}{value}");
        };
        match (input.command(), input.path(), input.url()) {
            (Some(command), ..) => line("", command),
            (None, Some(path), _) => line("", path),
            (None, None, Some(url)) => line("", url),
            (None, None, None) => {}
        }
        if let Some((added, removed)) = input.line_counts() {
            line("", &format!("+{added} −{removed} lines"));
        }
        if let Some(plan) = input.plan() {
            line("", plan);
        }
        line("in ", &self.cwd.unwrap_or(session_cwd).to_string_lossy());
        if let Some(description) = input.description() {
            line("for: ", description);
        }
        if let Some(reason) = self.reason {
            line("asked because: ", reason);
        }
        if let Some(path) = self.blocked_path {
            line("touches: ", path);
        }
        if self.by_sub_agent {
            line("", "by a sub-agent");
        }
        // For an unknown tool, show its whole input.
        if input.command().is_none() && input.path().is_none() && input.plan().is_none() {
            let given = self.input.map_or("nothing", RawValue::get);
            line(self.tool, &format!(": {}", truncate_chars(given, MAX_INPUT_CHARS)));
        }
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::QuestionAnswer;
    use serde_json::json;

    use super::*;

    fn context() -> TranslatorContext {
        TranslatorContext {
            profile: "default".into(),
            executor: "claude".into(),
            resumed: false,
            warm: false,
            prefix_sha256: None,
            cwd: "/project".into(),
            home: "/home/u".into(),
            caller_tools: vec!["mcp__client__own".to_owned()],
        }
    }

    fn ask(pending: &mut PendingPermissions, request: &str) -> ApprovalRequest {
        let request = serde_json::from_str(request).unwrap();
        pending.add_request("k", &request, &context()).unwrap()
    }

    fn response(line: &[u8]) -> Value {
        let line: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(line["response"]["request_id"], "k");
        line["response"]["response"].clone()
    }

    fn answer(request: &str, decision: &Decision) -> Value {
        let mut pending = PendingPermissions::default();
        ask(&mut pending, request);
        let line = pending.answer("k", decision).unwrap();
        assert!(pending.answer("k", decision).is_none(), "answered once");
        response(&line)
    }

    fn report(pending: &mut PendingPermissions, tool: &str) -> Option<ApprovalRequest> {
        let request = json!({"subtype": "hook_callback", "callback_id": HookRegistration::CALLBACK_ID,
            "tool_use_id": "t", "input": {"hook_event_name": "PreToolUse", "cwd": "/project/sub",
            "tool_name": tool, "tool_input": {"file_path": "a"}, "tool_use_id": "t"}});
        let text = request.to_string();
        pending.add_report("k", &serde_json::from_str(&text).unwrap(), &context())
    }

    const MKDIR: &str = r#"{"tool_name":"Bash","input":{"command":"mkdir x","n":1.0},
        "tool_use_id":"t","permission_suggestions":[
        {"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"mkdir *"}],
         "behavior":"allow","destination":"localSettings"},
        {"type":"setMode","mode":"acceptEdits","destination":"session"}]}"#;

    #[test]
    fn an_allow_carries_the_input_back_untouched_and_no_rules() {
        for verdict in [Verdict::Once, Verdict::Session, Verdict::Always] {
            let got = answer(MKDIR, &Decision::new(verdict, "owner"));
            let input = json!({"command": "mkdir x", "n": 1.0});
            assert_eq!(got, json!({"behavior": "allow", "updatedInput": input}));
        }
        let asked = ask(&mut PendingPermissions::default(), MKDIR);
        assert_eq!(asked.suggestions, ["Bash(mkdir *)".parse().unwrap()]);
    }

    #[test]
    fn refusals_say_why_and_stop_ends_the_turn() {
        let got = answer(MKDIR, &Decision::new(Verdict::Deny, "owner").with_note("not here"));
        assert_eq!(got, json!({"behavior": "deny", "message": "not here"}));
        let got = answer(MKDIR, &Decision::new(Verdict::Stop, "owner"));
        assert_eq!(got["interrupt"], true);
    }

    #[test]
    fn a_report_is_answered_with_a_hooks_output() {
        let mut pending = PendingPermissions::default();
        let reported = report(&mut pending, "Read").unwrap();
        assert_eq!(reported.stage, ApprovalStage::Report);
        assert_eq!(reported.access.reads, [PathBuf::from("a")]);
        assert_eq!(reported.access.cwd, Some("/project/sub".into()));
        assert_eq!(response(&pending.proceed("k").unwrap()), json!({}));
        assert!(pending.proceed("k").is_none(), "answered once");

        report(&mut pending, "Read").unwrap();
        let no = Decision::new(Verdict::Deny, "rule").with_note("not that");
        let got = response(&pending.answer("k", &no).unwrap());
        let got = &got["hookSpecificOutput"];
        assert_eq!(got["hookEventName"], "PreToolUse");
        assert_eq!(got["permissionDecision"], "deny");
        assert_eq!(got["permissionDecisionReason"], "not that");

        assert!(report(&mut pending, "mcp__client__own").is_none(), "the caller decides");
        assert!(report(&mut pending, "mcp__client__other").is_some());
    }

    #[test]
    fn a_call_that_was_allowed_when_reported_is_not_asked_about_again() {
        let mut pending = PendingPermissions::default();
        let request: ControlRequestBody<'_> = serde_json::from_str(MKDIR).unwrap();
        report(&mut pending, "Bash").unwrap();
        let line = pending.answer("k", &Decision::new(Verdict::Once, "owner")).unwrap();
        assert_eq!(response(&line)["hookSpecificOutput"]["permissionDecision"], "allow");
        assert_eq!(response(&pending.answer_allowed("k", &request).unwrap())["behavior"], "allow");
        assert!(pending.answer_allowed("k", &request).is_none(), "once");

        report(&mut pending, "Bash").unwrap();
        pending.proceed("k").unwrap();
        assert!(pending.answer_allowed("k", &request).is_none(), "nobody has allowed it");
        let asked = ask(&mut pending, MKDIR);
        assert_eq!(asked.access.cwd, Some("/project/sub".into()), "as reported");
    }

    #[test]
    fn only_an_objection_to_an_edit_is_an_objection() {
        let objection = |reason: Value| {
            let mut request = json!({"tool_name": "Write", "input": {"file_path": "a"}});
            request.as_object_mut().unwrap().extend(reason.as_object().unwrap().clone());
            ask(&mut PendingPermissions::default(), &request.to_string()).access.vendor_objection
        };
        let outside = json!({"decision_reason": "outside", "decision_reason_type": "workingDir"});
        assert_eq!(objection(outside).as_deref(), Some("outside"));
        assert_eq!(objection(json!({"decision_reason_type": "new"})).as_deref(), Some("new"));
        assert_eq!(objection(json!({"decision_reason_type": "mode"})), None);
        assert_eq!(objection(json!({})), None);
    }

    #[test]
    fn questions_are_answered_inside_the_input() {
        let request = r#"{"tool_name":"AskUserQuestion","input":{"questions":[{"question":"Which?",
            "header":"H","multiSelect":true,"options":[{"label":"A","description":"a"}]}]}}"#;
        let asked = ask(&mut PendingPermissions::default(), request);
        let ApprovalKind::Question(questions) = &asked.kind else {
            panic!("{asked:?}");
        };
        assert!(questions[0].multiple);
        assert_eq!((&*asked.title, &*asked.detail), ("Which?", "Which?\n- A: a"));
        let mut decision = Decision::new(Verdict::Once, "owner");
        decision.answers.push(QuestionAnswer { question: "Which?".into(), answer: "A".into() });
        let got = answer(request, &decision);
        assert_eq!(got["updatedInput"]["answers"], json!({"Which?": "A"}));
        assert_eq!(got["updatedInput"]["questions"][0]["header"], "H");
    }

    #[test]
    fn titles_and_details_are_never_empty() {
        for request in [
            r#"{"tool_name":"AskUserQuestion","input":{"questions":[]}}"#,
            r#"{"tool_name":"AskUserQuestion","input":{"questions":[{"question":" "}]}}"#,
            r#"{"tool_name":"Odd","input":5}"#,
            r#"{"tool_name":"Odd"}"#,
            r#"{"tool_name":""}"#,
        ] {
            let asked = ask(&mut PendingPermissions::default(), request);
            assert!(!asked.title.trim().is_empty() && !asked.detail.trim().is_empty(), "{request}");
            assert_eq!(asked.kind, ApprovalKind::Tool);
        }
        let edit = r#"{"tool_name":"Edit","input":{"file_path":"/p/a","old_string":"a",
            "new_string":"b\nc"},"decision_reason":"outside"}"#;
        let asked = ask(&mut PendingPermissions::default(), edit);
        assert_eq!(&*asked.detail, "/p/a\n+2 −1 lines\nin /project\nasked because: outside");
    }
}
