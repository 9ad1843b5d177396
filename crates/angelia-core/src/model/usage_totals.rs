//! Totals of the usage of turns.

use std::sync::Arc;

use jiff::Timestamp;

use super::{SessionId, TurnId, Usage};

/// Selects the turns to add up, and the rows to add them up into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only turns that were created at or after this time.
    pub from: Option<Timestamp>,
    /// Only turns that were created before this time.
    pub to: Option<Timestamp>,
    /// The value that separates the rows; `None`: one row for all turns.
    pub by: Option<UsageGroup>,
    /// Splits each row by these periods.
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
    /// Finished turns that found nothing in the model's cache.
    pub cold_starts: u64,
    /// Only the counts and the cost.
    pub usage: Usage,
}

/// A turn that found nothing in the model's cache, so that its whole prompt was paid for.
#[derive(Clone, Debug, PartialEq)]
pub struct ColdStart {
    pub turn: TurnId,
    /// `None`: the session has been deleted.
    pub session: Option<SessionId>,
    pub title: Option<Arc<str>>,
    pub at: Timestamp,
    pub profile: Arc<str>,
    pub model: Option<Arc<str>>,
    pub reason: ColdReason,
    /// Only the counts and the cost.
    pub usage: Usage,
}

/// The shortest prompt that the caches of vendors keep.
const MIN_CACHED_TOKENS: u64 = 1024;

/// Why a cache was cold, as far as the turn before it in the same session tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdReason {
    /// There was no turn before it.
    NewSession,
    ModelChanged,
    /// What precedes the conversation has changed: the version of the agent, its flags, prompt, tools
    /// or MCP servers.
    PrefixChanged,
    /// Nothing has changed, so the cache was dropped.
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

    /// Returns why a turn was cold, or `None` if it was not. `before` is the model and the prefix of
    /// the turn before it.
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
