//! Short lists that can only be read as a whole. They are compared with what was last reported, so
//! that a client gets only the resources that changed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

/// What was last reported of one list: the encoded resources by id.
#[derive(Debug, Default)]
pub(super) struct ResourceListState {
    known: BTreeMap<String, Vec<u8>>,
}

impl ResourceListState {
    /// Takes the current list. Returns the new and changed resources, and `{"id", "deleted": true}`
    /// for those that are gone.
    pub(super) fn update<T: Serialize>(
        &mut self,
        list: &[T],
        id: impl Fn(&T) -> String,
    ) -> Vec<Vec<u8>> {
        let mut changed = Vec::new();
        let mut now = BTreeMap::new();
        for resource in list {
            let (id, encoded) = (id(resource), encode(resource));
            if self.known.get(&id) != Some(&encoded) {
                changed.push(encoded.clone());
            }
            now.insert(id, encoded);
        }
        for id in self.known.keys().filter(|id| !now.contains_key(*id)) {
            changed.push(encode(&json!({"id": id, "deleted": true})));
        }
        self.known = now;
        changed
    }
}

pub(super) fn encode(resource: &impl Serialize) -> Vec<u8> {
    // Writing our own types to memory cannot fail.
    serde_json::to_vec(resource).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_what_has_changed_is_reported() {
        let mut state = ResourceListState::default();
        let mut update = |list: &[Value]| {
            let changed = state.update(list, |one| one["id"].as_str().unwrap().to_owned());
            changed.iter().map(|one| serde_json::from_slice(one).unwrap()).collect::<Vec<Value>>()
        };
        let (a, b) = (json!({"id": "a", "n": 1}), json!({"id": "b", "n": 1}));
        assert_eq!(update(&[a.clone(), b.clone()]), [a.clone(), b.clone()]);
        assert!(update(&[a.clone(), b.clone()]).is_empty());
        let changed = json!({"id": "b", "n": 2});
        assert_eq!(update(&[a, changed.clone()]), std::slice::from_ref(&changed));
        assert_eq!(update(&[changed]), [json!({"id": "a", "deleted": true})]);
    }
}
