//! Keys of the contract that have no effect in this version yet. Accepting and ignoring a key would
//! silently break a promise, so each one is refused by name. To implement a key, move its row from
//! here to the types.

use super::{node::ValueOrigin, problem::Problem};

/// The key's path (`*` stands for a name, `[]` for an item), and the feature it belongs to.
const UNSUPPORTED_KEYS: &[(&str, &str)] = &[
    ("fleet.address", "several machines"),
    ("fleet.bus", "several machines"),
    ("fleet.lease", "several machines"),
    ("profiles.*.machine", "several machines"),
    ("profiles.*.labels", "several machines"),
];

/// Returns the problem for a key of a later version.
pub(crate) fn refusal(shape: &str, path: &str, origin: &ValueOrigin) -> Option<Problem> {
    let (_, belongs_to) = UNSUPPORTED_KEYS.iter().find(|(later, _)| *later == shape)?;
    let what = format!("is not available in this version yet ({belongs_to}); remove it");
    Some(Problem::new(origin, path, what))
}
