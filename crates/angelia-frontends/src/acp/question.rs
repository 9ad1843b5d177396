//! Asks a person the agent's questions. An editor that supports forms shows one form; any other
//! gets one permission request per question, with the answers as its options.

use std::sync::Arc;

use angelia_core::model::{Approval, Decision, Question, QuestionAnswer, Verdict};
use tokio_util::sync::CancellationToken;

use super::{
    client_requests::send_request,
    connection::EditorConnection,
    form,
    permission::{
        self, DECIDED_BY, PermissionOption, PermissionOutcome, PermissionParams, parse_outcome,
    },
    update_json::PermissionToolCall,
};

const SKIP_OPTION_ID: &str = "skip";

/// Returns the decision with the answers, or `None` if the questions were answered elsewhere.
pub(super) async fn ask_questions(
    connection: &Arc<EditorConnection>,
    session: &str,
    approval: &Approval,
    questions: &[Question],
    unwanted: &CancellationToken,
) -> Option<Decision> {
    if connection.capabilities().forms {
        let params = form::params(session, approval, questions);
        let request = connection.prepare_request(form::METHOD, &params);
        let answer = send_request(connection, request, unwanted).await?;
        return Some(form::parse_decision(answer, questions));
    }
    ask_one_by_one(connection, session, approval, questions, unwanted).await
}

async fn ask_one_by_one(
    connection: &Arc<EditorConnection>,
    session: &str,
    approval: &Approval,
    questions: &[Question],
    unwanted: &CancellationToken,
) -> Option<Decision> {
    let mut answers = Vec::new();
    for question in questions {
        let request = connection
            .prepare_request(permission::METHOD, &permission_params(session, approval, question));
        let answer = send_request(connection, request, unwanted).await?;
        let chosen = match parse_outcome(answer) {
            PermissionOutcome::Selected(id) => {
                id.parse().ok().and_then(|at: usize| question.options.get(at))
            }
            PermissionOutcome::Cancelled => return Some(Decision::new(Verdict::Stop, DECIDED_BY)),
            PermissionOutcome::NoAnswer(why) => {
                return Some(Decision::new(Verdict::Deny, "nobody").with_note(why));
            }
        };
        let Some(chosen) = chosen else {
            return Some(Decision::new(Verdict::Deny, DECIDED_BY));
        };
        answers.push(QuestionAnswer {
            question: Arc::clone(&question.text),
            answer: Arc::clone(&chosen.label),
        });
    }
    let mut decision = Decision::new(Verdict::Once, DECIDED_BY);
    decision.answers = answers;
    Some(decision)
}

fn permission_params<'a>(
    session_id: &'a str,
    approval: &'a Approval,
    question: &'a Question,
) -> PermissionParams<'a> {
    let choice = |(at, name): (usize, &'a str)| PermissionOption {
        option_id: format!("{at}"),
        name: name.into(),
        kind: "allow_once",
    };
    let labels = question.options.iter().map(|option| &*option.label);
    let mut options: Vec<_> = labels.enumerate().map(choice).collect();
    options.push(PermissionOption {
        option_id: SKIP_OPTION_ID.to_owned(),
        name: "Skip".into(),
        kind: "reject_once",
    });
    let lines = question.options.iter().map(|option| {
        let (label, about) = (&option.label, &option.description);
        format!("- {label}: {about}\n")
    });
    PermissionParams {
        session_id,
        tool_call: PermissionToolCall::for_question(approval, &question.text, lines.collect()),
        options,
    }
}
