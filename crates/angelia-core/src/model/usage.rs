//! Tokens and money, cumulative for the turn.

use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub cost_usd: Option<f64>,
    /// Who pays: `subscription`, `api_key`, or what the agent calls it.
    pub lane: Option<Arc<str>>,
    /// Hash of everything we control that precedes the conversation; a change explains a cold
    /// cache.
    pub prefix_sha256: Option<Arc<str>>,
}

impl Usage {
    /// Adds the counts of a further segment of the same turn; the labels are the newer ones.
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
            prefix_sha256: more
                .prefix_sha256
                .clone()
                .or_else(|| self.prefix_sha256.clone()),
        }
    }
}
