//! Requests of the server: those that become approvals, and those that are answered at once.

use angelia_core::{
    model::{ApprovalRequest, CommandAccess, Content, Decision, Mode, ToolId, Verdict},
    ports::AgentEvent,
};
use angelia_executors::codex::translate::{
    CodexContext, CodexTranslator, DeferredReply, RequestOutcome,
};
use serde_json::{Value, json};

use super::{
    driver::{context, raw, request_id},
    turns::TurnDriver,
};

const COMMAND: &str = "item/commandExecution/requestApproval";
const PATCH: &str = "item/fileChange/requestApproval";
const PERMISSIONS: &str = "item/permissions/requestApproval";
pub(crate) const INPUT: &str = "item/tool/requestUserInput";
pub(crate) const ELICITATION: &str = "mcpServer/elicitation/request";
const TOOL: &str = "item/tool/call";

impl TurnDriver {
    fn with(context: CodexContext) -> Self {
        let mut talk = Self { translator: CodexTranslator::new(context), out: Vec::new() };
        talk.begin("turn-1");
        talk
    }

    pub(crate) fn request(&mut self, id: u64, method: &str, params: &Value) -> RequestOutcome {
        let mut params = params.clone();
        let fields = params.as_object_mut().unwrap();
        fields.entry("threadId").or_insert_with(|| "T".into());
        fields.entry("turnId").or_insert_with(|| "turn-1".into());
        let params = raw(&params.to_string());
        let id = request_id(&id.to_string());
        self.translator.on_request(&id, method, &params, &mut self.out)
    }

    pub(crate) fn request_approval(&mut self, method: &str, params: &Value) -> ApprovalRequest {
        let answer = self.request(0, method, params);
        assert!(matches!(answer, RequestOutcome::Approval(_)), "{answer:?}");
        let asked = self.out.iter().find_map(|emitted| match emitted {
            AgentEvent::ApprovalRequest(ask) => Some(ask.clone()),
            _ => None,
        });
        asked.unwrap()
    }

    pub(crate) fn decide(&mut self, verdict: Verdict) -> (Value, DeferredReply) {
        let decision = Decision::new(verdict, "owner").with_note("not like this");
        self.decide_with(&decision)
    }

    pub(crate) fn decide_with(&mut self, decision: &Decision) -> (Value, DeferredReply) {
        let reply = self.translator.decide("0", decision).unwrap();
        assert!(self.translator.decide("0", decision).is_none(), "once");
        (serde_json::from_str(reply.result.get()).unwrap(), reply)
    }
}

pub(crate) fn immediate_result(answer: &RequestOutcome) -> Value {
    match answer {
        RequestOutcome::Now(result) => serde_json::from_str(result.get()).unwrap(),
        other => unreachable!("{other:?}"),
    }
}

fn patch(paths: &[&str]) -> Value {
    let changes: Vec<Value> = (paths.iter())
        .map(|path| json!({"path": path, "kind": {"type": "add"}, "diff": "a\nb\n"}))
        .collect();
    json!({"type": "fileChange", "id": "p1", "changes": changes, "status": "inProgress"})
}

#[test]
fn commands_show_themselves_and_where_they_run() {
    let mut talk = TurnDriver::new();
    let ask = json!({"itemId": "c1", "command": "/bin/bash -lc 'git push'", "cwd": "/workspace/x",
        "reason": "to share it"});
    let asked = talk.request_approval(COMMAND, &ask);
    assert_eq!(asked.subject.as_deref(), Some("git push"));
    assert_eq!(asked.access.command, Some(CommandAccess::shell("git push")));
    assert_eq!(asked.access.cwd, Some("/workspace/x".into()));
    assert_eq!(&*asked.title, "git push");
    assert_eq!(&*asked.detail, "git push\nin /workspace/x\nasked because: to share it");

    let mut talk = TurnDriver::new();
    talk.item(
        "started",
        &json!({"type": "commandExecution", "id": "c1",
        "command": "/bin/bash -lc 'make'", "cwd": "/elsewhere"}),
    );
    let asked = talk.request_approval(COMMAND, &json!({"itemId": "c1"}));
    assert_eq!(&*asked.detail, "make\nin /elsewhere", "what the item told");
    assert_eq!(asked.tool_id, Some(ToolId::new("c1")));

    let mut talk = TurnDriver::new();
    let asked = talk.request_approval(COMMAND, &json!({"command": "ls", "cwd": ""}));
    assert_eq!(&*asked.detail, "ls\nin /workspace", "never without a directory");
    for nothing in [json!({"cwd": "/w"}), json!({"command": " ", "cwd": "/w"})] {
        let answer = TurnDriver::new().request(0, COMMAND, &nothing);
        assert_eq!(
            immediate_result(&answer),
            json!({"decision": "decline"}),
            "never without a command"
        );
    }
}

