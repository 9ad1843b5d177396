//! Totals of what turns used.

use std::sync::Arc;

use jiff::Timestamp;

use super::Usage;

/// Which turns to add up, and into which rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only turns that were created at or after this time.
    pub from: Option<Timestamp>,
    /// Only turns that were created before this time.
    pub to: Option<Timestamp>,
    /// A row for each value of this; `None`: one row for all of them.
    pub by: Option<UsageGroup>,
    /// Besides, a row for each of these periods.
    pub bucket: Option<UsageBucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGroup {
    /// In the local time zone.
    Day,
    Profile,
    /// The API key, or `owner`.
    Key,
    Session,
    Model,
    Executor,
    Lane,
}

impl UsageGroup {
    pub const ALL: [Self; 7] = [
        Self::Day,
        Self::Profile,
        Self::Key,
        Self::Session,
        Self::Model,
        Self::Executor,
        Self::Lane,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Profile => "profile",
            Self::Key => "key",
            Self::Session => "session",
            Self::Model => "model",
            Self::Executor => "executor",
            Self::Lane => "lane",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.as_str() == word)
    }
}

/// A period of the local time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBucket {
    Hour,
    Day,
}

/// One row of totals.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageTotals {
    /// The value that the row is for: a date, a profile's name, a session's id …; `None` if the turns
    /// have none, and in a query without groups.
    pub key: Option<Arc<str>>,
    /// The start of the period, as `2026-11-17T09:00`, local time; only with a bucket.
    pub start: Option<Arc<str>>,
    pub turns: u64,
    /// Only the counts and the cost.
    pub usage: Usage,
}
