//! Vendors' list prices: looks up a model in a price table, and builds the failure for a model
//! without a price.

use angelia_core::model::{Failure, FailureKind, TokenPrice};

/// Prices by model id, in US dollars per million tokens.
pub(crate) type PriceTable = [(&'static str, TokenPrice)];

/// Returns a model's price. A dated id has the price of its family.
pub(crate) fn find_price(table: &PriceTable, model: &str) -> Option<TokenPrice> {
    let family = without_date(model);
    table.iter().find(|(id, _)| *id == family).map(|(_, price)| *price)
}

/// Builds the failure of a turn whose cost limit cannot be enforced. `setting` is the setting that
/// the owner can add; `as_of` is the date of the price table.
pub(crate) fn unknown_price(model: &str, setting: &str, as_of: &str) -> Failure {
    let message = format!("the turn has a cost limit, and the price of `{model}` is unknown");
    let hint = format!(
        "set `{setting}` (US dollars per million tokens) in config.yaml, or remove the limit; the \
         built-in prices date from {as_of}"
    );
    Failure::new(FailureKind::Invalid, message).with_hint(hint)
}

/// Strips the release date from a model id: `gpt-5.4-2026-03-05` becomes `gpt-5.4`, and
/// `claude-haiku-4-5-20251001` becomes `claude-haiku-4-5`.
fn without_date(model: &str) -> &str {
    let before = |shape: &str| {
        let (family, date) = model.split_at_checked(model.len().checked_sub(shape.len())?)?;
        let fits = |(byte, shape): (u8, u8)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape,
        };
        date.bytes().zip(shape.bytes()).all(fits).then_some(family)
    };
    before("-0000-00-00").or_else(|| before("-00000000")).unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: TokenPrice =
        TokenPrice { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 1.25 };

    #[test]
    fn dated_ids_have_the_price_of_their_family() {
        let table = [("gpt-5.4", PRICE), ("claude-haiku-4-5", PRICE)];
        for known in ["gpt-5.4", "gpt-5.4-2026-03-05", "claude-haiku-4-5-20251001"] {
            assert_eq!(find_price(&table, known), Some(PRICE), "{known}");
        }
        for unknown in
            ["gpt-5.4-mini", "gpt-5.4-2026-03", "gpt-99", "", "-2026-03-05", "ü2026-03-05"]
        {
            assert_eq!(find_price(&table, unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_owner_is_told_what_to_write() {
        let failure = unknown_price("m", "prices: {m: {input: …, output: …}}", "2026-11-05");
        insta::assert_snapshot!(failure, @"the turn has a cost limit, and the price of `m` is unknown; set `prices: {m: {input: …, output: …}}` (US dollars per million tokens) in config.yaml, or remove the limit; the built-in prices date from 2026-11-05");
    }
}
