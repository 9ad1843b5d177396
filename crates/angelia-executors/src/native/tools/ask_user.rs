//! `ask_user`: asks the person a question. The loop sends it as an approval of the question kind.

use std::sync::Arc;

use angelia_core::model::{Question, QuestionAnswer, QuestionOption};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::tool::{CallError, parse_arguments};

pub const NAME: &str = "ask_user";

pub const DESCRIPTION: &str =
    "Ask the person one question, if you cannot decide and a wrong guess would cost much.";

pub const SCHEMA: &str = r#"{"type":"object","properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"}}},"required":["question"]}"#;

#[derive(Deserialize)]
struct AskArguments {
    question: Arc<str>,
    #[serde(default)]
    options: Vec<Arc<str>>,
}

/// Reads the arguments of a call.
pub fn parse_question(arguments: &RawValue) -> Result<Question, CallError> {
    let wanted: AskArguments = parse_arguments(arguments)?;
    if wanted.question.trim().is_empty() {
        return Err(CallError::new("the question is empty"));
    }
    let options = wanted.options.into_iter();
    let options = options.map(|label| QuestionOption { label, description: "".into() }).collect();
    Ok(Question { text: wanted.question, header: "".into(), options, multiple: false })
}

/// Formats the answers for the model.
pub fn answer_text(answers: &[QuestionAnswer]) -> String {
    match answers {
        [] => "the person gave no answer; decide yourself, and say what you assumed".to_owned(),
        [one] => one.answer.to_string(),
        several => {
            let lines = several.iter().map(|one| format!("{}: {}\n", one.question, one.answer));
            lines.collect()
        }
    }
}
