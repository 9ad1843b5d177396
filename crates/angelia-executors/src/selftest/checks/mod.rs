//! The checks, by subject: `conversation`, `tools` and `model_mode`.

mod conversation;
mod model_mode;
mod tools;

use std::fmt;

use angelia_core::ports::BoxFuture;
use serde_json::Value;

use super::{CheckResult, CheckedAgent};

/// One check. Each check has its own fixture, so that checks do not depend on each other.
#[derive(Clone, Copy)]
pub struct Check {
    /// The name in JSON and in recordings.
    pub id: &'static str,
    /// What the agent is expected to do, for the report.
    pub title: &'static str,
    pub run: for<'a> fn(&'a dyn CheckedAgent) -> BoxFuture<'a, CheckResult>,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.id).finish()
    }
}

/// Every check, in the order of the report. The first one shows whether the agent works at all.
pub const CHECKS: [Check; 9] = [
    Check {
        id: "streamed_answer",
        title: "streams its answer, and remembers it in the next turn",
        run: |agent| Box::pin(conversation::streams_its_answer(agent)),
    },
    Check {
        id: "approval",
        title: "asks before it runs a command, and obeys",
        run: |agent| Box::pin(tools::asks_and_obeys(agent)),
    },
    Check {
        id: "edit_diff",
        title: "shows what an edit changes before it is made",
        run: |agent| Box::pin(tools::shows_its_edits(agent)),
    },
    Check {
        id: "interrupt",
        title: "stops when it is interrupted, and continues afterwards",
        run: |agent| Box::pin(conversation::stops_when_interrupted(agent)),
    },
    Check {
        id: "resume",
        title: "continues a conversation in a new process",
        run: |agent| Box::pin(conversation::resumes_in_a_new_process(agent)),
    },
    Check {
        id: "model_error",
        title: "reports a model error",
        run: |agent| Box::pin(conversation::reports_model_errors(agent)),
    },
    Check {
        id: "usage",
        title: "reports the tokens of a turn",
        run: |agent| Box::pin(conversation::reports_usage(agent)),
    },
    Check {
        id: "caller_tools",
        title: "calls the tools of an API client (model mode)",
        run: |agent| Box::pin(model_mode::calls_the_callers_tools(agent)),
    },
    Check {
        id: "sealed_model_mode",
        title: "shows an API client nothing of yours (model mode)",
        run: |agent| Box::pin(model_mode::is_sealed(agent)),
    },
];

/// Reports whether any string inside the JSON value contains the text.
pub fn json_contains_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| json_contains_text(item, text)),
        Value::Object(fields) => fields.values().any(|field| json_contains_text(field, text)),
        _ => false,
    }
}

/// Reports whether the last model request contains the text; `true` if requests are not visible.
fn reached_model(agent: &dyn CheckedAgent, text: &str) -> bool {
    agent.last_model_request().is_none_or(|request| json_contains_text(&request, text))
}
