//! Asks the agent's questions as one form, for editors that support forms.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    EnumOption, MultiSelectPropertySchema, StringPropertySchema,
};
use angelia_core::model::{Approval, Decision, Question, QuestionAnswer, ToolId, Verdict};

use super::{connection, permission::DECIDED_BY};

pub(super) const METHOD: &str = "elicitation/create";

pub(super) fn params(
    session: &str,
    approval: &Approval,
    questions: &[Question],
) -> CreateElicitationRequest {
    let tool = approval.tool_id.as_ref().map(ToolId::as_str);
    let scope = ElicitationSessionScope::new(session.to_owned())
        .tool_call_id(tool.map(|id| id.to_owned().into()));
    let mut schema = ElicitationSchema::new();
    for (at, question) in questions.iter().enumerate() {
        let options = question.options.iter().map(|option| {
            EnumOption::new(&*option.label, &*option.label)
                .description(Some(option.description.to_string()).filter(|text| !text.is_empty()))
        });
        let options: Vec<_> = options.collect();
        let title = question.text.to_string();
        let name = field_name(questions, at);
        schema = if question.multiple {
            let field = MultiSelectPropertySchema::titled(options).title(title);
            schema.property(name, field, true)
        } else {
            let field = StringPropertySchema::new().title(title);
            let field = field.one_of(Some(options).filter(|options| !options.is_empty()));
            schema.property(name, field, true)
        };
    }
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), &*approval.title)
}

/// Returns the field name of a question: its header if that is unique, or else its number.
fn field_name(questions: &[Question], at: usize) -> String {
    let header = questions.get(at).map(|question| &question.header);
    let alike = questions.iter().filter(|one| Some(&one.header) == header);
    match header {
        Some(header) if !header.is_empty() && alike.count() == 1 => header.to_string(),
        _ => format!("question-{}", at + 1),
    }
}

pub(super) fn parse_decision(
    answer: connection::EditorResponse,
    questions: &[Question],
) -> Decision {
    let refused = |why: String| Decision::new(Verdict::Deny, "nobody").with_note(why);
    let answer = match answer {
        Ok(answer) => serde_json::from_str::<CreateElicitationResponse>(answer.get()),
        Err(why) => return refused(why),
    };
    let content = match answer.map(|answer| answer.action) {
        Ok(ElicitationAction::Accept(accepted)) => accepted.content.unwrap_or_default(),
        Ok(ElicitationAction::Cancel) => return Decision::new(Verdict::Stop, DECIDED_BY),
        Ok(_) => return Decision::new(Verdict::Deny, DECIDED_BY),
        Err(error) => return refused(format!("the editor's answer is invalid: {error}")),
    };
    let mut decision = Decision::new(Verdict::Once, DECIDED_BY);
    for (at, question) in questions.iter().enumerate() {
        let Some(value) = content.get(&field_name(questions, at)).and_then(value_text) else {
            return Decision::new(Verdict::Deny, DECIDED_BY)
                .with_note("not every question was answered");
        };
        decision
            .answers
            .push(QuestionAnswer { question: Arc::clone(&question.text), answer: value.into() });
    }
    decision
}

fn value_text(value: &ElicitationContentValue) -> Option<String> {
    match value {
        ElicitationContentValue::String(text) => Some(text.clone()),
        ElicitationContentValue::StringArray(texts) => Some(texts.join(", ")),
        ElicitationContentValue::Integer(number) => Some(number.to_string()),
        ElicitationContentValue::Number(number) => Some(number.to_string()),
        ElicitationContentValue::Boolean(yes) => Some(yes.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn question(header: &str, multiple: bool) -> Question {
        Question { text: "What?".into(), header: header.into(), options: Vec::new(), multiple }
    }

    fn decide(answer: &serde_json::Value, questions: &[Question]) -> Decision {
        parse_decision(Ok(to_raw_value(answer).unwrap()), questions)
    }

    #[test]
    fn answers_are_found_by_heading_or_number() {
        let questions = [question("Colour", false), question("", false), question("Many", true)];
        let answer = json!({"action": "accept",
            "content": {"Colour": "red", "question-2": "yes", "Many": ["a", "b"]}});
        let decision = decide(&answer, &questions);
        let answers: Vec<_> = decision.answers.iter().map(|one| &*one.answer).collect();
        assert_eq!(answers, ["red", "yes", "a, b"]);
        assert_eq!(decision.verdict, Verdict::Once);
    }

    #[test]
    fn half_a_form_answers_nothing() {
        let questions = [question("A", false), question("B", false)];
        let half = json!({"action": "accept", "content": {"A": "x"}});
        assert_eq!(decide(&half, &questions).verdict, Verdict::Deny);
        assert_eq!(decide(&json!({"action": "decline"}), &questions).verdict, Verdict::Deny);
        assert_eq!(decide(&json!({"action": "cancel"}), &questions).verdict, Verdict::Stop);
        assert_eq!(decide(&json!(7), &questions).verdict, Verdict::Deny);
    }
}
