//! Keys of the contract that do nothing in this version yet. A key that is accepted and ignored
//! would be a promise broken in silence, so each is refused by name; whoever makes one work
//! moves its row from here to the types.

use super::{node::Origin, problem::Problem};

/// Path (with `*` for a name, and `: value` where only a value is meant), and what it belongs to.
const LATER: &[(&str, &str)] = &[
    ("profiles.*.executor: native", "further executors"),
    ("executors.native", "further executors"),
];

/// The refusal for a key or a value (`shape: value`) of a later version.
pub(crate) fn refusal(shape: &str, path: &str, origin: &Origin, advice: &str) -> Option<Problem> {
    let (_, belongs_to) = LATER.iter().find(|(later, _)| *later == shape)?;
    let what = format!("is not available in this version yet ({belongs_to}); {advice}");
    Some(Problem::new(origin, path, what))
}
