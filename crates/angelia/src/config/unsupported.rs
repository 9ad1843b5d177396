//! Keys of the contract that do nothing in this version yet. A key that is accepted and ignored
//! would break a promise silently, so each one is refused by name. To implement a key, move its row
//! from here to the types.

use super::{node::ValueOrigin, problem::Problem};

/// The key's path (`*` stands for a name, and `: value` is added where only that value is meant),
/// and the feature it belongs to.
const UNSUPPORTED_KEYS: &[(&str, &str)] = &[
    ("profiles.*.executor: native", "further executors"),
    ("executors.native", "further executors"),
];

/// Returns the problem for a key, or for a value (`key_pattern: value`), of a later version.
pub(crate) fn refusal(
    shape: &str,
    path: &str,
    origin: &ValueOrigin,
    advice: &str,
) -> Option<Problem> {
    let (_, belongs_to) = UNSUPPORTED_KEYS.iter().find(|(later, _)| *later == shape)?;
    let what = format!("is not available in this version yet ({belongs_to}); {advice}");
    Some(Problem::new(origin, path, what))
}
