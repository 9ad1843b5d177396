//! Asks a person the agent's questions. An editor that supports forms shows one form; any other
//! gets one permission request per question, with the answers as its options.

use std::sync::Arc;

use angelia_core::model::{Answer, Approval, Decision, Question, Verdict};
use tokio_util::sync::CancellationToken;

use super::{
    asking::ask,
    connection::Connection,
    form,
    permission::{self, BY, Choice, Chose, Params, chose},
    shown::AskedTool,
};

const SKIP: &str = "skip";

/// Returns the decision with the answers. `None`: the questions were answered elsewhere.
pub(super) async fn answered(
    connection: &Arc<Connection>,
    session: &str,
    approval: &Approval,
    questions: &[Question],
    unwanted: &CancellationToken,
) -> Option<Decision> {
    if connection.client().forms {
        let params = form::params(session, approval, questions);
        let request = connection.request(form::METHOD, &params);
        let answer = ask(connection, request, unwanted).await?;
        return Some(form::decision(answer, questions));
    }
    choices(connection, session, approval, questions, unwanted).await
}

async fn choices(
    connection: &Arc<Connection>,
    session: &str,
    approval: &Approval,
    questions: &[Question],
    unwanted: &CancellationToken,
) -> Option<Decision> {
    let mut answers = Vec::new();
    for question in questions {
        let request = connection.request(permission::METHOD, &params(session, approval, question));
        let answer = ask(connection, request, unwanted).await?;
        let chosen = match chose(answer) {
            Chose::Option(id) => id.parse().ok().and_then(|at: usize| question.options.get(at)),
            Chose::Cancelled => return Some(Decision::new(Verdict::Stop, BY)),
            Chose::Nothing(why) => {
                return Some(Decision::new(Verdict::Deny, "nobody").with_note(why));
            }
        };
        let Some(chosen) = chosen else {
            return Some(Decision::new(Verdict::Deny, BY));
        };
        answers.push(Answer {
            question: Arc::clone(&question.text),
            answer: Arc::clone(&chosen.label),
        });
    }
    let mut decision = Decision::new(Verdict::Once, BY);
    decision.answers = answers;
    Some(decision)
}

fn params<'a>(session_id: &'a str, approval: &'a Approval, question: &'a Question) -> Params<'a> {
    let choice = |(at, name)| Choice { option_id: format!("{at}"), name, kind: "allow_once" };
    let labels = question.options.iter().map(|option| &*option.label);
    let mut options: Vec<_> = labels.enumerate().map(choice).collect();
    options.push(Choice { option_id: SKIP.to_owned(), name: "Skip", kind: "reject_once" });
    let lines = question.options.iter().map(|option| {
        let (label, about) = (&option.label, &option.description);
        format!("- {label}: {about}\n")
    });
    Params {
        session_id,
        tool_call: AskedTool::question(approval, &question.text, lines.collect()),
        options,
    }
}
