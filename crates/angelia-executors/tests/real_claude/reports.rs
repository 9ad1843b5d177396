//! Every call is reported before the program's own rules, also a call that those allow.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use angelia_core::{
    model::{CommandAccess, Decision, TurnStatus, Verdict},
    ports::{AgentEvent, TurnControl},
};
use serde_json::json;

use crate::harness::{ClaudeHarness, bash, call, on_both};

fn write(lab: &ClaudeHarness, name: &str) -> String {
    let path = lab.place.work_dir().join(name);
    call("Write", &json!({"file_path": path, "content": "x"}))
}

#[tokio::test]
async fn real_a_call_that_the_program_allows_is_reported_with_what_it_touches() {
    on_both(async |lab| {
        let file = lab.place.work_dir().join("a.txt");
        fs::write(&file, "x").unwrap();
        let mut session = lab.open(&lab.spec()).await;
        let read = call("Read", &json!({"file_path": file}));
        let heard = session.prompt(&read).await;
        assert!(heard.approval_requests().is_empty(), "allowed by the program: {heard:#?}");
        let reports = heard.reports();
        assert_eq!(reports.len(), 1, "{heard:#?}");
        assert_eq!(reports[0].access.reads, std::slice::from_ref(&file));
        assert_eq!(reports[0].tool_id.as_ref(), Some(&heard.tool_calls()[0].id));

        let heard = session.prompt(&bash("ls")).await;
        assert!(heard.approval_requests().is_empty(), "allowed by the program: {heard:#?}");
        let access = &heard.reports()[0].access;
        assert_eq!(access.command, Some(CommandAccess::shell("ls")));
        let cwd = access.cwd.as_ref().unwrap().canonicalize().unwrap();
        assert_eq!(cwd, lab.place.work_dir().canonicalize().unwrap());

        let agent = json!({"description": "d", "subagent_type": "general-purpose",
            "run_in_background": false, "prompt": read});
        let heard = session.prompt(&call("Agent", &agent)).await;
        let tools: Vec<&str> = heard.reports().iter().map(|one| &*one.tool_name).collect();
        assert_eq!(tools, ["Agent", "Read"], "a sub-agent's call too: {heard:#?}");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_reported_call_can_be_refused() {
    on_both(async |lab| {
        let secret = lab.place.work_dir().join("token");
        fs::write(&secret, "SECRET-OF-THE-HOME").unwrap();
        let mut session = lab.open(&lab.spec()).await;
        session.watch_reports(|report, hands| {
            let decision = Decision::new(Verdict::Deny, "rule").with_note("not that file");
            let key = Arc::clone(&report.key);
            hands.send_control(TurnControl::Decide { key, decision });
        });
        let read = call("Read", &json!({"file_path": secret}));
        for prompt in [read, bash("cat token")] {
            let heard = session.prompt(&prompt).await;
            heard.answer();
            let result = heard.tool_results()[0];
            assert!(!result.ok && result.output.contains("not that file"), "{result:#?}");
            assert!(!lab.last_request().to_string().contains("SECRET-OF-THE-HOME"));
        }
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_call_is_asked_about_once() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        // A write into `.git` needs a permission even after the hook has allowed it.
        let hook = write(&lab, ".git/hooks/pre-commit");
        let heard = session
            .prompt_watched(&hook, |emitted, hands| {
                if let AgentEvent::ApprovalRequest(request) = emitted {
                    let objection = request.access.vendor_objection.as_deref();
                    assert!(
                        objection.is_some_and(|text| text.contains("sensitive")),
                        "{request:#?}"
                    );
                    hands.decide(request, Verdict::Deny);
                }
            })
            .await;
        assert_eq!((heard.reports().len(), heard.approval_requests().len()), (1, 1));
        let plain = write(&lab, "plain.txt");
        let heard = session
            .prompt_watched(&plain, |emitted, hands| {
                if let AgentEvent::ApprovalRequest(request) = emitted {
                    assert_eq!(request.access.vendor_objection, None);
                    hands.decide(request, Verdict::Once);
                }
            })
            .await;
        assert_eq!(heard.approval_requests().len(), 1, "{heard:#?}");

        session.watch_reports(|report, hands| hands.decide(report, Verdict::Once));
        let heard = session.prompt(&hook).await;
        heard.answer();
        assert_eq!((heard.reports().len(), heard.approval_requests().len()), (1, 0), "{heard:#?}");
        assert!(lab.place.work_dir().join(".git/hooks/pre-commit").exists());
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_a_report_waits_for_a_person_and_an_interrupt_withdraws_it() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        session.watch_reports(|_, hands| hands.cancel.cancel());
        let heard = session.prompt(&bash("touch never")).await;
        assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
        let withdrawn = |one: &AgentEvent| matches!(one, AgentEvent::ApprovalWithdrawn(_));
        assert!(heard.agent_events.iter().any(withdrawn), "{heard:#?}");

        session.watch_reports(|report, hands| hands.decide(report, Verdict::Stop));
        let heard = session.prompt(&bash("touch never")).await;
        assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");

        session.watch_reports(|report, hands| hands.proceed(report));
        assert!(session.prompt(&bash("ls")).await.tool_results()[0].ok);
        assert!(!lab.place.work_dir().join("never").exists());
        session.close().await;
    })
    .await;
}

/// The time that a report takes, seen from here: from the call to its result, with and without.
#[tokio::test]
async fn real_a_report_costs_little_time() {
    on_both(async |lab| {
        let file = lab.place.work_dir().join("a.txt");
        fs::write(&file, "x").unwrap();
        let mut session = lab.open(&lab.spec()).await;
        let reported_at = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&reported_at);
        session.watch_reports(move |report, hands| {
            times.lock().unwrap().push(Instant::now());
            hands.proceed(report);
        });
        let mut spent = Vec::new();
        for _ in 0..5 {
            let results = Arc::new(Mutex::new(None));
            let seen = Arc::clone(&results);
            let read = call("Read", &json!({"file_path": file}));
            session
                .prompt_watched(&read, move |emitted, _| {
                    if let AgentEvent::Event(angelia_core::model::EventKind::ToolResult(_)) =
                        emitted
                    {
                        seen.lock().unwrap().get_or_insert_with(Instant::now);
                    }
                })
                .await
                .answer();
            let reported = reported_at.lock().unwrap().pop().unwrap();
            spent.push(results.lock().unwrap().unwrap() - reported);
        }
        spent.sort();
        eprintln!("from the report to the result of a Read: {spent:?}");
        assert!(spent[2] < Duration::from_secs(1), "{spent:?}");
        session.close().await;
    })
    .await;
}
