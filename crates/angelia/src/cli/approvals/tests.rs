//! Runs the commands against a daemon's frontend on a real socket.

use std::{path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Approval, ApprovalId, ApprovalKind, ApprovalRequest, Decision, EventKind, ExternalName,
        Question, QuestionOption, Verdict,
    },
    ports::{AgentEvent, Store, TurnControl},
};
use angelia_frontends::{http::NewSessionBody, turn_service::TurnService as _};
use angelia_testkit::{
    conformance::store::{event, plain_session, stored_turn},
    manual_executor::ManualTurn,
};
use clap::Parser as _;
use tokio::time::timeout;
use uuid::Uuid;

use super::{answers, decide, list, parse_decision};
use crate::{
    cli::{
        args::{ApprovalsCommand, Cli, Command, DecideCommand, ListArgs},
        error::Exit,
    },
    client::{
        DaemonClient,
        test_daemon::{DEADLINE, TestDaemon, approval_request, owners_turn},
    },
    records::Records,
    resolve,
};

const LIST: ListArgs = ListArgs { limit: 20, before: None, json: false };

/// Starts a turn that waits for a decision on this approval.
async fn start_asking_turn(
    stage: &TestDaemon,
    daemon: &DaemonClient,
    request: ApprovalRequest,
) -> (ManualTurn, ApprovalId) {
    let session = daemon.create_session(NewSessionBody::default(), false).await.unwrap();
    let (turn, _) = daemon.submit(&owners_turn(session.id, "paint it", true)).await.unwrap();
    let run = stage.control.next_turn().await;
    let mut events = daemon.events(turn.id, 0).await.unwrap();
    run.emit_started().await;
    run.emit(vec![AgentEvent::ApprovalRequest(request)]).await;
    loop {
        let batch = timeout(DEADLINE, events.next()).await.unwrap();
        for event in batch.unwrap().unwrap() {
            if let EventKind::Approval(approval) = event.kind {
                return (run, approval.id);
            }
        }
    }
}

async fn next_decision(run: &mut ManualTurn) -> Decision {
    let control = timeout(DEADLINE, run.io.control.recv()).await.unwrap();
    match control {
        Some(TurnControl::Decide { decision, .. }) => decision,
        other => panic!("{other:?}"),
    }
}

fn colours() -> ApprovalKind {
    let one = |text: &str, header: &str, multiple| Question {
        text: text.into(),
        header: header.into(),
        options: ["red", "blue"]
            .map(|label| QuestionOption { label: label.into(), description: "as described".into() })
            .into(),
        multiple,
    };
    ApprovalKind::Question(Arc::from([
        one("Which colour=tone?", "Colour", false),
        one("Trim?", "Trim", true),
    ]))
}

/// The owner's decision, as the command line makes it.
fn owner(verdict: Verdict) -> Decision {
    Decision::new(verdict, "owner")
}

