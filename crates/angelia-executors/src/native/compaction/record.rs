//! A compaction as an event of its turn. The event holds the plan and the summary, and the messages
//! that stay come from the record, so a resumed or forked session sends the same bytes.

use std::sync::Arc;

use angelia_core::model::EventKind;
use serde::{Deserialize, Serialize};

use super::{plan::CompactionPlan, shortened::Compaction};
use crate::native::record::native_event;

/// The name of the event.
pub const COMPACTION: &str = "native/compaction";

#[derive(Serialize, Deserialize)]
struct CompactionRecord {
    head: usize,
    head_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<usize>,
    tail: usize,
    digest_until: usize,
    result_bytes: usize,
    summary: Option<Arc<str>>,
}

pub fn compaction_event(compaction: &Compaction) -> EventKind {
    let CompactionPlan { head, head_tokens, kept, tail, digest_until, result_bytes } =
        compaction.plan;
    let summary = compaction.summary.clone();
    let record =
        CompactionRecord { head, head_tokens, kept, tail, digest_until, result_bytes, summary };
    native_event(COMPACTION, &record)
}

/// Returns `None` for a record that cannot be read.
pub fn read_compaction(raw: &str) -> Option<Compaction> {
    let record: CompactionRecord = serde_json::from_str(raw).ok()?;
    let CompactionRecord { head, head_tokens, kept, tail, digest_until, result_bytes, summary } =
        record;
    let plan = CompactionPlan { head, head_tokens, kept, tail, digest_until, result_bytes };
    Some(Compaction { plan, summary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_is_read_as_it_was_written() {
        let plan = CompactionPlan {
            head: 3,
            head_tokens: 400,
            kept: Some(7),
            tail: 9,
            digest_until: 10,
            result_bytes: 2_800,
        };
        for summary in [Some("what was said".into()), None] {
            let compaction = Compaction { plan, summary };
            let EventKind::Native { name, raw } = compaction_event(&compaction) else {
                unreachable!();
            };
            assert_eq!((&*name, read_compaction(raw.get())), (COMPACTION, Some(compaction)));
        }
        assert_eq!(read_compaction("{}"), None);
    }
}
