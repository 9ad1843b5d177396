//! Permission requests of the CLI: turns them into approvals, and decisions into responses.
//!
//! The original input and the CLI's own suggestions are kept until the decision, because an allow
//! must carry the input back and a session-wide allow must carry the rules to add.

use std::{collections::HashMap, fmt::Write as _, path::Path, sync::Arc};

use angelia_core::model::{
    ApprovalKind, ApprovalRequest, Decision, Question, QuestionOption, RawJson, ToolClass, ToolId,
    Verdict,
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    protocol::{
        incoming::{BorrowedStr, ControlRequestBody, Lenient},
        outgoing,
    },
    tool::{self, ToolInput},
};
use crate::truncation::truncate_chars;

/// How many characters of an unknown tool's input are shown.
const MAX_INPUT_CHARS: usize = 2000;

#[derive(Debug, Default)]
pub(crate) struct PendingPermissions(HashMap<Arc<str>, PermissionRequest>);

/// A permission request that waits for a decision.
#[derive(Debug)]
struct PermissionRequest {
    tool: Box<str>,
    input: RawJson,
    suggestions: Option<RawJson>,
}

impl PendingPermissions {
    /// Keeps the request and returns the approval for people to decide. `None` if the request names
    /// no tool.
    pub(crate) fn register(
        &mut self,
        key: &str,
        request: &ControlRequestBody<'_>,
        cwd: &Path,
    ) -> Option<ApprovalRequest> {
        let tool = request.tool_name.as_str()?;
        let input: RawJson = request.input.unwrap_or(RawValue::NULL).to_owned().into();
        let key: Arc<str> = key.into();
        let approval = build_approval(Arc::clone(&key), tool, request, Arc::clone(&input), cwd);
        let suggestions = request.permission_suggestions;
        self.0.insert(
            key,
            PermissionRequest {
                tool: tool.into(),
                input,
                suggestions: suggestions.map(|raw| raw.to_owned().into()),
            },
        );
        Some(approval)
    }