fn parse_command<'a>(
    words: impl Iterator<Item = &'a str>,
) -> Result<ApprovalsCommand, clap::Error> {
    let parsed = Cli::try_parse_from(["angelia", "approvals"].into_iter().chain(words))?;
    match parsed.command {
        Command::Approvals(command) => Ok(command),
        other => panic!("{other:?}"),
    }
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

async fn list_text(stage: &TestDaemon, args: &ListArgs, all: bool) -> String {
    let [stored, served] = stage.records().await;
    let text = list(&stored, args, all, None).await.unwrap();
    assert_eq!(list(&served, args, all, None).await.unwrap(), text, "the daemon shows the same");
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn every_decision_reaches_the_agent() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let note = "wash the brush";
    let cases = [
        ("approve ID", owner(Verdict::Once), "approved: paint"),
        // The engine keeps the grant, so the agent gets `once`.
        ("approve ID --session --note", owner(Verdict::Once).with_note(note), "approved: paint"),
        ("deny ID --note", owner(Verdict::Deny).with_note(note), "denied: paint"),
        ("deny ID --stop", owner(Verdict::Stop), "denied: paint"),
    ];
    for (typed, expected, line) in cases {
        let (mut run, id) =
            start_asking_turn(&stage, &daemon, approval_request(ApprovalKind::Tool)).await;
        let id = id.to_string();
        let words = typed.split(' ').map(|word| if word == "ID" { &*id } else { word });
        let note = typed.ends_with("--note").then_some(note);
        let command = parse_command(words.chain(note)).unwrap();
        let ApprovalsCommand::Decide(command) = command else { panic!("{typed}") };
        let (id, decision, _) = parse_decision(command).unwrap();
        let id = id.parse().unwrap();
        let records = Records::Daemon(daemon.clone());
        let done = decide(&records, id, decision.clone(), &[]).await;
        assert_eq!(done.unwrap(), line);
        assert_eq!(next_decision(&mut run).await, expected);
        // A second decision is too late, and the error says who decided.
        let expected = format!("decided already: {} by owner", decision.verdict.as_str());
        let late = decide(&records, id, decision, &[]).await.unwrap_err();
        assert_eq!(late.exit, Exit::Failed);
        assert!(late.message.contains(&expected), "{late}");
        run.complete("done");
    }
    assert_eq!(list_text(&stage, &LIST, false).await, "");
    assert_eq!(list_text(&stage, &LIST, true).await.lines().count(), 5);
}

#[tokio::test]
async fn questions_are_answered_by_text_heading_or_number() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let cases = [
        (words(&["Which colour=tone?=gold", "Trim?=2"]), ["gold", "blue"]),
        (words(&["2= none ", "Colour=1"]), ["red", "none"]),
        (words(&["1=a=b", "Trim=1", "2=black", "2=2"]), ["a=b", "red, black, blue"]),
    ];
    for (typed, expected) in cases {
        let (mut run, id) = start_asking_turn(&stage, &daemon, approval_request(colours())).await;
        let records = Records::Daemon(daemon.clone());
        decide(&records, id, owner(Verdict::Once), &typed).await.unwrap();
        let mut answers = next_decision(&mut run).await.answers;
        answers.sort_by_key(|one| one.question.starts_with("Trim"));
        let questions: Vec<_> = answers.iter().map(|one| &*one.question).collect();
        assert_eq!(questions, ["Which colour=tone?", "Trim?"]);
        let answers: Vec<_> = answers.iter().map(|one| &*one.answer).collect();
        assert_eq!(answers, expected);
        run.complete("done");
    }
}

#[tokio::test]
async fn what_does_not_fit_the_question_is_not_sent() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let records = Records::Daemon(daemon.clone());
    let (mut run, id) = start_asking_turn(&stage, &daemon, approval_request(colours())).await;
    let (once, session) = (Verdict::Once, Verdict::Session);
    let cases = [
        (once, words(&[]), "no answer yet", "Which colour=tone?=…"),
        (once, words(&["1=red"]), "no answer yet", "Trim?=…"),
        (once, words(&["red"]), "none of the questions", "Trim?=…"),
        (once, words(&["1=", "2=x"]), "none of the questions", ""),
        (once, words(&["1=a", "1=b", "2=c"]), "takes one answer", ""),
        (session, words(&["1=a", "2=c"]), "answered once", "--session"),
    ];
    for (verdict, typed, message, hint) in cases {
        let error = decide(&records, id, owner(verdict), &typed).await.unwrap_err();
        assert_eq!(error.exit, Exit::Usage, "{error}");
        assert!(error.message.contains(message), "{error}");
        assert!(error.hint.unwrap().contains(hint));
    }
    // A refusal needs no answers.
    decide(&records, id, owner(Verdict::Deny), &[]).await.unwrap();
    assert_eq!(next_decision(&mut run).await.verdict, Verdict::Deny);
    run.complete("done");

    let (_run, id) = start_asking_turn(&stage, &daemon, approval_request(ApprovalKind::Tool)).await;
    let error = decide(&records, id, owner(Verdict::Once), &words(&["yes"])).await;
    assert_eq!(error.unwrap_err().exit, Exit::Usage);
}

