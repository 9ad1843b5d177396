//! Notices from tools and servers, queued until a turn can report them.

use std::sync::{Arc, Mutex, PoisonError};

use angelia_core::model::Notice;

#[derive(Clone, Debug, Default)]
pub(super) struct NoticeQueue(Arc<Mutex<Vec<Notice>>>);

impl NoticeQueue {
    pub(super) fn push(&self, notice: Notice) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
