//! Approval requests of the program, and the effect of every verdict.

use std::sync::Arc;

use angelia_core::{
    model::{ApprovalKind, Decision, QuestionAnswer, TurnStatus, Verdict},
    ports::{AgentEvent, TurnControl},
};
use angelia_testkit::direct_session::TurnOutput;
use serde_json::json;

use crate::harness::{DirectSession, bash, call, on_both};

async fn decide(session: &mut DirectSession, prompt: &str, verdict: Verdict) -> TurnOutput {
    session
        .prompt_watched(prompt, move |emitted, hands| {
            if let AgentEvent::ApprovalRequest(request) = emitted {
                hands.decide(request, verdict);
            }
        })
        .await
}

#[tokio::test]
async fn real_verdicts_do_what_they_say() {
    on_both(async |lab| {
        let work = lab.place.work_dir();
        let mut session = lab.open(&lab.spec()).await;
        let prompt = |name: &str| format!("{} ECHO:done", bash(&format!("mkdir {name}")));

        let heard = decide(&mut session, &prompt("a-once"), Verdict::Once).await;
        assert_eq!(heard.answer(), "done");
        let asked = heard.approval_requests();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].subject.as_deref(), Some("mkdir a-once"));
        assert_eq!(asked[0].tool_id.as_ref(), Some(&heard.tool_calls()[0].id));
        assert!(heard.tool_results()[0].ok);
        assert!(work.join("a-once").is_dir());

        let heard = decide(&mut session, &prompt("b-deny"), Verdict::Deny).await;
        assert_eq!(heard.answer(), "done", "the agent goes on without it");
        assert!(!heard.tool_results()[0].ok && !work.join("b-deny").exists());

        // The engine remembers; the program must ask again.
        let heard = decide(&mut session, &prompt("c-session"), Verdict::Session).await;
        assert_eq!(heard.answer(), "done");
        std::fs::remove_dir(work.join("c-session")).unwrap();
        let heard = decide(&mut session, &prompt("c-session"), Verdict::Deny).await;
        assert_eq!(heard.approval_requests().len(), 1);
        assert!(!work.join("c-session").is_dir());
        assert!(!work.join(".claude").exists(), "nothing is written into the project");

        let heard = decide(&mut session, &prompt("d-stop"), Verdict::Stop).await;
        assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
        assert!(!work.join("d-stop").exists());
        assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_an_interrupt_withdraws_the_question() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let heard = session
            .prompt_watched(&bash("mkdir never"), |emitted, hands| {
                if let AgentEvent::ApprovalRequest(_) = emitted {
                    hands.cancel.cancel();
                }
            })
            .await;
        assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
        let withdrawn =
            (heard.agent_events.iter()).any(|one| matches!(one, AgentEvent::ApprovalWithdrawn(_)));
        assert!(withdrawn, "{heard:#?}");
        assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn real_typed_answers_reach_the_model() {
    on_both(async |lab| {
        let mut session = lab.open(&lab.spec()).await;
        let question = json!({"questions": [{"question": "Which colour?", "header": "Colour",
            "multiSelect": false, "options": [
                {"label": "Red", "description": "like a rose"},
                {"label": "Blue", "description": "like the sea"}]}]});
        let heard = session
            .prompt_watched(&call("AskUserQuestion", &question), |emitted, hands| {
                if let AgentEvent::ApprovalRequest(request) = emitted {
                    let ApprovalKind::Question(questions) = &request.kind else {
                        panic!("not a question: {request:#?}");
                    };
                    assert_eq!(&*questions[0].options[1].label, "Blue");
                    let mut decision = Decision::new(Verdict::Once, "test");
                    decision.answers.push(QuestionAnswer {
                        question: Arc::clone(&questions[0].text),
                        answer: "Blue".into(),
                    });
                    let key = Arc::clone(&request.key);
                    hands.send_control(TurnControl::Decide { key, decision });
                }
            })
            .await;
        heard.answer();
        let result = &heard.tool_results()[0];
        assert!(result.ok && result.output.contains("Blue"), "{result:#?}");
        session.close().await;
    })
    .await;
}
