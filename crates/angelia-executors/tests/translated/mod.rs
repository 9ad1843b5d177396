//! Shared support for the tests of all translators: formatting events for snapshots, event rules,
//! and damaging recordings. Included by path; contains no tests. `recorded` and `asked` are
//! included separately by the tests that need them.

pub(crate) mod context;
pub(crate) mod damage;
pub(crate) mod format;
pub(crate) mod rules;
