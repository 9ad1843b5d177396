//! A model request as a provider's cache sees it: the parts before the conversation, then the messages.

use serde_json::Value;

/// A request without its cache marks, which may move from one request to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestParts {
    /// System prompt, tools and settings, each as `name=JSON`.
    pub fields: Vec<String>,
    /// The messages, or the input items of the Responses API, as JSON.
    pub messages: Vec<String>,
}

impl RequestParts {
    /// Splits the body of a request in any of the three APIs.
    pub fn of(body: &Value) -> Self {
        let mut body = without_marks(body);
        let list = if body.get("input").is_some() { "input" } else { "messages" };
        let messages = match body[list].take() {
            Value::Array(messages) => messages.iter().map(Value::to_string).collect(),
            Value::Null => Vec::new(),
            text => vec![text.to_string()],
        };
        let fields = body.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| *name != list);
        let fields = fields.map(|(name, value)| format!("{name}={value}")).collect();
        Self { fields, messages }
    }

    /// Returns the number of messages with which both requests begin, or `None` if they differ before that.
    pub fn shared_messages(&self, other: &Self) -> Option<usize> {
        if self.fields != other.fields {
            return None;
        }
        let pairs = self.messages.iter().zip(&other.messages);
        Some(pairs.take_while(|(own, others)| own == others).count())
    }

    /// Returns the index of the first message that no earlier request sent in the same place after the same
    /// beginning, or `None` if no earlier request has the same beginning at all.
    pub fn first_new_message(&self, earlier: &[Self]) -> Option<usize> {
        earlier.iter().filter_map(|other| self.shared_messages(other)).max()
    }

    /// Returns the size of the whole request, and of the part that a cache of all earlier requests does not
    /// contain.
    pub fn sizes(&self, earlier: &[Self]) -> RequestSizes {
        let bytes = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
        let total = bytes(&self.fields) + bytes(&self.messages);
        let uncached =
            self.first_new_message(earlier).map_or(total, |first| bytes(&self.messages[first..]));
        RequestSizes { total, uncached }
    }
}

/// Sizes of a request in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSizes {
    pub total: usize,
    pub uncached: usize,
}

/// Returns a part of a request without cache marks.
pub fn without_marks(value: &Value) -> Value {
    let mut value = value.clone();
    remove_marks(&mut value);
    value
}

fn remove_marks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(remove_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_marks),
        _ => {}
    }
}
