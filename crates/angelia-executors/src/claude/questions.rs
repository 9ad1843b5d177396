//! The questions that the CLI's model asks the user.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Question, QuestionOption};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::protocol::incoming::{BorrowedStr, Lenient};

/// Parses the questions of a call. Returns `None` if there are none.
pub(super) fn parse_questions(input: &RawValue) -> Option<Vec<Question>> {
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
pub(super) fn format_questions(questions: &[Question]) -> String {
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
