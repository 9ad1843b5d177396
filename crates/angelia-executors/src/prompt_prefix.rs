//! Fingerprint of everything under our control that precedes a conversation in the prompt. Two
//! turns with the same prefix can share a prompt cache.

use angelia_core::model::{LaunchFingerprint, SessionSpec};
use sha2::{Digest as _, Sha256};

use crate::pool::VERSION_COMPONENT;

/// Fingerprint components that do not change the prompt prefix.
const NON_PREFIX_COMPONENTS: [&str; 6] = [
    "history",
    "billing",
    "binary",
    "environment",
    "permissions",
    // The actual model is known only when a turn begins; the translator then adds it to the hash.
    "model",
];

/// Returns the fingerprint of the prompt prefix for this version of the program.
pub(crate) fn prefix_fingerprint(spec: &SessionSpec, version: &str) -> LaunchFingerprint {
    LaunchFingerprint::of(spec)
        .without(&NON_PREFIX_COMPONENTS)
        .with(VERSION_COMPONENT, [version.as_bytes()])
}

/// Adds the answering model to the prefix hash. The hash is then the same whether the profile names
/// the model or the program chose it.
pub(crate) fn hash_with_model(prefix_sha256: &str, model: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(prefix_sha256.as_bytes());
    hash.update(model.unwrap_or_default());
    format!("{:x}", hash.finalize())
}
