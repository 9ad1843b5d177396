//! Turns the arguments of `approvals approve` and `approvals deny` into a decision that fits the
//! approval.

use angelia_core::model::{ApprovalKind, Decision, Question, QuestionAnswer, Verdict};

use crate::cli::error::CommandError;

/// The decision as given on the command line, before it is checked against the approval.
#[derive(Debug)]
pub(super) struct DecisionArgs {
    verdict: Verdict,
    note: Option<String>,
    answers: Vec<String>,
}

impl DecisionArgs {
    pub(super) fn allow(session: bool, note: Option<String>, answers: Vec<String>) -> Self {
        let verdict = if session { Verdict::Session } else { Verdict::Once };
        Self { verdict, note, answers }
    }

    pub(super) fn refuse(stop: bool, note: Option<String>) -> Self {
        let verdict = if stop { Verdict::Stop } else { Verdict::Deny };
        Self { verdict, note, answers: Vec::new() }
    }

    /// Returns the decision, or a usage error if the arguments do not fit the approval.
    pub(super) fn to_decision(&self, kind: &ApprovalKind) -> Result<Decision, CommandError> {
        if !kind.choices().contains(&self.verdict) {
            return Err(
                CommandError::usage("a question is answered once").with_hint("leave --session out")
            );
        }
        let mut decision = Decision::new(self.verdict, "owner");
        decision.note = self.note.as_deref().map(Into::into);
        match kind {
            ApprovalKind::Tool if !self.answers.is_empty() => {
                return Err(CommandError::usage("this approval asks no question")
                    .with_hint("leave --answer out; `--note` tells the agent something"));
            }
            ApprovalKind::Question(questions) if self.verdict.allows() => {
                decision.answers = match_answers(questions, &self.answers)?;
            }
            ApprovalKind::Tool | ApprovalKind::Question(_) => {}
        }
        Ok(decision)
    }
}

/// Assigns the `--answer` values to the questions, in whichever order they were given. Every
/// question needs an answer.
fn match_answers(
    questions: &[Question],
    typed: &[String],
) -> Result<Vec<QuestionAnswer>, CommandError> {
    let mut given: Vec<Vec<String>> = vec![Vec::new(); questions.len()];
    for typed in typed {
        let (index, answer) = find_question(questions, typed).ok_or_else(|| {
            CommandError::usage(format!("`{typed}` answers none of the questions"))
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

/// Finds the question that `QUESTION=ANSWER` names, by its text, its heading or its number, and
/// returns its index and the answer. A single question needs no name.
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

/// Returns the label of the option with this number, else the answer itself; the terminal prompt
/// works the same way.
fn resolve_option(question: &Question, answer: &str) -> String {
    let number = answer.parse::<usize>().ok();
    let option = number.and_then(|number| question.options.get(number.checked_sub(1)?));
    option.map_or_else(|| answer.to_owned(), |option| option.label.to_string())
}

fn answer_forms<'a>(questions: impl Iterator<Item = &'a Question>) -> String {
    let forms: Vec<_> =
        questions.map(|question| format!("--answer '{}=…'", question.text)).collect();
    forms.join(" ")
}
