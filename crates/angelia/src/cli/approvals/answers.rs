//! Matches the answers on the command line to the questions of an approval.

use std::sync::Arc;

use angelia_core::model::{ApprovalKind, Decision, Question, QuestionAnswer};

use crate::cli::error::CommandError;

/// Adds the `--answer` values to the decision. Returns a usage error if the verdict or the answers
/// do not fit the approval.
pub(super) fn add_to_decision(
    decision: &mut Decision,
    typed: &[String],
    kind: &ApprovalKind,
) -> Result<(), CommandError> {
    if !kind.choices().contains(&decision.verdict) {
        return Err(
            CommandError::usage("a question is answered once").with_hint("leave --session out")
        );
    }
    match kind {
        ApprovalKind::Tool if !typed.is_empty() => {
            return Err(CommandError::usage("this approval asks no question")
                .with_hint("leave --answer out; `--note` tells the agent something"));
        }
        ApprovalKind::Question(questions) if decision.verdict.allows() => {
            decision.answers = match_answers(questions, typed)?;
        }
        ApprovalKind::Tool | ApprovalKind::Question(_) => {}
    }
    Ok(())
}

/// Matches the `--answer` values to the questions, in any order. Every question needs an answer.
fn match_answers(
    questions: &[Question],
    typed: &[String],
) -> Result<Vec<QuestionAnswer>, CommandError> {
    let mut given: Vec<Vec<Arc<str>>> = vec![Vec::new(); questions.len()];
    for text in typed {
        let (index, answer) = find_question(questions, text).ok_or_else(|| {
            CommandError::usage(format!("`{text}` answers none of the questions"))
                .with_hint(format!("answer with {}", answer_forms(questions.iter())))
        })?;
        given[index].push(resolve_option(&questions[index], answer));
    }
    let missing: Vec<_> = questions
        .iter()
        .zip(&given)
        .filter(|(_, given)| given.is_empty())
        .map(|(question, _)| question)
        .collect();
    if !missing.is_empty() {
        let hint = format!("add {}", answer_forms(missing.into_iter()));
        return Err(CommandError::usage("a question has no answer yet").with_hint(hint));
    }
    let pairs = questions.iter().zip(given);
    pairs
        .map(|(question, given)| {
            if given.len() > 1 && !question.multiple {
                let message = format!("`{}` takes one answer", question.text);
                return Err(CommandError::usage(message).with_hint("leave all but one out"));
            }
            Ok(QuestionAnswer { question: question.text.clone(), answer: given.join(", ").into() })
        })
        .collect()
}

/// Finds the question that `QUESTION=ANSWER` names by its text, heading or number. Returns its
/// index and the answer. A single question needs no name.
fn find_question<'a>(questions: &[Question], typed: &'a str) -> Option<(usize, &'a str)> {
    let by = |name: &dyn Fn(usize, &Question) -> String| {
        // A question's text may itself contain `=`, so names are matched as prefixes instead of
        // splitting at the first `=`.
        let mut numbered = questions.iter().enumerate();
        numbered.find_map(|(index, question)| {
            let name = name(index, question);
            let answer = typed.strip_prefix(name.as_str())?.strip_prefix('=')?;
            (!name.is_empty()).then_some((index, answer))
        })
    };
    by(&|_, question| question.text.to_string())
        .or_else(|| by(&|_, question| question.header.to_string()))
        .or_else(|| by(&|index, _| (index + 1).to_string()))
        .or_else(|| (questions.len() == 1).then_some((0, typed)))
        .map(|(index, answer)| (index, answer.trim()))
        .filter(|(_, answer)| !answer.is_empty())
}

/// Returns the label of the option with this number, or the answer itself.
pub(crate) fn resolve_option(question: &Question, answer: &str) -> Arc<str> {
    let number = answer.parse::<usize>().ok();
    let option = number.and_then(|number| question.options.get(number.checked_sub(1)?));
    option.map_or_else(|| answer.into(), |option| option.label.clone())
}

fn answer_forms<'a>(questions: impl Iterator<Item = &'a Question>) -> String {
    let forms: Vec<_> =
        questions.map(|question| format!("--answer '{}=…'", question.text)).collect();
    forms.join(" ")
}
