//! Detects a model that goes in circles: the same call again and again, with the same result.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

/// A call that had the same result this many times is not run again.
const MAX_EQUAL_RESULTS: u32 = 3;

type Hash = [u8; 32];

/// The calls of a turn and their last results.
#[derive(Debug, Default)]
pub(super) struct RepeatGuard {
    results: HashMap<Hash, (Hash, u32)>,
}

impl RepeatGuard {
    /// Returns what to tell the model instead of running this call, if the model goes in circles.
    pub(super) fn objection(&self, name: &str, arguments: &str) -> Option<String> {
        let (_, times) = self.results.get(&hash(&[name, arguments]))?;
        (*times >= MAX_EQUAL_RESULTS).then(|| {
            format!(
                "this call was made {times} times with the same result, so it was not run again; \
                 try something else, or say what is missing"
            )
        })
    }

    pub(super) fn note(&mut self, name: &str, arguments: &str, result: &str) {
        let result = hash(&[result]);
        let entry = self.results.entry(hash(&[name, arguments])).or_insert((result, 0));
        if entry.0 == result {
            entry.1 += 1;
        } else {
            *entry = (result, 1);
        }
    }
}

fn hash(texts: &[&str]) -> Hash {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_equal_call_with_the_same_result_is_refused() {
        let mut guard = RepeatGuard::default();
        for _ in 0..3 {
            assert_eq!(guard.objection("read", "{}"), None);
            guard.note("read", "{}", "same");
        }
        assert!(guard.objection("read", "{}").unwrap().contains("3 times"));
        assert_eq!(guard.objection("read", r#"{"path":"b"}"#), None);
    }

    #[test]
    fn another_result_starts_anew() {
        let mut guard = RepeatGuard::default();
        for result in ["a", "a", "b", "b"] {
            assert_eq!(guard.objection("bash", "{}"), None);
            guard.note("bash", "{}", result);
        }
        assert_eq!(guard.objection("bash", "{}"), None);
    }
}