#[test]
fn input_and_addresses_are_not_mistaken_for_the_command() {
    let mut talk = TurnDriver::new();
    let ask = json!({"kind": "writeStdin", "command": "ls", "cwd": "/w"});
    let asked = talk.request_approval(COMMAND, &ask);
    assert_eq!(&*asked.tool_name, "write_stdin");
    assert_ne!(asked.subject.as_deref(), Some("ls"));

    let mut talk = TurnDriver::new();
    let ask = json!({"command": "ls", "cwd": "/w",
        "networkApprovalContext": {"host": "example.org", "protocol": "https"}});
    let asked = talk.request_approval(COMMAND, &ask);
    assert_eq!(&*asked.tool_name, "network");
    assert_eq!(asked.subject.as_deref(), Some("example.org"));
    assert!(asked.detail.contains("example.org (https)"));
}

#[test]
fn every_verdict_has_its_word() {
    let words = [
        (Verdict::Once, "accept"),
        (Verdict::Session, "accept"),
        (Verdict::Always, "accept"),
        (Verdict::Deny, "decline"),
        (Verdict::Stop, "cancel"),
    ];
    for (verdict, word) in words {
        let mut talk = TurnDriver::new();
        talk.request_approval(COMMAND, &json!({"command": "ls", "cwd": "/w"}));
        let (answer, reply) = talk.decide(verdict);
        assert_eq!(answer, json!({"decision": word}));
        assert!(!reply.then_interrupt, "the word does it");
        let told = (verdict == Verdict::Deny).then(|| "not like this".into());
        assert_eq!(reply.then_steer, told);
    }
}

#[test]
fn patches_are_shown_as_counts_and_paths() {
    let mut talk = TurnDriver::new();
    talk.item("started", &patch(&["/workspace/a", "/workspace/b"]));
    let asked = talk.request_approval(PATCH, &json!({"itemId": "p1", "reason": "why not"}));
    assert_eq!(&*asked.title, "change 2 files: /workspace/a, /workspace/b");
    assert_eq!(
        &*asked.detail,
        "2 files, +4 −0 lines\nadd /workspace/a (+2 −0)\nadd /workspace/b (+2 −0)\n\
         in /workspace\nasked because: why not"
    );
    assert!(asked.input.get().contains("\"diff\""));
    let newer = json!({"itemId": "p1", "changes": [{"path": "/workspace/c"}]});
    let mut talk = TurnDriver::new();
    talk.item("started", &patch(&["/workspace/a"]));
    talk.notify("item/fileChange/patchUpdated", &newer);
    let asked = talk.request_approval(PATCH, &json!({"itemId": "p1"}));
    assert_eq!(asked.subject.as_deref(), Some("/workspace/c"));
}

#[test]
fn a_patch_that_nobody_has_seen_is_declined() {
    let mut talk = TurnDriver::new();
    let answer = talk.request(0, PATCH, &json!({"itemId": "p1"}));
    assert_eq!(immediate_result(&answer), json!({"decision": "decline"}));
}

#[test]
fn a_patch_writes_all_its_paths_also_those_it_moves_to() {
    let mut talk = TurnDriver::new();
    let mut item = patch(&["/workspace/a", "../b"]);
    item["changes"][1]["kind"] = json!({"type": "update", "move_path": "/etc/c"});
    talk.item("started", &item);
    let root = json!({"itemId": "p1", "grantRoot": "/srv"});
    let asked = talk.request_approval(PATCH, &root);
    let expected = ["/workspace/a", "../b", "/etc/c", "/srv"].map(std::path::PathBuf::from);
    assert_eq!(asked.access.writes, expected);
    assert_eq!(asked.subject, None, "no rule about one path allows them all");
}

#[test]
fn permissions_are_granted_whole_or_not_at_all() {
    let wanted = json!({"network": {"enabled": true}, "fileSystem": {"read": null,
        "write": ["/x"], "entries": [{"path": {"type": "path", "path": "/x"}, "access": "write"}]}});
    let cases = [
        (Verdict::Once, json!({"permissions": wanted, "scope": "turn"}), false),
        (Verdict::Session, json!({"permissions": wanted, "scope": "turn"}), false),
        (Verdict::Deny, json!({"permissions": {}, "scope": "turn"}), false),
        (Verdict::Stop, json!({"permissions": {}, "scope": "turn"}), true),
    ];
    for (verdict, expected, interrupts) in cases {
        let mut talk = TurnDriver::new();
        let ask = json!({"itemId": "r", "cwd": "/w", "reason": "net", "permissions": wanted});
        let asked = talk.request_approval(PERMISSIONS, &ask);
        assert!(asked.detail.contains("network\nwrite /x"), "{}", asked.detail);
        let subject = asked.subject.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&subject).unwrap(), wanted, "exactly these");
        let (answer, reply) = talk.decide(verdict);
        assert_eq!((answer, reply.then_interrupt), (expected, interrupts));
    }
    let answer = TurnDriver::new().request(0, PERMISSIONS, &json!({"itemId": "r"}));
    assert_eq!(immediate_result(&answer), json!({"permissions": {}, "scope": "turn"}));
}

