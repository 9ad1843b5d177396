//! Turns a tool call as the model wrote it into a call that can be run, or into a message that
//! tells the model why it cannot.

use std::sync::Arc;

use angelia_core::model::{Notice, NoticeLevel, RawJson};
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::native::{
    agent::SessionTools,
    arguments::{find_tool, fit_to_schema, repair_arguments},
    provider::{ModelCall, ReceivedCall},
};

/// The kind of a repair that changed the type of a value.
const TYPE_REPAIR: &str = "type";

/// A tool call that was parsed and checked.
#[derive(Debug)]
pub(super) struct UnderstoodCall {
    /// The call for the record, whose arguments are an object.
    pub(super) call: ModelCall,
    /// Why the call cannot be run, worded for the model.
    pub(super) refusal: Option<String>,
}

impl UnderstoodCall {
    /// Returns the call of the tool that is meant, if this call only names another tool to call.
    pub(super) fn meant(self, tools: &SessionTools) -> Self {
        let meant = tools.servers().and_then(|servers| {
            let call = &self.call;
            servers.meant_tool(&call.name, &call.arguments)
        });
        let meant = match meant.filter(|_| self.refusal.is_none()) {
            None => return self,
            Some(Err(words)) => Err(words),
            Some(Ok((name, arguments))) => {
                read_arguments(arguments.get(), false, &name, tools).map(|read| (name, read.0))
            }
        };
        match meant {
            Ok((name, arguments)) => {
                Self { call: ModelCall { name, arguments, ..self.call }, refusal: None }
            }
            Err(words) => Self { refusal: Some(words), ..self },
        }
    }
}

/// Parses a call. `was_cut`: the answer was cut off in it. `id` is its id in this conversation.
pub(super) fn understand(
    received: &ReceivedCall,
    id: Arc<str>,
    was_cut: bool,
    tools: &SessionTools,
) -> (UnderstoodCall, Option<Notice>) {
    let tool = find_tool(&received.name, tools.names());
    let name = tool.as_ref().map_or_else(|_| Arc::clone(&received.name), |name| (*name).into());
    let (arguments, kinds, refusal) = match tool {
        Err(unknown) => (empty_object(), Vec::new(), Some(unknown.to_string())),
        Ok(name) => match read_arguments(&received.arguments, was_cut, name, tools) {
            Ok((arguments, kinds)) => (arguments, kinds, None),
            // In the history, the arguments are an object, whatever the model wrote.
            Err(words) => (empty_object(), Vec::new(), Some(words)),
        },
    };
    let notice = (!kinds.is_empty()).then(|| repaired_notice(&name, &kinds));
    let call = ModelCall { id, name, arguments, extra: received.extra.clone() };
    (UnderstoodCall { call, refusal }, notice)
}

fn empty_object() -> RawJson {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()).into()
}

/// Returns the arguments as an object that fits the tool, and the kinds of repairs.
fn read_arguments(
    text: &str,
    was_cut: bool,
    tool: &str,
    tools: &SessionTools,
) -> Result<(RawJson, Vec<&'static str>), String> {
    let repaired = repair_arguments(text, was_cut).map_err(|error| error.to_string())?;
    let mut kinds: Vec<_> = repaired.repairs.iter().map(|kind| kind.as_str()).collect();
    let Some(schema) = tools.schema_of_own(tool) else {
        // The caller checks the arguments of its own tools.
        return Ok((repaired.object, kinds));
    };
    let mut value: Value =
        serde_json::from_str(repaired.object.get()).map_err(|error| error.to_string())?;
    let corrected = fit_to_schema(&mut value, schema).map_err(|mismatch| mismatch.to_string())?;
    if corrected.is_empty() {
        return Ok((repaired.object, kinds));
    }
    kinds.push(TYPE_REPAIR);
    let object = to_raw_value(&value).map_err(|error| error.to_string())?;
    Ok((object.into(), kinds))
}

/// The fields of `arguments_repaired`.
#[derive(Serialize)]
struct RepairDetail<'a> {
    tool: &'a str,
    kinds: &'a [&'a str],
}

fn repaired_notice(tool: &str, kinds: &[&str]) -> Notice {
    let text = format!("the arguments of `{tool}` were repaired: {}", kinds.join(", "));
    let notice = Notice::new(NoticeLevel::Info, "arguments_repaired", text);
    match to_raw_value(&RepairDetail { tool, kinds }) {
        Ok(detail) => notice.with_detail(detail.into()),
        Err(_) => notice,
    }
}
