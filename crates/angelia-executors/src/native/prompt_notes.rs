//! The parts of the prompt that change over time: the list of skills, and the memory's notes. They
//! are read when a session begins and recorded with its first turn, so that a reopened session
//! starts with the same bytes, which the provider may have cached, even if the notes have changed
//! since. A compaction invalidates the cache anyway, so the notes are reread then, and recorded if
//! they have changed.

use std::sync::Arc;

use angelia_core::{model::EventKind, ports::RecordedTurn};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

const EVENT: &str = "native/prompt_notes";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PromptNotes {
    #[serde(default)]
    pub(super) skills: Arc<str>,
    #[serde(default)]
    pub(super) memory: Arc<str>,
}

impl PromptNotes {
    /// Returns the notes that a session's turns recorded last.
    pub(super) fn recorded_in(turns: &[RecordedTurn]) -> Option<Self> {
        let events = turns.iter().flat_map(|turn| &turn.events).rev();
        events
            .filter_map(|event| match event {
                EventKind::Native { name, raw } if **name == *EVENT => Some(raw),
                _ => None,
            })
            .find_map(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// Returns the event that records the notes; `None` if they are empty.
    pub(super) fn event(&self) -> Option<EventKind> {
        if *self == Self::default() {
            return None;
        }
        let raw = to_raw_value(self).ok()?;
        Some(EventKind::Native { name: EVENT.into(), raw: raw.into() })
    }
}
