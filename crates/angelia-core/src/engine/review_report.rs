//! The notice that tells people about a review.

use serde_json::{json, value::to_raw_value};

use crate::model::{
    EventKind, MEMORY_CHANGED_NOTICE, Notice, NoticeLevel, REVIEWED_NOTICE, TurnEvent, TurnRecord,
    TurnStatus,
};

/// Returns the notice about a review with these events, or `None` if the review has not ended or was stopped
/// before it changed anything.
pub(super) fn review_notice(review: &TurnRecord, events: &[TurnEvent]) -> Option<Notice> {
    let outcome = review.state.outcome()?;
    let changes: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Notice(notice) if *notice.code == *MEMORY_CHANGED_NOTICE => {
                Some(&*notice.text)
            }
            _ => None,
        })
        .collect();
    let (level, text) = match (&outcome.status, &*changes) {
        (TurnStatus::Interrupted, []) => return None,
        (TurnStatus::Failed(failure), []) => (
            NoticeLevel::Warning,
            format!("the review of this session failed: {}", failure.message),
        ),
        (_, []) => (NoticeLevel::Info, "this session was reviewed; nothing was changed".to_owned()),
        (_, changes) => {
            (NoticeLevel::Info, format!("this session was reviewed: {}", changes.join("; ")))
        }
    };
    let notice = Notice::new(level, REVIEWED_NOTICE, text);
    let detail = json!({
        "changes": changes,
        "session": review.session.to_string(),
        "turn": review.id.to_string(),
        "cost_usd": outcome.usage.cost_usd,
    });
    Some(match to_raw_value(&detail) {
        Ok(detail) => notice.with_detail(detail.into()),
        Err(_) => notice,
    })
}
