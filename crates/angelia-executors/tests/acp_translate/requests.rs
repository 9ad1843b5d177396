//! Requests from agents to the ACP client, and the answers.

use std::path::PathBuf;

use angelia_core::{
    model::{ApprovalStage, CommandAccess, Decision, FileChange, FileEdit, ToolClass, Verdict},
    ports::AgentEvent,
};
use angelia_executors::acp::{
    client::ClientRequest,
    translate::{AcpContext, AcpRequestOutcome, AcpTranslator, DecisionEffect},
};
use serde_json::{Value, json};

use super::driver::context;

fn translator(change: impl FnOnce(&mut AcpContext)) -> AcpTranslator {
    let mut context = context("S");
    change(&mut context);
    let mut translator = AcpTranslator::new(context);
    translator.begin_turn(&mut Vec::new());
    translator
}

fn request(
    translator: &mut AcpTranslator,
    id: i64,
    method: &str,
    params: &Value,
) -> (AcpRequestOutcome, Vec<AgentEvent>) {
    let mut out = Vec::new();
    let params = serde_json::value::to_raw_value(params).unwrap();
    let answer = translator.on_request(&id.into(), method, Some(&params), &mut out);
    (answer, out)
}

fn asked(out: &[AgentEvent]) -> &angelia_core::model::ApprovalRequest {
    let found = out.iter().find_map(|one| match one {
        AgentEvent::ApprovalRequest(ask) => Some(ask),
        _ => None,
    });
    found.unwrap()
}

fn permission(options: &Value) -> Value {
    json!({"sessionId": "S", "options": options, "toolCall": {"toolCallId": "t", "kind": "edit",
        "title": "Change a.txt", "locations": [{"path": "/workspace/a.txt"}],
        "content": [{"type": "diff", "path": "/workspace/a.txt", "newText": "x"}]}})
}

const WRITE: &str = "fs/write_text_file";
const PERMISSION: &str = "session/request_permission";

#[test]
fn reading_is_reported_and_goes_on_unless_it_is_refused() {
    let read = json!({"sessionId": "S", "path": "/workspace/a.txt"});
    let mut translator = translator(|_| {});
    for id in 0..2 {
        let (answer, out) = request(&mut translator, id, "fs/read_text_file", &read);
        assert!(matches!(answer, AcpRequestOutcome::Approval), "{answer:?}");
        let report = asked(&out);
        assert_eq!(report.stage, ApprovalStage::Report);
        assert_eq!(report.access.reads, [PathBuf::from("/workspace/a.txt")]);
    }
    let done = translator.proceed("0", &mut Vec::new());
    assert!(
        matches!(done, Some(DecisionEffect::Execute(_, ClientRequest::Read { .. }))),
        "{done:?}"
    );
    let no = Decision::new(Verdict::Deny, "rule");
    let refused = translator.decide("1", &no, &mut Vec::new());
    assert!(matches!(refused, Some(DecisionEffect::Refuse(..))), "{refused:?}");
}

#[test]
fn writing_is_an_edit_and_running_a_command() {
    let mut translator = translator(|_| {});
    let write = json!({"sessionId": "S", "path": "a.txt", "content": "new"});
    let (answer, out) = request(&mut translator, 0, WRITE, &write);
    assert!(matches!(answer, AcpRequestOutcome::Approval));
    let ask = asked(&out);
    assert_eq!((ask.class, &*ask.tool_name), (ToolClass::Edit, "write_text_file"));
    assert_eq!(ask.access.writes, [PathBuf::from("/workspace/a.txt")]);
    let edit =
        FileEdit { path: "/workspace/a.txt".into(), change: FileChange::Write("new".into()) };
    assert_eq!(ask.edits, [edit], "the diff shows the text");

    let run = json!({"sessionId": "S", "command": "ls", "args": ["-l"]});
    let (answer, out) = request(&mut translator, 1, "terminal/create", &run);
    assert!(matches!(answer, AcpRequestOutcome::Approval));
    let ask = asked(&out);
    assert_eq!((ask.class, &*ask.tool_name), (ToolClass::Execute, "terminal"));
    assert_eq!(ask.subject.as_deref(), Some("ls -l"));
    assert_eq!(ask.access.command, Some(CommandAccess::argv(["ls", "-l"])));
    assert_eq!(ask.access.cwd, Some("/workspace".into()));

    let yes = Decision::new(Verdict::Once, "owner");
    let done = translator.decide("0", &yes, &mut Vec::new());
    assert!(
        matches!(done, Some(DecisionEffect::Execute(_, ClientRequest::Write { .. }))),
        "{done:?}"
    );
    let no = Decision::new(Verdict::Deny, "owner").with_note("not today");
    let refused = translator.decide("1", &no, &mut Vec::new());
    assert!(matches!(refused, Some(DecisionEffect::Refuse(_, why)) if &*why == "not today"));
    assert!(translator.decide("1", &yes, &mut Vec::new()).is_none());
}

