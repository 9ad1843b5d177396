//! The tokens, cost and billing lane of each turn.
//!
//! The CLI counts for the whole process: `modelUsage` and `total_cost_usd` only grow and include
//! sub-agents and every model, while `result.usage` covers only the main conversation (and nothing
//! after a fallback to a non-streaming request). A turn's share is therefore the difference between
//! the totals. If the totals continue from an earlier process (newer versions do this when they
//! resume a conversation), the first difference is unknown. In that case we use
//! `model_usage_since_last_result`, which already is the difference, or else `result.usage`, and
//! report no cost rather than a wrong one.

use std::sync::Arc;

use angelia_core::model::Usage;
use serde::Deserialize;

use super::{
    account::{API_KEY_LANE, ClaudeAccount, SUBSCRIPTION_LANE, is_named},
    protocol::incoming::{ApiUsage, Lenient, ModelUsages, ResultLine},
};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TokenCount {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl TokenCount {
    fn sum_models(models: &ModelUsages) -> Self {
        let mut sum = Self::default();
        for model in models.values() {
            sum.input = sum.input.saturating_add(model.input.get().unwrap_or(0));
            sum.output = sum.output.saturating_add(model.output.get().unwrap_or(0));
            sum.cache_read = sum.cache_read.saturating_add(model.cache_read.get().unwrap_or(0));
            sum.cache_write = sum.cache_write.saturating_add(model.cache_write.get().unwrap_or(0));
        }
        sum
    }

    fn from_api(usage: &ApiUsage) -> Self {
        Self {
            input: usage.input.get().unwrap_or(0),
            output: usage.output.get().unwrap_or(0),
            cache_read: usage.cache_read.get().unwrap_or(0),
            cache_write: usage.cache_write.get().unwrap_or(0),
        }
    }

    /// Returns the increase since `earlier`, or everything if the counters were reset in between.
    fn since(self, earlier: Self) -> Self {
        let difference = || {
            Some(Self {
                input: self.input.checked_sub(earlier.input)?,
                output: self.output.checked_sub(earlier.output)?,
                cache_read: self.cache_read.checked_sub(earlier.cache_read)?,
                cache_write: self.cache_write.checked_sub(earlier.cache_write)?,
            })
        };
        difference().unwrap_or(self)
    }

    fn usage(self, cost_usd: Option<f64>) -> Usage {
        // Clamp, so that no line can make a turn's sums overflow.
        let sane = |tokens: u64| tokens.min(1 << 50);
        Usage {
            input_tokens: sane(self.input),
            output_tokens: sane(self.output),
            cache_read_tokens: sane(self.cache_read),
            cache_write_tokens: sane(self.cache_write),
            cost_usd,
            lane: None,
            prefix_sha256: None,
            context: None,
        }
    }
}

/// The usage that a message reports: input tokens when it starts, output tokens when it ends.
#[derive(Debug, Default)]
pub(crate) struct MessageUsage(TokenCount);

impl MessageUsage {
    /// Keeps the larger of the known and the reported numbers.
    pub(crate) fn observe(&mut self, usage: &ApiUsage) {
        let seen = TokenCount::from_api(usage);
        let TokenCount { input, output, cache_read, cache_write } = &mut self.0;
        for (known, seen) in [
            (input, seen.input),
            (output, seen.output),
            (cache_read, seen.cache_read),
            (cache_write, seen.cache_write),
        ] {
            *known = (*known).max(seen);
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.0.usage(None)
    }

    /// Returns all tokens read and written, which is how full the context is after the message.
    pub(crate) fn tokens(&self) -> u64 {
        let TokenCount { input, output, cache_read, cache_write } = self.0;
        let all = [input, output, cache_read, cache_write];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

/// The response to `get_usage`.
#[derive(Deserialize)]
struct UsageTotals {
    #[serde(default)]
    session: Lenient<SessionTotals>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SessionTotals {
    total_cost_usd: Lenient<f64>,
    model_usage: Lenient<ModelUsages>,
}

/// The totals of the process after its latest result.
#[derive(Debug)]
pub(crate) struct UsageLedger {
    count: TokenCount,
    cost: f64,
    /// Set if the totals are known to belong to this process, or their starting point is known.
    has_baseline: bool,
}

impl UsageLedger {
    pub(crate) fn new(resumed: bool) -> Self {
        Self { count: TokenCount::default(), cost: 0.0, has_baseline: !resumed }
    }

    pub(crate) fn has_baseline(&self) -> bool {
        self.has_baseline
    }

    /// Reads totals between two results and returns the usage since the last result. In a resumed
    /// conversation, the first totals only set the baseline.
    pub(crate) fn read_totals(&mut self, answer: &str) -> Option<Usage> {
        let answer: UsageTotals = serde_json::from_str(answer).ok()?;
        let session = answer.session.0?;
        let count = TokenCount::sum_models(session.model_usage.0.as_ref()?);
        let cost = session.total_cost_usd.get()?;
        if !std::mem::replace(&mut self.has_baseline, true) {
            (self.count, self.cost) = (count, cost);
            return None;
        }
        let since = if cost < self.cost { 0.0 } else { self.cost };
        Some(count.since(self.count).usage(Some(cost - since)))
    }

    /// Records the totals of a result and returns the usage since the last result.
    pub(crate) fn record_result(&mut self, result: &ResultLine<'_>) -> Usage {
        let own = result.usage.0.as_ref().map(TokenCount::from_api).unwrap_or_default();
        let total = result.model_usage.0.as_ref().map(TokenCount::sum_models);
        let since = result.model_usage_since_last_result.0.as_ref();
        // Equal numbers show that the totals started with this turn.
        let grounded = self.has_baseline || total.is_none_or(|total| total == own);

        let mut count = match (since, total) {
            (Some(since), _) => TokenCount::sum_models(since),
            (None, Some(total)) if grounded => total.since(self.count),
            _ => own,
        };
        if count == TokenCount::default() {
            count = own;
        }
        let cost = match (since, result.total_cost_usd.get()) {
            (Some(since), _) => Some(since.values().filter_map(|one| one.cost.get()).sum()),
            (None, Some(total)) if grounded && total < self.cost => Some(total),
            (None, Some(total)) if grounded => Some(total - self.cost),
            _ => None,
        };

        self.count = total.unwrap_or(self.count);
        self.cost = result.total_cost_usd.get().unwrap_or(self.cost);
        self.has_baseline = true;
        count.usage(cost)
    }
}

/// The billing lane, to the extent that the CLI has reported it.
#[derive(Debug, Default)]
pub(crate) struct BillingLane {
    account: Option<Arc<str>>,
    api_key: bool,
    /// Set after a rate limit event, which only subscriptions have.
    rate_limited: bool,
}

impl BillingLane {
    /// Reads the account from the response to `initialize`, the most reliable source.
    pub(crate) fn read_account(&mut self, response: &str) {
        if let Some(account) = ClaudeAccount::of_initialize(response) {
            self.account = account.billing_lane().map(Into::into);
        }
    }

    /// Records the source of the API key. `none` is ambiguous: a subscription, or no login.
    pub(crate) fn set_api_key_source(&mut self, source: Option<&str>) {
        self.api_key = source.is_some_and(is_named);
    }

    pub(crate) fn mark_rate_limited(&mut self) {
        self.rate_limited = true;
    }

    pub(crate) fn uses_api_key(&self) -> bool {
        self.api_key || self.account.as_deref() == Some(API_KEY_LANE)
    }

    pub(crate) fn name(&self) -> Option<Arc<str>> {
        match &self.account {
            Some(lane) => Some(Arc::clone(lane)),
            None if self.api_key => Some(API_KEY_LANE.into()),
            None if self.rate_limited => Some(SUBSCRIPTION_LANE.into()),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(ledger: &mut UsageLedger, line: &str) -> (u64, Option<f64>) {
        let usage = ledger.record_result(&serde_json::from_str(line).unwrap());
        (usage.input_tokens, usage.cost_usd)
    }

    fn result(own: u64, total: u64, cost: f64) -> String {
        format!(
            r#"{{"usage":{{"input_tokens":{own}}},"modelUsage":{{"m":{{"inputTokens":{total}}}}},
                "total_cost_usd":{cost}}}"#
        )
    }

    #[test]
    fn a_turn_costs_the_difference_of_the_totals() {
        let mut ledger = UsageLedger::new(false);
        assert_eq!(spent(&mut ledger, &result(10, 10, 1.0)), (10, Some(1.0)));
        assert_eq!(spent(&mut ledger, &result(10, 30, 1.5)), (20, Some(0.5)), "sub-agents too");
        assert_eq!(spent(&mut ledger, &result(0, 35, 1.75)), (5, Some(0.25)), "fallback");
        assert_eq!(spent(&mut ledger, &result(3, 3, 0.5)), (3, Some(0.5)), "set back by /clear");
    }

    #[test]
    fn totals_of_an_earlier_process_are_not_charged_again() {
        let mut ledger = UsageLedger::new(true);
        assert_eq!(spent(&mut ledger, &result(10, 50, 5.0)), (10, None));
        assert_eq!(spent(&mut ledger, &result(10, 60, 6.0)), (10, Some(1.0)));
        // In versions that restart at 0, both numbers are equal.
        assert_eq!(spent(&mut UsageLedger::new(true), &result(10, 10, 1.0)), (10, Some(1.0)));
        let since = r#"{"usage":{"input_tokens":10},"modelUsage":{"m":{"inputTokens":50}},
            "model_usage_since_last_result":{"m":{"inputTokens":11,"costUSD":0.25}},
            "total_cost_usd":5.0}"#;
        assert_eq!(spent(&mut UsageLedger::new(true), since), (11, Some(0.25)));
    }

    #[test]
    fn a_look_between_results_is_charged_only_once() {
        let totals = |input: u64, cost: f64| {
            format!(
                r#"{{"session":{{"total_cost_usd":{cost},"model_usage":{{"m":{{"inputTokens":{input}}}}}}},
                    "rate_limits":null}}"#
            )
        };
        let mut ledger = UsageLedger::new(true);
        assert_eq!(ledger.read_totals(&totals(50, 5.0)), None, "an earlier process's");
        let seen = ledger.read_totals(&totals(60, 5.5)).unwrap();
        assert_eq!((seen.input_tokens, seen.cost_usd), (10, Some(0.5)));
        assert_eq!(spent(&mut ledger, &result(12, 62, 5.75)), (12, Some(0.75)));
        let seen = ledger.read_totals(&totals(63, 6.0)).unwrap();
        assert_eq!((seen.input_tokens, seen.cost_usd), (1, Some(0.25)));
        assert_eq!(ledger.read_totals(r#"{"session":{}}"#), None);
        assert_eq!(ledger.read_totals("nonsense"), None);
    }

    #[test]
    fn the_lane_is_what_was_said_best() {
        let mut lane = BillingLane::default();
        lane.set_api_key_source(Some("none"));
        assert_eq!(lane.name(), None);
        lane.mark_rate_limited();
        assert_eq!(lane.name().as_deref(), Some(SUBSCRIPTION_LANE));
        lane.set_api_key_source(Some("ANTHROPIC_API_KEY"));
        assert_eq!(lane.name().as_deref(), Some(API_KEY_LANE));
        lane.read_account(r#"{"commands":[],"account":{"apiProvider":"bedrock"}}"#);
        assert_eq!(lane.name().as_deref(), Some("bedrock"));
        lane.read_account(r#"{"still_queued":[]}"#);
        assert_eq!(lane.name().as_deref(), Some("bedrock"), "other answers say nothing");
    }
}
