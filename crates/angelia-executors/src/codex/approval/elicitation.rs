//! Requests from MCP servers that Codex passes on: forms, and approvals of tool calls.

use std::sync::Arc;

use angelia_core::model::{Question, QuestionAnswer, QuestionOption};
use serde_json::{Map, Value, value::RawValue};

use crate::codex::protocol::server_request::{
    ElicitationParams, FormProperty, FormSchema, TitledValue,
};

/// One field of a form.
#[derive(Debug)]
pub(crate) struct FormField {
    name: Box<str>,
    /// The text of the question made from the field.
    question: Arc<str>,
    kind: FieldKind,
    required: bool,
}

#[derive(Clone, Copy, Debug)]
enum FieldKind {
    Text,
    Number,
    Boolean,
    Several,
}

/// Returns the fields of a form, and a question for each. Both are empty if there are no fields.
pub(crate) fn parse_form(
    message: &str,
    schema: Option<&FormSchema<'_>>,
) -> (Vec<FormField>, Vec<Question>) {
    let properties = schema.and_then(|schema| schema.properties.0.as_ref());
    let required = schema.and_then(|schema| schema.required.0.as_ref());
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| **one == *name));
    let count = properties.map_or(0, std::collections::BTreeMap::len);
    let mut fields = Vec::new();
    let mut questions = Vec::new();
    for (name, property) in properties.into_iter().flatten() {
        let property = property.0.as_ref();
        let label =
            property.and_then(|property| property.description.as_str().or(property.title.as_str()));
        let label = label.unwrap_or(name);
        // With one field, the message is the question; with several, each needs its own label.
        let text: Arc<str> = match (count, message.trim()) {
            (1, message) if !message.is_empty() => message.into(),
            (_, "") => label.into(),
            (_, message) => format!("{message} ({label})").into(),
        };
        let kind = property.map_or(FieldKind::Text, field_kind);
        questions.push(Question {
            text: Arc::clone(&text),
            header: name.as_str().into(),
            options: property.map(question_options).unwrap_or_default(),
            multiple: matches!(kind, FieldKind::Several),
        });
        fields.push(FormField {
            name: name.as_str().into(),
            question: text,
            kind,
            required: is_required(name),
        });
    }
    (fields, questions)
}

fn field_kind(property: &FormProperty<'_>) -> FieldKind {
    match property.kind.as_str() {
        Some("number" | "integer") => FieldKind::Number,
        Some("boolean") => FieldKind::Boolean,
        Some("array") => FieldKind::Several,
        _ => FieldKind::Text,
    }
}

fn question_options(property: &FormProperty<'_>) -> Vec<QuestionOption> {
    let option = |label: &str, description: &str| QuestionOption {
        label: label.into(),
        description: description.into(),
    };
    let titled =
        |one: &TitledValue<'_>| Some(option(one.value.as_str()?, one.title.as_str().unwrap_or("")));
    let items = property.items.0.as_ref();
    let plain = [Some(&property.options), items.map(|items| &items.options)];
    let with_titles = [Some(&property.one_of), items.map(|items| &items.any_of)];
    let mut options: Vec<QuestionOption> = (plain.into_iter().flatten())
        .flat_map(|all| all.0.iter().flatten())
        .map(|label| option(label, ""))
        .collect();
    options.extend(
        (with_titles.into_iter().flatten())
            .flat_map(|all| all.0.iter().flatten())
            .filter_map(titled),
    );
    if options.is_empty() && property.kind.as_str() == Some("boolean") {
        options = vec![option("true", ""), option("false", "")];
    }
    options
}

/// Returns the filled-in form, or `None` if a required answer is missing or there are no answers.
pub(super) fn form_content(
    fields: &[FormField],
    answers: &[QuestionAnswer],
) -> Option<Map<String, Value>> {
    let mut content = Map::new();
    for field in fields {
        let given = answers.iter().find(|given| given.question == field.question);
        match given {
            Some(given) => {
                content.insert(field.name.to_string(), field.kind.convert(&given.answer));
            }
            None if field.required => return None,
            None => {}
        }
    }
    (!content.is_empty()).then_some(content)
}

impl FieldKind {
    /// Converts an answer. One that does not fit stays text, and the MCP server will reject it.
    fn convert(self, answer: &str) -> Value {
        let text = answer.trim();
        match self {
            Self::Text => answer.into(),
            Self::Number => match serde_json::from_str::<Value>(text) {
                Ok(value @ Value::Number(_)) => value,
                _ => answer.into(),
            },
            Self::Boolean => match &*text.to_ascii_lowercase() {
                "true" | "yes" | "y" => true.into(),
                "false" | "no" | "n" => false.into(),
                _ => answer.into(),
            },
            Self::Several => text.split(',').map(str::trim).collect(),
        }
    }
}

/// Finds the running tool call that an approval is about. The request names the tool only in its
/// message text; the arguments distinguish several calls to the same tool.
pub(crate) fn find_tool_call<T: Copy>(
    params: &ElicitationParams<'_>,
    running: &[(T, &str, &RawValue)],
) -> Option<T> {
    let message = params.message.as_str().unwrap_or_default();
    let wanted = params.meta.0.as_ref().and_then(|meta| meta.tool_params);
    let parse = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    let wanted = wanted.and_then(parse);
    let named = |(_, tool, _): &&(T, &str, &RawValue)| message.contains(&format!("\"{tool}\""));
    let same =
        |(_, _, arguments): &&(T, &str, &RawValue)| wanted.is_some() && parse(arguments) == wanted;
    let mut candidates = running.iter().filter(named).filter(same);
    let found = candidates.next().or_else(|| running.iter().find(named));
    let alone = || match running {
        [one] => Some(one),
        _ => None,
    };
    found.or_else(alone).map(|(which, ..)| *which)
}
