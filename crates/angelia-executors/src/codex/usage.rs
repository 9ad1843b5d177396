//! Computes the token usage of each turn.
//!
//! The app-server counts for the whole thread: `total` only grows, even across processes, and a
//! fork starts with its parent's total. The usage of a turn is therefore the difference between
//! totals. If a thread is resumed and its total is unknown, the first difference is the usage of
//! the latest response.

use std::sync::Arc;

use angelia_core::model::{ContextWindow, Usage};

use super::protocol::notification::{TokenUsage, TokenUsageBreakdown};

/// The largest count that is accepted from a message, so that a turn's sums cannot overflow.
const MAX_COUNT: u64 = 1 << 50;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenTotals {
    /// Includes the tokens read from the cache and written to it.
    input: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
}

impl TokenTotals {
    fn of(tokens: &TokenUsageBreakdown) -> Self {
        let sane = |tokens: Option<u64>| tokens.unwrap_or(0).min(MAX_COUNT);
        Self {
            input: sane(tokens.input.get()),
            cached: sane(tokens.cached.get()),
            cache_write: sane(tokens.cache_write.get()),
            output: sane(tokens.output.get()),
        }
    }

    fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_sub(earlier.input)?,
            cached: self.cached.checked_sub(earlier.cached)?,
            cache_write: self.cache_write.checked_sub(earlier.cache_write)?,
            output: self.output.checked_sub(earlier.output)?,
        })
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input).min(MAX_COUNT);
        self.cached = self.cached.saturating_add(more.cached).min(MAX_COUNT);
        self.cache_write = self.cache_write.saturating_add(more.cache_write).min(MAX_COUNT);
        self.output = self.output.saturating_add(more.output).min(MAX_COUNT);
    }

    /// Converts to our terms, in which input excludes the cached tokens.
    pub(crate) fn to_usage(self, lane: Option<Arc<str>>, prefix: Option<Arc<str>>) -> Usage {
        let cache = self.cached.saturating_add(self.cache_write);
        Usage {
            input_tokens: self.input.saturating_sub(cache),
            output_tokens: self.output,
            cache_read_tokens: self.cached,
            cache_write_tokens: self.cache_write,
            cost_usd: None,
            lane,
            prefix_sha256: prefix,
            context: None,
        }
    }
}

/// Returns how full the context is. After a compaction or an overflow, the app-server counts
/// nothing and only estimates `totalTokens`, so only that field is used.
pub(crate) fn context_window(usage: &TokenUsage) -> Option<ContextWindow> {
    let used = usage.last.0.as_ref()?.total.get()?;
    ContextWindow::from_reported(used, usage.window.get()?)
}

/// Tracks the latest total of a thread.
#[derive(Debug)]
pub(crate) struct ThreadUsageTracker {
    total: Option<TokenTotals>,
}

impl ThreadUsageTracker {
    /// Creates a tracker. `continued` is set if the thread had turns before this process.
    pub(crate) fn new(continued: bool) -> Self {
        Self { total: (!continued).then(TokenTotals::default) }
    }

    /// Records the totals of a message and returns the tokens used since the previous one.
    pub(crate) fn advance(&mut self, usage: &TokenUsage) -> TokenTotals {
        let last = usage.last.0.as_ref().map(TokenTotals::of).unwrap_or_default();
        let Some(total) = usage.total.0.as_ref().map(TokenTotals::of) else {
            return TokenTotals::default();
        };
        let spent = match self.total {
            // A total that shrinks was reset; only the latest response is certain.
            Some(earlier) => total.since(earlier).unwrap_or(last),
            None => last,
        };
        self.total = Some(total);
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(ledger: &mut ThreadUsageTracker, total: u64, last: u64) -> u64 {
        let json = format!(
            r#"{{"total":{{"inputTokens":{total},"outputTokens":1}},
                 "last":{{"inputTokens":{last},"outputTokens":1}}}}"#
        );
        ledger.advance(&serde_json::from_str(&json).unwrap()).input
    }

    #[test]
    fn a_turn_is_the_difference_of_the_totals() {
        let mut ledger = ThreadUsageTracker::new(false);
        assert_eq!(spent(&mut ledger, 100, 100), 100);
        assert_eq!(spent(&mut ledger, 250, 100), 150, "also what was not told");
        assert_eq!(spent(&mut ledger, 250, 100), 0, "told twice");
        assert_eq!(spent(&mut ledger, 40, 30), 30, "set back");
    }

    #[test]
    fn what_was_spent_before_is_not_spent_again() {
        let mut resumed = ThreadUsageTracker::new(true);
        assert_eq!(spent(&mut resumed, 5000, 70), 70);
        assert_eq!(spent(&mut resumed, 5100, 100), 100);
    }

    #[test]
    fn the_caches_share_is_apart() {
        let tokens = r#"{"total":{"inputTokens":100,"cachedInputTokens":60,
            "cacheWriteInputTokens":10,"outputTokens":7}}"#;
        let spent = ThreadUsageTracker::new(false).advance(&serde_json::from_str(tokens).unwrap());
        let usage = spent.to_usage(None, None);
        assert_eq!((usage.input_tokens, usage.output_tokens), (30, 7));
        assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (60, 10));
    }
}
