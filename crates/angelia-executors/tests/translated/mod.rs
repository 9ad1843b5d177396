//! What the tests of all translators share: how events are spelled, what holds for any of them, and
//! how recordings are damaged. Included by path; no test of its own. `recorded` and `asked` are for
//! those who name them.

pub(crate) mod context;
pub(crate) mod damage;
pub(crate) mod rules;
pub(crate) mod spell;