    /// Drops a request that the CLI has withdrawn; it must not be answered any more.
    pub(crate) fn withdraw(&mut self, key: &str) -> Option<Arc<str>> {
        self.0.remove_entry(key).map(|(key, _)| key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the line that sends the decision to the CLI; `None` if the request is not pending.
    pub(crate) fn answer(&mut self, key: &str, decision: &Decision) -> Option<Vec<u8>> {
        let asked = self.0.remove(key)?;
        let note = decision.note.as_deref();
        Some(match decision.verdict {
            Verdict::Deny => {
                outgoing::deny(key, note.unwrap_or("This was declined; go on without it."), false)
            }
            Verdict::Stop => {
                outgoing::deny(key, note.unwrap_or("This was declined; stop here."), true)
            }
            Verdict::Once => outgoing::allow(key, &asked.input_with_answers(decision), None),
            Verdict::Session => outgoing::allow(
                key,
                &asked.input_with_answers(decision),
                Some(&asked.session_rules()),
            ),
        })
    }
}

impl PermissionRequest {
    /// Returns the tool input to run with: the original, plus the answers to questions.
    fn input_with_answers(&self, decision: &Decision) -> RawJson {
        if decision.answers.is_empty() {
            return Arc::clone(&self.input);
        }
        let mut input: Map<String, Value> =
            serde_json::from_str(self.input.get()).unwrap_or_default();
        let answers: Map<String, Value> = decision
            .answers
            .iter()
            .map(|one| (one.question.to_string(), Value::from(&*one.answer)))
            .collect();
        input.insert("answers".to_owned(), answers.into());
        serde_json::value::to_raw_value(&input).map_or_else(|_| Arc::clone(&self.input), Into::into)
    }

    /// Returns the rules that the CLI suggests to add, limited to this process: its own destination
    /// would write into the project's settings. Changes of the permission mode are left out: "allow
    /// this and similar calls" must not become "allow every edit" against the profile's rules.
    fn session_rules(&self) -> Value {
        let suggested = self.suggestions.as_ref();
        let suggested: Vec<Map<String, Value>> =
            suggested.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let mut updates: Vec<Value> = suggested
            .into_iter()
            .filter(|update| update.get("type").and_then(Value::as_str) != Some("setMode"))
            .map(|mut update| {
                update.insert("destination".to_owned(), "session".into());
                Value::Object(update)
            })
            .collect();
        if !updates.iter().any(|update| update["type"] == "addRules") {
            updates.push(json!({
                "type": "addRules",
                "rules": [self.exact_rule()],
                "behavior": "allow",
                "destination": "session",
            }));
        }
        updates.into()
    }

    /// Returns a rule for this tool with exactly this subject, in the CLI's notation.
    fn exact_rule(&self) -> Value {
        let input = ToolInput::parse(&self.input);
        let path = |tool: &str| match input.path() {
            // In the CLI's rules `//` is the root; one slash means the settings' folder.
            Some(path) if path.starts_with('/') => {
                json!({"toolName": tool, "ruleContent": format!("/{path}")})
            }
            Some(path) => json!({"toolName": tool, "ruleContent": path}),
            None => json!({"toolName": tool}),
        };
        match (tool::tool_class(&self.tool), input.command(), input.url()) {
            // Rules for `Edit` apply to every tool that edits.
            (ToolClass::Edit, ..) => path("Edit"),
            (ToolClass::Read, ..) => path("Read"),
            (ToolClass::Execute, Some(command), _) => {
                json!({"toolName": &*self.tool, "ruleContent": command})
            }
            (_, _, Some(url)) if &*self.tool == "WebFetch" => match url_host(url) {
                Some(host) => {
                    json!({"toolName": "WebFetch", "ruleContent": format!("domain:{host}")})
                }
                None => json!({"toolName": "WebFetch"}),
            },
            _ => json!({"toolName": &*self.tool}),
        }
    }
}

fn url_host(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?.split(':').next()?;
    (!host.is_empty()).then_some(host)
}

fn build_approval(
    key: Arc<str>,
    tool: &str,
    request: &ControlRequestBody<'_>,
    input: RawJson,
    cwd: &Path,
) -> ApprovalRequest {
    let look = ToolInput::parse(&input);
    let questions = (tool == tool::ASK_USER_QUESTION).then(|| parse_questions(&input)).flatten();
    let (kind, title, detail) = match questions {
        Some(questions) => {
            let title = Arc::clone(&questions[0].text);
            let detail = format_questions(&questions).into();
            (ApprovalKind::Question(questions.into()), title, detail)
        }
        None => (ApprovalKind::Tool, look.title(tool), detail(tool, &look, request, cwd).into()),
    };
    let subject = look.pattern_subject(tool).map(Into::into);
    ApprovalRequest {
        key,
        kind,
        tool_id: request.tool_use_id.as_str().map(ToolId::new),
        tool_name: tool.into(),
        class: tool::tool_class(tool),
        subject,
        title,
        detail,
        input,
    }
}

fn detail(
    tool: &str,
    input: &ToolInput<'_>,
    request: &ControlRequestBody<'_>,
    cwd: &Path,
) -> String {
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
    line("in ", &cwd.to_string_lossy());
    if let Some(description) = input.description() {
        line("for: ", description);
    }
    if let Some(reason) = request.decision_reason.as_str() {
        line("asked because: ", reason);
    }
    if let Some(path) = request.blocked_path.as_str() {
        line("touches: ", path);
    }
    if request.agent_id.0.is_some() {
        line("", "by a sub-agent");
    }
    // For an unknown tool, show its whole input.
    if input.command().is_none() && input.path().is_none() && input.plan().is_none() {
        let given = request.input.map_or("nothing", RawValue::get);
        line(tool, &format!(": {}", truncate_chars(given, MAX_INPUT_CHARS)));
    }
    text.truncate(text.trim_end().len());
    text
}

fn parse_questions(input: &RawValue) -> Option<Vec<Question>> {
    #[derive(Deserialize)]
    struct QuestionInput<'a> {
        #[serde(borrow, default)]
        questions: Lenient<Vec<QuestionItem<'a>>>,
    }
    #[derive(Deserialize)]
    struct QuestionItem<'a> {
        #[serde(borrow, default)]
        question: Lenient<BorrowedStr<'a>>,
        #[serde(borrow, default)]
        header: Lenient<BorrowedStr<'a>>,
        #[serde(rename = "multiSelect", default)]
        multiple: Lenient<bool>,
        #[serde(borrow, default)]
        options: Lenient<Vec<QuestionChoice<'a>>>,
    }
    #[derive(Deserialize)]
    struct QuestionChoice<'a> {
        #[serde(borrow, default)]
        label: Lenient<BorrowedStr<'a>>,
        #[serde(borrow, default)]
        description: Lenient<BorrowedStr<'a>>,
    }
    let text = |text: &Lenient<BorrowedStr<'_>>| Arc::from(text.as_str().unwrap_or_default());
    let asked: QuestionInput<'_> = serde_json::from_str(input.get()).ok()?;
    let questions = asked.questions.0?.into_iter().map(|one| Question {
        text: text(&one.question),
        header: text(&one.header),
        options: (one.options.0.iter().flatten())
            .map(|choice| QuestionOption {
                label: text(&choice.label),
                description: text(&choice.description),
            })
            .collect(),
        multiple: one.multiple.get().unwrap_or(false),
    });
    let questions: Vec<Question> = questions.filter(|one| !one.text.trim().is_empty()).collect();
    (!questions.is_empty()).then_some(questions)
}

