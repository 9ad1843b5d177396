//! The prices of models.

use angelia_core::model::TokenPrice;
use serde::Serialize;

use crate::config::{
    schema::inline_schema,
    setting::{TextSetting, settings},
};

settings! {
    /// The price of a model's tokens, in US dollars per million.
    ModelPrice {
        /// Tokens that the model reads.
        input: PricePerMillion = PricePerMillion(0.0),
        /// Tokens that the model writes.
        output: PricePerMillion = PricePerMillion(0.0),
        /// Tokens read from the cache; without it they cost as much as input.
        cache_read: Option<PricePerMillion> = None,
        /// Tokens written to the cache; without it they cost as much as input.
        cache_write: Option<PricePerMillion> = None,
    }
}

impl From<&ModelPrice> for TokenPrice {
    fn from(price: &ModelPrice) -> Self {
        let input = price.input;
        Self {
            input: input.0,
            output: price.output.0,
            cache_read: price.cache_read.unwrap_or(input).0,
            cache_write: price.cache_write.unwrap_or(input).0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct PricePerMillion(pub(crate) f64);

inline_schema!(PricePerMillion, {"type": "number", "minimum": 0});

impl TextSetting for PricePerMillion {
    const EXPECTS: &'static str = "US dollars per million tokens, such as 2.50";

    fn parse(text: &str) -> Option<Self> {
        let amount: f64 = text.parse().ok()?;
        (amount.is_finite() && amount >= 0.0).then_some(Self(amount))
    }
}
