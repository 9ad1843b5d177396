//! `todo`: the model's plan, which viewers see as it changes. The loop turns it into a `Plan` event.

use std::sync::Arc;

use angelia_core::model::{Plan, PlanItem, PlanStatus};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::tool::{CallError, parse_arguments};

pub const NAME: &str = "todo";

pub const DESCRIPTION: &str =
    "Keep a list of steps for work with several of them; send the whole list each time.";

pub const SCHEMA: &str = r#"{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"status":{"enum":["pending","in_progress","completed"]}},"required":["text","status"]}}},"required":["items"]}"#;

/// The result for the model, which already knows its list.
pub const ANSWER: &str = "noted";

#[derive(Deserialize)]
struct TodoArguments {
    items: Vec<TodoItem>,
}

#[derive(Deserialize)]
struct TodoItem {
    text: Arc<str>,
    status: TodoStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TodoStatus {
    Pending,
    InProgress,
    #[serde(alias = "done")]
    Completed,
}

/// Reads the arguments of a call.
pub fn parse_plan(arguments: &RawValue) -> Result<Plan, CallError> {
    let wanted: TodoArguments = parse_arguments(arguments)?;
    let items = wanted.items.into_iter().map(|item| PlanItem {
        text: item.text,
        status: match item.status {
            TodoStatus::Pending => PlanStatus::Pending,
            TodoStatus::InProgress => PlanStatus::InProgress,
            TodoStatus::Completed => PlanStatus::Completed,
        },
    });
    Ok(Plan { items: items.collect() })
}
