//! Usage totals of turns.

use std::sync::Arc;

use jiff::Timestamp;

use super::{SessionId, TurnId, Usage};

/// Selects the turns to add up, and how to group them into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only turns created at or after this time.
    pub from: Option<Timestamp>,
    /// Only turns created before this time.
    pub to: Option<Timestamp>,
    /// What to group the rows by; `None` for one row with all turns.
    pub by: Option<UsageGroup>,
    /// Splits each row into these periods.
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

/// A period in the local time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBucket {
    Hour,
    Day,
}

/// One row of totals.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageTotals {
    /// The value that the row is for: a date, a profile's name, a session's id … `None` if the turns have no
    /// value, or in a query without groups.
    pub key: Option<Arc<str>>,
    /// The start of the period in local time, as `2026-11-17T09:00`. Set only if the query has a bucket.
    pub start: Option<Arc<str>>,
    pub turns: u64,
    /// Finished turns that found nothing in the model's cache.
    pub cold_starts: u64,
    /// Only the counts and the cost are set.
    pub usage: Usage,
}

/// A turn that found nothing in the model's cache, so that its whole prompt had to be paid for.
#[derive(Clone, Debug, PartialEq)]
pub struct ColdStart {
    pub turn: TurnId,
    /// `None` if the session has been deleted.
    pub session: Option<SessionId>,
    pub title: Option<Arc<str>>,
    pub at: Timestamp,
    pub profile: Arc<str>,
    pub model: Option<Arc<str>>,
    pub reason: ColdReason,
    /// Only the counts and the cost are set.
    pub usage: Usage,
}

/// Shortest prompt that the vendors' caches keep.
const MIN_CACHED_TOKENS: u64 = 1024;

/// Why a cache was cold, judging by the previous turn of the same session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdReason {
    /// There was no previous turn.
    NewSession,
    ModelChanged,
    /// What precedes the conversation has changed: the agent's version, flags, prompt, tools or MCP servers.
    PrefixChanged,
    /// Nothing has changed, so the vendor must have dropped the cache.
    Expired,
}

impl ColdReason {
    pub const ALL: [Self; 4] =
        [Self::NewSession, Self::ModelChanged, Self::PrefixChanged, Self::Expired];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NewSession => "new_session",
            Self::ModelChanged => "model_changed",
            Self::PrefixChanged => "prefix_changed",
            Self::Expired => "expired",
        }
    }

    /// Returns why a turn was cold, or `None` if it was not. `before` is the model and the prefix of the
    /// previous turn.
    pub fn of(
        usage: &Usage,
        model: Option<&str>,
        before: Option<(Option<&str>, Option<&str>)>,
    ) -> Option<Self> {
        let prompt = usage.input_tokens + usage.cache_write_tokens;
        if prompt < MIN_CACHED_TOKENS || usage.cache_read_tokens > 0 {
            return None;
        }
        Some(match before {
            None => Self::NewSession,
            Some((earlier, _)) if earlier != model => Self::ModelChanged,
            Some((_, prefix)) if prefix != usage.prefix_sha256.as_deref() => Self::PrefixChanged,
            Some(_) => Self::Expired,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_cold_for_one_reason() {
        let usage = |cache_read_tokens, prefix: &str| Usage {
            input_tokens: MIN_CACHED_TOKENS,
            cache_read_tokens,
            prefix_sha256: Some(prefix.into()),
            ..Usage::default()
        };
        let before = Some((Some("opus"), Some("a")));
        let of = |usage: &Usage, before| ColdReason::of(usage, Some("opus"), before);
        assert_eq!(of(&usage(1, "a"), before), None);
        assert_eq!(of(&Usage { input_tokens: 1023, ..usage(0, "a") }, before), None);
        assert_eq!(of(&usage(0, "a"), None), Some(ColdReason::NewSession));
        assert_eq!(of(&usage(0, "a"), before), Some(ColdReason::Expired));
        assert_eq!(of(&usage(0, "b"), before), Some(ColdReason::PrefixChanged));
        let haiku = Some((Some("haiku"), Some("a")));
        assert_eq!(of(&usage(0, "a"), haiku), Some(ColdReason::ModelChanged));
    }
}