#[test]
fn a_question_that_is_alone_needs_no_name() {
    let ApprovalKind::Question(questions) = colours() else {
        unreachable!();
    };
    let kind = ApprovalKind::Question(Arc::from([questions[0].clone()]));
    for (typed, answer) in [("2", "blue"), ("a=b", "a=b"), ("1=1", "red"), ("gold", "gold")] {
        let mut decision = owner(Verdict::Once);
        answers::add_to_decision(&mut decision, &words(&[typed]), &kind).unwrap();
        assert_eq!(&*decision.answers[0].answer, answer, "{typed}");
    }
}

/// Records what another process would have recorded: a turn that waits for an approval.
async fn record_foreign_approval(store: &dyn Store) -> ApprovalId {
    let (lease, turn) = stored_turn(store).await;
    let approval = Approval {
        id: ApprovalId::from_uuid(Uuid::now_v7()),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: "shell".into(),
        title: "rm \u{1b}[2J -rf".into(),
        detail: "in /project\nall\rof it".into(),
        diff: None,
        rules: Vec::new(),
        expires_at: jiff::Timestamp::UNIX_EPOCH,
    };
    let id = approval.id;
    let asked = vec![event(&turn, 1, EventKind::Approval(approval))];
    store.append(&lease, asked).await.unwrap().await.unwrap();
    id
}

#[tokio::test]
async fn what_no_daemon_runs_is_decided_where_it_runs() {
    let stage = TestDaemon::new();
    let id = record_foreign_approval(&*stage.store).await;
    for records in stage.records().await {
        let error = decide(&records, id, owner(Verdict::Once), &[]).await.unwrap_err();
        assert_eq!(error.exit, Exit::Failed);
        assert_eq!(error.message, "the turn does not run in a daemon");
        assert!(error.hint.unwrap().contains("the terminal where `angelia run`"));
    }
    let asking = stage.records().await[0].approval(id).await.unwrap().session_id;
    let quiet = plain_session();
    stage.store.create_session(&quiet).await.unwrap();
    for (name, session) in [("painting", asking), ("quiet", quiet.id)] {
        let scope = ExternalName::OWNER_SCOPE.into();
        let name = ExternalName { scope, name: name.into() };
        stage.store.bind_name(&name, session).await.unwrap();
    }
    for unknown in [Uuid::nil(), Uuid::max(), Uuid::now_v7()] {
        for records in stage.records().await {
            let error = records.approval(ApprovalId::from_uuid(unknown)).await;
            let error = error.unwrap_err();
            assert_eq!(error.exit, Exit::Failed);
            assert_eq!(error.message, "no such approval");
        }
    }
    for records in stage.records().await {
        let error = resolve::approval(&records, "yes").await.unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        let short = id.to_string();
        assert_eq!(resolve::approval(&records, &short[..30]).await.unwrap(), id);
        assert_eq!(resolve::approval(&records, "last").await.unwrap(), id);
        assert_eq!(resolve::approval(&records, "painting").await.unwrap(), id);
        let of_other = resolve::approval(&records, "quiet").await.unwrap_err();
        assert_eq!(of_other.message, "no approval waits for a decision");
    }
}

fn assert_starts_with_short_id(line: &str, id: &str) {
    let short = line.split_whitespace().next().unwrap();
    assert!(short.len() >= 8 && id.starts_with(short), "{line}");
}