/// Formats the questions with their options as text.
fn format_questions(questions: &[Question]) -> String {
    let mut text = String::new();
    for question in questions {
        let _infallible = writeln!(text, "{}", question.text);
        for option in &question.options {
            let _infallible = writeln!(text, "- {}: {}", option.label, option.description);
        }
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use angelia_core::model::QuestionAnswer;

    use super::*;

    fn ask(pending: &mut PendingPermissions, request: &str) -> ApprovalRequest {
        let request = serde_json::from_str(request).unwrap();
        pending.register("k", &request, Path::new("/project")).unwrap()
    }

    fn answer(request: &str, decision: &Decision) -> Value {
        let mut pending = PendingPermissions::default();
        ask(&mut pending, request);
        let line = pending.answer("k", decision).unwrap();
        assert!(pending.answer("k", decision).is_none(), "answered once");
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["response"]["request_id"], "k");
        line["response"]["response"].clone()
    }

    const MKDIR: &str = r#"{"tool_name":"Bash","input":{"command":"mkdir x","n":1.0},
        "tool_use_id":"t","permission_suggestions":[
        {"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"mkdir x"}],
         "behavior":"allow","destination":"localSettings"},
        {"type":"addDirectories","directories":["/y"],"destination":"userSettings"},
        {"type":"setMode","mode":"acceptEdits","destination":"session"}]}"#;

    #[test]
    fn once_carries_the_input_back_untouched() {
        let got = answer(MKDIR, &Decision::new(Verdict::Once, "owner"));
        assert_eq!(
            got,
            json!({"behavior": "allow", "updatedInput": {"command": "mkdir x", "n": 1.0}})
        );
    }

    #[test]
    fn session_remembers_suggestions_in_this_process_only() {
        let got = answer(MKDIR, &Decision::new(Verdict::Session, "owner"));
        let updates = got["updatedPermissions"].as_array().unwrap();
        assert_eq!(updates.len(), 2, "no change of mode: {updates:?}");
        assert!(updates.iter().all(|update| update["destination"] == "session"));
    }

    #[test]
    fn session_without_suggestions_remembers_exactly_this() {
        let cases = [
            (
                "Bash",
                r#"{"command":"a && b"}"#,
                json!({"toolName": "Bash", "ruleContent": "a && b"}),
            ),
            (
                "Write",
                r#"{"file_path":"/w/a"}"#,
                json!({"toolName": "Edit", "ruleContent": "//w/a"}),
            ),
            ("Read", r#"{"file_path":"a"}"#, json!({"toolName": "Read", "ruleContent": "a"})),
            (
                "WebFetch",
                r#"{"url":"https://u@x.org:8/p"}"#,
                json!({"toolName": "WebFetch", "ruleContent": "domain:x.org"}),
            ),
            ("mcp__a__b", r#"{"command":"c"}"#, json!({"toolName": "mcp__a__b"})),
        ];
        for (tool, input, rule) in cases {
            let request = format!(r#"{{"tool_name":"{tool}","input":{input}}}"#);
            let got = answer(&request, &Decision::new(Verdict::Session, "owner"));
            assert_eq!(got["updatedPermissions"][0]["rules"], json!([rule]), "{tool}");
        }
    }

    #[test]
    fn refusals_say_why_and_stop_ends_the_turn() {
        let got = answer(MKDIR, &Decision::new(Verdict::Deny, "owner").with_note("not here"));
        assert_eq!(got, json!({"behavior": "deny", "message": "not here"}));
        let got = answer(MKDIR, &Decision::new(Verdict::Stop, "owner"));
        assert_eq!(got["interrupt"], true);
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
