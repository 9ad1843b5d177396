//! Builds the body of a message from the arguments.

use serde_json::{Map, Value};

use super::NotifyArgs;
use crate::cli::error::{CommandError, Exit};

pub(super) fn build_body(args: &NotifyArgs) -> Result<Value, CommandError> {
    let mut body = match (&args.body, &args.message) {
        (Some(json), _) => serde_json::from_str(json).map_err(|error| {
            failed(format!("--body is not JSON: {error}"))
                .with_hint("quote it for the shell: --body '{\"text\": \"…\"}'")
        })?,
        (None, Some(text)) => {
            let mut body = Map::new();
            body.insert("text".to_owned(), text.as_str().into());
            Value::Object(body)
        }
        (None, None) => {
            return Err(failed("there is nothing to send")
                .with_hint("give a text, or a whole body with --body"));
        }
    };
    for (name, value) in [("type", &args.kind), ("channel", &args.channel)] {
        let Some(value) = value else { continue };
        let Value::Object(fields) = &mut body else {
            let what = format!("--{name} needs a body that is an object, and this one is not");
            return Err(failed(what).with_hint("put the value into an object: {\"text\": …}"));
        };
        fields.insert(name.to_owned(), value.as_str().into());
    }
    Ok(body)
}

fn failed(what: impl Into<String>) -> CommandError {
    CommandError::new(Exit::Failed, what)
}