#[test]
fn callers_tools_wait_for_their_results() {
    let item = json!({"type": "dynamicToolCall", "id": "d1", "tool": "look", "arguments": {}});
    let call = json!({"callId": "d1", "tool": "look", "arguments": {"id": 1}});
    let id = ToolId::new("d1");
    let content = [Content::text("open")];
    let expected =
        json!({"contentItems": [{"type": "inputText", "text": "open"}], "success": true});

    let mut talk = TurnDriver::new();
    talk.item("started", &item);
    let answer = talk.request(0, TOOL, &call);
    assert!(matches!(&answer, RequestOutcome::CallerTool(tool) if *tool == id), "{answer:?}");
    let reply = talk.translator.on_tool_result(&id, true, &content).unwrap();
    assert_eq!(serde_json::from_str::<Value>(reply.result.get()).unwrap(), expected);
    assert!(talk.translator.on_tool_result(&id, true, &content).is_none());

    let mut early = TurnDriver::new();
    early.item("started", &item);
    assert!(early.translator.on_tool_result(&id, true, &content).is_none(), "not asked yet");
    assert_eq!(immediate_result(&early.request(0, TOOL, &call)), expected);

    let mut reordered = TurnDriver::new();
    reordered.request(0, TOOL, &call);
    reordered.item("started", &item);
    let starts = reordered.formatted();
    let starts = starts.iter().filter(|line| line.starts_with("tool.started"));
    assert_eq!(starts.count(), 1);
    assert!(reordered.translator.on_tool_result(&id, false, &[]).is_some());
}

#[test]
fn nobody_decides_so_it_is_declined() {
    let declined = [
        (COMMAND, json!({"decision": "decline"})),
        (PATCH, json!({"decision": "decline"})),
        (PERMISSIONS, json!({"permissions": {}, "scope": "turn"})),
        (INPUT, json!({"answers": {}})),
        (ELICITATION, json!({"action": "decline", "content": null})),
    ];
    let ask = json!({"command": "ls", "cwd": "/w", "permissions": {}, "serverName": "lab",
        "message": "m", "questions": [{"id": "a", "question": "b"}]});
    for (method, expected) in &declined {
        let mut between = TurnDriver::new();
        between.notify("turn/completed", &json!({"turn": {"id": "turn-1", "status": "completed"}}));
        assert_eq!(immediate_result(&between.request(0, method, &ask)), *expected, "{method}");

        let mut elsewhere = TurnDriver::new();
        let mut other = ask.clone();
        other["threadId"] = "stranger".into();
        assert_eq!(immediate_result(&elsewhere.request(0, method, &other)), *expected, "{method}");

        let mut model = TurnDriver::with(CodexContext { mode: Mode::Model, ..context("T") });
        model.item("started", &patch(&["/workspace/a"]));
        assert_eq!(immediate_result(&model.request(0, method, &ask)), *expected, "{method}");
        assert!(model.translator.pending_approvals().next().is_none());
    }
}

#[test]
fn what_we_never_heard_of_is_refused() {
    for method in [
        "applyPatchApproval",
        "execCommandApproval",
        "account/chatgptAuthTokens/refresh",
        "attestation/generate",
        "brand/new",
    ] {
        let mut talk = TurnDriver::new();
        let answer = talk.request(0, method, &json!({}));
        let RequestOutcome::Error(error) = answer else {
            unreachable!("{answer:?}");
        };
        assert_eq!(error.code, -32601);
        assert!(talk.formatted()[0].starts_with("native "), "and kept");
    }
}

#[test]
fn questions_end_with_their_turn_or_when_the_server_says_so() {
    let mut talk = TurnDriver::new();
    talk.request_approval(COMMAND, &json!({"command": "ls", "cwd": "/w"}));
    talk.notify("serverRequest/resolved", &json!({"requestId": 0}));
    assert!(talk.formatted().contains(&"withdraw 0".to_owned()));
    assert!(talk.translator.decide("0", &Decision::new(Verdict::Once, "owner")).is_none());

    talk.request_approval(COMMAND, &json!({"command": "ls", "cwd": "/w"}));
    let twice = talk.request(0, COMMAND, &json!({"command": "rm", "cwd": "/w"}));
    assert_eq!(immediate_result(&twice), json!({"decision": "decline"}), "one name, two questions");
    assert!(talk.formatted().contains(&"withdraw 0".to_owned()));

    talk.request_approval(COMMAND, &json!({"command": "ls", "cwd": "/w"}));
    talk.notify("turn/completed", &json!({"turn": {"id": "turn-1", "status": "interrupted"}}));
    assert!(talk.formatted().contains(&"withdraw 0".to_owned()));
}
