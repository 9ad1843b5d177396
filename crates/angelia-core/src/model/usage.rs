//! Token counts and cost, cumulative for the turn, and the fill level of the context window.

use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub cost_usd: Option<f64>,
    /// How the turn is paid for: `subscription`, `api_key`, or the agent's own term.
    pub lane: Option<Arc<str>>,
    /// Hash of everything under our control that precedes the conversation. A change explains a
    /// cold cache.
    pub prefix_sha256: Option<Arc<str>>,
    /// The latest value in this turn; `None` if the agent has not reported it.
    pub context: Option<ContextWindow>,
}

/// The price of a model's tokens, in US dollars per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrice {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

impl TokenPrice {
    #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
    pub fn cost_usd(&self, usage: &Usage) -> f64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1e6
    }
}

/// The fill level of the model's context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextWindow {
    /// Tokens currently in the window. Not a sum over requests, because each request reads all of
    /// them again.
    pub used: u64,
    /// Maximum number of tokens.
    pub size: u64,
}

impl ContextWindow {
    /// Returns the window, or `None` if either number is zero: a context in use is never empty, so
    /// zero means that the agent did not count.
    pub const fn from_reported(used: u64, size: u64) -> Option<Self> {
        match (used, size) {
            (0, _) | (_, 0) => None,
            _ => Some(Self { used, size }),
        }
    }
}

impl Usage {
    /// Adds the counts of another segment of the same turn. Labels and the context window come from
    /// the newer segment.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens + more.input_tokens,
            output_tokens: self.output_tokens + more.output_tokens,
            cache_read_tokens: self.cache_read_tokens + more.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens + more.cache_write_tokens,
            cost_usd: match (self.cost_usd, more.cost_usd) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
            },
            lane: more.lane.clone().or_else(|| self.lane.clone()),
            prefix_sha256: more.prefix_sha256.clone().or_else(|| self.prefix_sha256.clone()),
            context: more.context.or(self.context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_a_later_reading_replaces_an_earlier_one() {
        let usage = |input_tokens, used: Option<u64>| Usage {
            input_tokens,
            context: used.map(|used| ContextWindow { used, size: 1000 }),
            ..Usage::default()
        };
        let first = usage(300, Some(310));
        assert_eq!(first.plus(&usage(320, Some(40))), usage(620, Some(40)));
        assert_eq!(first.plus(&usage(320, None)), usage(620, Some(310)));
    }

    #[test]
    fn zero_is_no_reading() {
        assert!(ContextWindow::from_reported(7, 1000).is_some());
        assert_eq!(ContextWindow::from_reported(0, 1000), None);
        assert_eq!(ContextWindow::from_reported(7, 0), None);
    }
}
