//! Assembles the details of reasoning. A stream sends them in pieces, but they must be sent back
//! complete, in order, and otherwise unchanged.

use angelia_core::model::RawJson;
use serde_json::{Map, Value, value::RawValue};

/// Fields whose pieces are joined; for all others, the last value counts.
const TEXT_FIELDS: [&str; 3] = ["text", "summary", "data"];

#[derive(Debug, Default)]
pub(super) struct DetailAssembly {
    details: Vec<Map<String, Value>>,
}

impl DetailAssembly {
    pub(super) fn add(&mut self, raw: &RawValue) {
        let pieces: Vec<Map<String, Value>> = serde_json::from_str(raw.get()).unwrap_or_default();
        for piece in pieces {
            match self.details.last_mut() {
                Some(last) if continues(last, &piece) => join(last, piece),
                _ => self.details.push(piece),
            }
        }
    }

    /// Returns the details as a list; `None` if there were none.
    pub(super) fn finish(self) -> Option<RawJson> {
        if self.details.is_empty() {
            return None;
        }
        serde_json::value::to_raw_value(&self.details).ok().map(Into::into)
    }
}

/// Returns whether a piece continues the previous detail. Only streams number their details.
fn continues(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let same = |key: &str| last.get(key) == piece.get(key);
    piece.contains_key("index") && same("index") && same("type")
}

fn join(last: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (key, value) in piece {
        match (last.get_mut(&key), value) {
            (Some(Value::String(text)), Value::String(more))
                if TEXT_FIELDS.contains(&key.as_str()) =>
            {
                text.push_str(&more);
            }
            // A piece may leave out what an earlier one has said.
            (Some(known), Value::Null) if !known.is_null() => {}
            (_, value) => {
                last.insert(key, value);
            }
        }
    }
}