#[tokio::test]
async fn lists_tell_what_is_to_be_decided() {
    let stage = TestDaemon::new();
    let daemon = stage.client().await;
    let first = record_foreign_approval(&*stage.store).await;
    let (mut run, second) = start_asking_turn(&stage, &daemon, approval_request(colours())).await;
    let text = list_text(&stage, &LIST, false).await;
    let mut lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.remove(0).split_whitespace().next(), Some("ID"));
    assert_starts_with_short_id(lines[0], &second.to_string());
    assert!(
        lines[0].contains("pending")
            && lines[0].split_whitespace().rev().take(2).eq(["paint", "brush"])
    );
    assert_eq!(
        lines[1..5],
        [
            "    1. Which colour=tone?",
            "       1. red  as described",
            "       2. blue  as described",
            "    2. Trim? (one or several)",
        ],
        "each question and option once"
    );
    assert!(lines[7].starts_with("    profile "), "{text}");
    assert!(lines[8].starts_with("    turn ") && lines[8].contains("declined at"));
    // Text written by an agent does not move the cursor.
    assert_starts_with_short_id(lines[9], &first.to_string());
    assert!(lines[9].ends_with("rm  [2J -rf"), "{text}");
    assert_eq!(lines[10..12], ["    in /project", "    all of it"]);
    assert!(!text.contains(['\u{1b}', '\r']));

    let records = Records::Daemon(daemon.clone());
    decide(&records, second, owner(Verdict::Deny), &[]).await.unwrap();
    next_decision(&mut run).await;
    let pending = list_text(&stage, &LIST, false).await;
    assert!(!pending.contains("paint"), "{pending}");
    let all = list_text(&stage, &LIST, true).await;
    assert!(all.contains("deny by owner"), "{all}");

    let json = ListArgs { limit: 1, before: None, json: true };
    let json = list_text(&stage, &json, true).await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["id"], second.to_string());
    assert_eq!(json["kind"], "question");
    assert_eq!(json["tool"], "brush");
    assert_eq!(json["choices"], serde_json::json!(["once", "deny", "stop"]));
    assert_eq!(json["questions"][1]["multiple"], true);
    assert_eq!(json["decided"]["by"], "owner");
}

/// Relays bytes to the daemon from a process that an agent has started.
#[expect(
    clippy::disallowed_methods,
    reason = "the other end of the socket must be another process"
)]
fn relay(from: &Path, to: &Path) -> tokio::process::Child {
    const RELAY: &str = "
import os, socket, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ['FROM'])
listener.listen()
def copy(a, b):
    while piece := a.recv(65536):
        b.sendall(piece)
    b.shutdown(socket.SHUT_WR)
while True:
    near, _ = listener.accept()
    far = socket.socket(socket.AF_UNIX)
    far.connect(os.environ['TO'])
    for ends in [(near, far), (far, near)]:
        threading.Thread(target=copy, args=ends, daemon=True).start()
";
    tokio::process::Command::new("python3")
        .args(["-c", RELAY])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("ANGELIA_AGENT", "home:owner:agent")
        .env("FROM", from)
        .env("TO", to)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_agent_cannot_approve_what_it_asks_for() {
    let stage = TestDaemon::new();
    let client = stage.client().await;
    let (mut run, id) =
        start_asking_turn(&stage, &client, approval_request(ApprovalKind::Tool)).await;
    let socket = stage.folder.path().join("relay.sock");
    let _relay = relay(&socket, &stage.socket());
    let connected = async {
        loop {
            if let Some(daemon) = DaemonClient::connect(&socket).await {
                return daemon;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let agent = timeout(DEADLINE, connected).await.unwrap();
    let agent = Records::Daemon(agent);
    for verdict in [Verdict::Once, Verdict::Deny] {
        let refused = decide(&agent, id, owner(verdict), &[]).await.unwrap_err();
        assert_eq!(refused.exit, Exit::Failed);
        assert_eq!(refused.message, "an agent's process cannot do this");
        let hint = refused.hint.unwrap();
        assert!(hint.contains("a terminal that no agent has started"), "{hint}");
    }
    // The approval still waits for the owner.
    decide(&Records::Daemon(client), id, owner(Verdict::Once), &[]).await.unwrap();
    assert_eq!(next_decision(&mut run).await.verdict, Verdict::Once);
    run.complete("done");
}

#[test]
fn the_command_line_is_understood() {
    let parsed = |line: &str| parse_command(line.split(' '));
    let ApprovalsCommand::Decide(DecideCommand::Approve { id, answers, .. }) =
        parsed("approve ID --session --note n --answer a=b --answer c").unwrap()
    else {
        panic!("approve");
    };
    assert_eq!((id.as_str(), answers), ("ID", words(&["a=b", "c"])));
    for good in ["list", "list --all --json -n 5", "deny ID --stop --note no", "approve ID"] {
        assert!(parsed(good).is_ok(), "{good}");
    }
    for bad in ["approve", "deny", "approve ID --stop", "deny ID --answer a", "allow ID"] {
        assert!(parsed(bad).is_err(), "{bad}");
    }
}
