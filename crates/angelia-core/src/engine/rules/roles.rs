//! Maps short keys (a tmux session, a word on the command line) to display names.

use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(BTreeMap<Arc<str>, Arc<str>>);

impl Roles {
    /// Returns the display name for a key. Any other text already is a name.
    pub fn name<'a>(&'a self, key: &'a str) -> &'a str {
        self.0.get(key).map_or(key, |name| name)
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for Roles {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}
