//! The list prices at vendors' own addresses, in US dollars per million tokens. The table is dated.
//! A model that is not listed has no price, so a cost limit refuses the turn instead of counting
//! nothing. If the price of a model depends on the length of the prompt, the table has the price
//! for short prompts, unless the others are several times higher: such models are left out.

use angelia_core::model::TokenPrice;

use crate::{
    codex,
    list_prices::{PriceTable, find_price},
};

/// The day on which the older of the tables was last compared with its vendor's list.
pub(super) const AS_OF: &str = "2026-10-16";

/// `cache_read` is a fraction of the input price. Writing to the cache costs a quarter more than
/// input.
const fn price(input: f64, output: f64, cache_read: f64) -> TokenPrice {
    TokenPrice { input, output, cache_read: input * cache_read, cache_write: input * 1.25 }
}

const ANTHROPIC: &PriceTable = &[
    ("claude-fable-5-1", price(10.0, 50.0, 0.025)),
    ("claude-fable-5", price(10.0, 50.0, 0.1)),
    ("claude-opus-5-5", price(4.0, 20.0, 0.05)),
    ("claude-opus-5", price(5.0, 25.0, 0.1)),
    ("claude-opus-4-8", price(5.0, 25.0, 0.1)),
    ("claude-opus-4-7", price(5.0, 25.0, 0.1)),
    ("claude-opus-4-6", price(5.0, 25.0, 0.1)),
    ("claude-opus-4-5", price(5.0, 25.0, 0.1)),
    ("claude-opus-4-1", price(15.0, 75.0, 0.1)),
    ("claude-sonnet-5-5", price(2.0, 10.0, 0.05)),
    ("claude-sonnet-5", price(2.0, 10.0, 0.1)),
    ("claude-sonnet-4-6", price(3.0, 15.0, 0.1)),
    ("claude-sonnet-4-5", price(3.0, 15.0, 0.1)),
    ("claude-haiku-4-5", price(1.0, 5.0, 0.1)),
];

/// Returns the list price of a model at a vendor's own address.
pub(super) fn list_price(host: &str, model: &str) -> Option<TokenPrice> {
    match host {
        "api.anthropic.com" => find_price(ANTHROPIC, model),
        "api.openai.com" => codex::list_price(model),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vendors_price_counts_only_at_the_vendor() {
        let haiku = list_price("api.anthropic.com", "claude-haiku-4-5-20251001").unwrap();
        assert_eq!((haiku.input, haiku.output), (1.0, 5.0));
        assert!(list_price("api.openai.com", "gpt-5.5").is_some());
        for (host, model) in [
            ("proxy.example.com", "gpt-5.5"),
            ("api.openai.com", "claude-haiku-4-5"),
            ("api.anthropic.com", "claude-next"),
        ] {
            assert_eq!(list_price(host, model), None, "{host} {model}");
        }
    }
}