#[test]
fn nothing_outside_is_even_asked_about() {
    let mut translator = translator(|_| {});
    for (method, params) in [
        ("fs/read_text_file", json!({"path": "/etc/passwd"})),
        (WRITE, json!({"path": "/workspace/../x", "content": ""})),
        ("terminal/create", json!({"command": "ls", "cwd": "/"})),
    ] {
        let (answer, out) = request(&mut translator, 0, method, &params);
        assert!(matches!(answer, AcpRequestOutcome::Error(_)), "{method}: {answer:?}");
        assert!(out.is_empty(), "{method}: {out:?}");
    }
}

#[test]
fn what_was_allowed_with_a_tool_is_done_without_asking_again() {
    let options = json!([{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]);
    let write = json!({"path": "/workspace/a.txt", "content": "x"});
    for (verdict, is_done) in [(Verdict::Once, true), (Verdict::Deny, false)] {
        let mut translator = translator(|_| {});
        request(&mut translator, 0, PERMISSION, &permission(&options));
        let decision = Decision::new(verdict, "owner");
        translator.decide("0", &decision, &mut Vec::new());
        let (_, out) = request(&mut translator, 1, WRITE, &write);
        let is_report = asked(&out).stage == ApprovalStage::Report;
        assert_eq!(is_report, is_done, "{verdict:?}: no person is asked again");
        let other = json!({"path": "/workspace/b.txt", "content": "x"});
        let (_, out) = request(&mut translator, 2, WRITE, &other);
        assert_eq!(asked(&out).stage, ApprovalStage::Request);
    }
}

#[test]
fn a_lasting_yes_is_not_given_for_a_single_one() {
    let always = json!([{"optionId": "a", "kind": "allow_always"}, {"optionId": "r", "kind": "reject_always"}]);
    let both = json!([{"optionId": "a", "kind": "allow_always"}, {"optionId": "o", "kind": "allow_once"},
        {"optionId": "r", "kind": "reject_once"}]);
    let none = json!([]);
    let table = [
        (&both, Verdict::Once, Some("o")),
        (&both, Verdict::Session, Some("o")),
        (&both, Verdict::Deny, Some("r")),
        (&both, Verdict::Stop, None),
        (&always, Verdict::Once, Some("r")),
        (&always, Verdict::Session, Some("r")),
        (&always, Verdict::Deny, Some("r")),
        (&none, Verdict::Once, None),
        (&none, Verdict::Deny, None),
    ];
    for (options, verdict, expected) in table {
        let mut translator = translator(|_| {});
        request(&mut translator, 0, PERMISSION, &permission(options));
        let decision = Decision::new(verdict, "owner");
        let Some(DecisionEffect::Reply(_, result)) =
            translator.decide("0", &decision, &mut Vec::new())
        else {
            unreachable!("{verdict:?}");
        };
        let result: Value = serde_json::from_str(result.get()).unwrap();
        assert_eq!(result["outcome"]["optionId"].as_str(), expected, "{verdict:?} of {options}");
    }
}

#[test]
fn an_interrupt_takes_every_question_back() {
    let mut translator = translator(|_| {});
    let options = json!([{"optionId": "yes", "kind": "allow_once"}]);
    request(&mut translator, 0, PERMISSION, &permission(&options));
    request(&mut translator, 1, WRITE, &json!({"path": "b", "content": ""}));
    let mut out = Vec::new();
    let decided = translator.begin_stop(&mut out);
    assert_eq!(decided.len(), 2);
    assert!(
        matches!(&decided[0], DecisionEffect::Reply(_, result) if result.get().contains("cancelled"))
    );
    assert!(matches!(&decided[1], DecisionEffect::Refuse(..)));
    let withdrawn = out.iter().filter(|one| matches!(one, AgentEvent::ApprovalWithdrawn(_)));
    assert_eq!(withdrawn.count(), 2);
    // A request after the interrupt is cancelled at once.
    let (answer, out) = request(&mut translator, 2, PERMISSION, &permission(&options));
    assert!(matches!(answer, AcpRequestOutcome::Now(result) if result.get().contains("cancelled")));
    assert!(out.is_empty());
}

#[test]
fn an_agent_may_take_its_question_back() {
    let mut translator = translator(|_| {});
    let options = json!([{"optionId": "yes", "kind": "allow_once"}]);
    request(&mut translator, 7, PERMISSION, &permission(&options));
    let mut out = Vec::new();
    let mut taken_back = |id: Value| {
        let params = serde_json::value::to_raw_value(&json!({"requestId": id})).unwrap();
        translator.on_cancel_request(Some(&params), &mut out)
    };
    assert!(taken_back(json!("7")).is_none() && taken_back(json!(8)).is_none());
    let told = taken_back(json!(7));
    assert!(
        matches!(told, Some(DecisionEffect::Reply(_, result)) if result.get().contains("cancelled"))
    );
    assert!(taken_back(json!(7)).is_none());
    assert!(matches!(&out[..], [AgentEvent::ApprovalWithdrawn(_)]));
}

#[test]
fn a_tool_call_states_its_paths_and_its_command() {
    let access = |tool: Value| {
        let params = json!({"options": [], "toolCall": tool});
        let (_, out) = request(&mut translator(|_| {}), 0, PERMISSION, &params);
        asked(&out).access.clone()
    };
    let edit = access(json!({"toolCallId": "t", "kind": "edit", "title": "x",
        "rawInput": {"file_path": "../b"}, "locations": [{"path": "/workspace/a"}],
        "content": [{"type": "diff", "path": "/etc/hosts", "newText": ""}]}));
    assert_eq!(edit.writes, ["/workspace/a", "/etc/hosts", "../b"].map(PathBuf::from));
    let moved = access(json!({"toolCallId": "t", "kind": "move", "title": "x",
        "locations": [{"path": "/workspace/a"}, {"path": "/etc/hosts"}]}));
    assert_eq!(moved.writes.len(), 2);
    let read = access(json!({"toolCallId": "t", "kind": "read", "title": "x",
        "rawInput": {"filepath": "/srv/.ssh/id", "path": "a"}}));
    assert_eq!(read.reads, ["/srv/.ssh/id", "a"].map(PathBuf::from));
    let words = access(json!({"toolCallId": "t", "kind": "execute", "title": "say hello",
        "rawInput": {"command": ["rm", "a b"], "cwd": "/workspace/x"}}));
    assert_eq!(words.command, Some(CommandAccess::argv(["rm", "a b"])));
    assert_eq!(words.cwd, Some("/workspace/x".into()));
    let told = access(json!({"toolCallId": "t", "kind": "execute", "title": "`ls`"}));
    assert_eq!(told.command, None, "a title is for people");
}

#[test]
fn a_question_that_says_nothing_is_still_asked() {
    let mut translator = translator(|_| {});
    let (answer, out) = request(&mut translator, 0, PERMISSION, &json!({"options": 7}));
    assert!(matches!(answer, AcpRequestOutcome::Approval));
    assert!(!asked(&out).title.is_empty());
    let (answer, _) = request(&mut translator, 1, "elicitation/create", &json!({}));
    assert!(matches!(answer, AcpRequestOutcome::Error(error) if error.code == -32601));
}
