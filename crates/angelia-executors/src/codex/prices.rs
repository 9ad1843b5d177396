//! The prices of the vendor's models. Codex reports tokens but no cost, so the cost of its turns is
//! computed here. The owner's `prices` override the table.
//!
//! The table holds the vendor's list prices for short contexts, in US dollars per million tokens,
//! as of a certain date. A model that is not in the table has no price: a cost limit then refuses
//! the turn instead of counting nothing.

use std::{collections::BTreeMap, sync::Arc};

use angelia_core::model::{Failure, TokenPrice};

use crate::list_prices::{PriceTable, find_price, unknown_price};

/// The date on which the table was last compared with the vendor's list.
const AS_OF: &str = "2026-11-05";

const BUILT_IN: &PriceTable = &[
    ("gpt-6.1-sol", price(2.0, 0.1, 10.0)),
    ("gpt-6-astra", price(10.0, 1.0, 50.0)),
    ("gpt-6-sol", price(2.0, 0.2, 10.0)),
    ("gpt-6-luna", price(0.1, 0.01, 0.5)),
    ("gpt-5.6-sol", price(4.0, 0.4, 20.0)),
    ("gpt-5.6-terra", price(2.0, 0.2, 12.0)),
    ("gpt-5.6-luna", price(0.2, 0.02, 1.2)),
    ("gpt-5.5", price(5.0, 0.5, 30.0)),
    ("gpt-5.4", price(2.5, 0.25, 15.0)),
    ("gpt-5.4-mini", price(0.75, 0.075, 4.5)),
    ("gpt-5.4-nano", price(0.2, 0.02, 1.25)),
    ("gpt-5.3-codex", price(1.75, 0.175, 14.0)),
    ("gpt-5.2", price(1.75, 0.175, 14.0)),
    ("gpt-5.2-codex", price(1.75, 0.175, 14.0)),
    ("gpt-5.1", price(1.25, 0.125, 10.0)),
    ("gpt-5.1-codex", price(1.25, 0.125, 10.0)),
    ("gpt-5.1-codex-max", price(1.25, 0.125, 10.0)),
    ("gpt-5.1-codex-mini", price(0.25, 0.025, 2.0)),
    ("gpt-5", price(1.25, 0.125, 10.0)),
    ("gpt-5-codex", price(1.25, 0.125, 10.0)),
    ("gpt-5-mini", price(0.25, 0.025, 2.0)),
    ("gpt-5-nano", price(0.05, 0.005, 0.4)),
];

/// Returns the price of a model. Writing to the cache costs a quarter more than plain input.
const fn price(input: f64, cache_read: f64, output: f64) -> TokenPrice {
    TokenPrice { input, output, cache_read, cache_write: input * 1.25 }
}

/// Returns the vendor's list price of a model.
pub(crate) fn list_price(model: &str) -> Option<TokenPrice> {
    find_price(BUILT_IN, model)
}

/// The prices that apply on this machine.
#[derive(Clone, Debug)]
pub struct ModelPrices {
    overrides: Arc<BTreeMap<Arc<str>, TokenPrice>>,
    built_in: &'static PriceTable,
}

impl ModelPrices {
    /// Uses the owner's prices, and the built-in table for all other models.
    pub fn new(overrides: Arc<BTreeMap<Arc<str>, TokenPrice>>) -> Self {
        Self { overrides, built_in: BUILT_IN }
    }

    /// Has no prices at all, so that usage has no cost.
    pub fn none() -> Self {
        Self { overrides: Arc::default(), built_in: &[] }
    }

    pub(super) fn price_of(&self, model: &str) -> Option<TokenPrice> {
        if let Some(price) = self.overrides.get(model) {
            return Some(*price);
        }
        find_price(self.built_in, model)
    }

    /// Fails if the model has no price, so that a cost limit cannot be enforced.
    pub(super) fn ensure_priced(&self, model: Option<&str>) -> Result<(), Failure> {
        let model = model.unwrap_or("unknown");
        if self.price_of(model).is_some() {
            return Ok(());
        }
        let setting = format!("prices: {{{model}: {{input: …, output: …}}}}");
        Err(unknown_price(model, &setting, AS_OF))
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::Usage;

    use super::*;

    #[test]
    fn the_owners_price_wins_and_an_unknown_one_is_refused() {
        let own = TokenPrice { input: 1.0, output: 2.0, cache_read: 0.5, cache_write: 4.0 };
        let overrides = BTreeMap::from([("gpt-5.5".into(), own), ("local".into(), own)]);
        let prices = ModelPrices::new(Arc::new(overrides));
        assert_eq!(prices.price_of("gpt-5.5"), Some(own));
        assert!(prices.ensure_priced(Some("local")).is_ok());
        let refused = prices.ensure_priced(Some("gpt-99")).unwrap_err();
        assert!(refused.message.contains("gpt-99"), "{refused:?}");
        assert!(refused.hint.unwrap().contains("prices:"));
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 500_000,
            cache_read_tokens: 2_000_000,
            cache_write_tokens: 250_000,
            ..Usage::default()
        };
        assert!((own.cost_usd(&usage) - 4.0).abs() < 1e-9);
    }
}
