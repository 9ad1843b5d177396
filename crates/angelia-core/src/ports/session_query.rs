//! Selects and orders sessions for lists.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;

use super::Page;
use crate::model::{SessionId, SessionSource, SessionSummary, TurnState};

/// Selects the sessions to list.
#[derive(Clone, Debug)]
pub enum SessionQuery {
    /// The session with this id, if there is one.
    One(SessionId),
    /// Sessions that match the filter, in this order. The page starts after the current position of its
    /// session.
    Find { filter: SessionFilter, order: SessionOrder, page: Page },
}

impl SessionQuery {
    /// Returns a query for all sessions, newest first.
    pub fn newest(page: Page) -> Self {
        Self::Find { filter: SessionFilter::default(), order: SessionOrder::Created, page }
    }

    /// Returns a query for the sessions of one directory, or for all of them, most recently used first.
    pub fn last_used(cwd: Option<PathBuf>, page: Page) -> Self {
        let filter = SessionFilter { cwd, ..SessionFilter::default() };
        Self::Find { filter, order: SessionOrder::Used, page }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    /// Newest first.
    Created,
    /// Most recently used first.
    Used,
}

/// A filter for sessions. A field that is `None` or empty admits every session.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Words that must all occur in the title, the name or the first words.
    pub words: Vec<Arc<str>>,
    /// Names from [`TurnState::as_str`], for the newest turn.
    pub statuses: Vec<Arc<str>>,
    pub profile: Option<Arc<str>>,
    pub executor: Option<Arc<str>>,
    /// A source, or a kind of source: `key:ci`, or `key` for every key.
    pub source: Option<Arc<str>>,
    /// Only sessions used at or after this time.
    pub since: Option<Timestamp>,
    pub cwd: Option<PathBuf>,
}

impl SessionFilter {
    /// Returns whether the filter admits every session.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
            && self.statuses.is_empty()
            && self.profile.is_none()
            && self.executor.is_none()
            && self.source.is_none()
            && self.since.is_none()
            && self.cwd.is_none()
    }

    /// Returns whether the filter admits only sessions whose newest turn has not ended.
    pub fn is_unfinished(&self) -> bool {
        let unfinished = |status: &Arc<str>| TurnState::UNFINISHED.contains(&&**status);
        !self.statuses.is_empty() && self.statuses.iter().all(unfinished)
    }

    pub fn admits(&self, session: &SessionSummary) -> bool {
        let record = &session.record;
        let texts = [&record.title, &session.name, &session.first_words];
        let text: Vec<_> = texts.into_iter().flatten().map(|text| text.to_lowercase()).collect();
        let text = text.join(" ");
        let status = session.newest_turn.as_ref().map(|turn| &turn.status);
        self.words.iter().all(|word| text.contains(&word.to_lowercase()))
            && (self.statuses.is_empty() || status.is_some_and(|one| self.statuses.contains(one)))
            && self.profile.as_ref().is_none_or(|profile| *profile == record.spec.profile)
            && self.executor.as_ref().is_none_or(|executor| *executor == record.spec.executor)
            && self.source.as_ref().is_none_or(|source| is_of(record.source.as_ref(), source))
            && self.since.is_none_or(|since| record.updated_at >= since)
            && self.cwd.as_ref().is_none_or(|cwd| *cwd == record.spec.cwd)
    }
}

fn is_of(source: Option<&SessionSource>, wanted: &str) -> bool {
    let Some(source) = source.map(ToString::to_string) else { return false };
    source == wanted || source.split_once(':').is_some_and(|(kind, _)| kind == wanted)
}
