//! Where the key of a provider comes from, and the key itself, which is never printed.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{Failure, FailureKind};
use sha2::{Digest as _, Sha256};

use crate::ExecutorHost;

/// How many digits of a key's hash are shown, to tell keys apart.
const FINGERPRINT_DIGITS: usize = 8;

/// A place where a key may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySource {
    /// A variable of our own environment.
    Env(Arc<str>),
    /// A file with nothing else in it.
    File(PathBuf),
    /// A program and its arguments; it prints the key, or JSON with the key and its expiry.
    Command(Vec<Arc<str>>),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Command(words) => write!(f, "command {}", words.join(" ")),
        }
    }
}

impl KeySource {
    /// Returns whether there is a key, without running a command: `None` for one.
    pub fn is_set(&self, variables: &BTreeMap<OsString, OsString>) -> Option<bool> {
        match self {
            Self::Env(name) => Some(read_variable(name, variables).is_ok()),
            Self::File(path) => Some(read_file(path).is_ok()),
            Self::Command(_) => None,
        }
    }

    /// Reads the key, or says why there is none.
    async fn read(&self, host: &ExecutorHost) -> Result<ProviderKey, String> {
        match self {
            Self::Env(name) => read_variable(name, &host.environment),
            Self::File(path) => read_file(path),
            Self::Command(words) => host.providers.command_keys().read(words, host).await,
        }
    }
}

/// A key. `Debug` and `Display` show its fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey(Arc<str>);

impl ProviderKey {
    /// `None` if the text is empty or cannot stand in a header.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        fits.then(|| Self(text.into()))
    }

    /// Returns the key itself, for the header of a request.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns eight hexadecimal digits that tell this key apart from others.
    pub fn fingerprint(&self) -> String {
        let mut digits = format!("{:x}", Sha256::digest(self.0.as_bytes()));
        digits.truncate(FINGERPRINT_DIGITS);
        digits
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProviderKey({})", self.fingerprint())
    }
}

impl fmt::Display for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

/// Returns the key of the first source that has one, and has the host mask it from now on. `None`:
/// there are no sources, so requests carry no key.
pub async fn load_key(
    sources: &[KeySource],
    host: &ExecutorHost,
) -> Result<Option<ProviderKey>, Failure> {
    let mut missing = Vec::new();
    for source in sources {
        match source.read(host).await {
            Ok(key) => {
                host.redactor.add([key.expose()]);
                return Ok(Some(key));
            }
            Err(reason) => missing.push(reason),
        }
    }
    if missing.is_empty() {
        return Ok(None);
    }
    let message = format!("the provider's key is missing: {}", missing.join("; "));
    Err(Failure::new(FailureKind::Auth, message).with_hint(
        "provide it where angelia (or its daemon) is started, or name another source in `keys` of the \
         provider in config.yaml",
    ))
}

/// Forgets the keys that commands have printed, so that they are run again: one was not accepted.
pub fn forget_key(sources: &[KeySource], host: &ExecutorHost) {
    for source in sources {
        if let KeySource::Command(words) = source {
            host.providers.command_keys().forget(words);
        }
    }
}

fn read_variable(
    name: &str,
    variables: &BTreeMap<OsString, OsString>,
) -> Result<ProviderKey, String> {
    let value = variables.get(OsStr::new(name));
    match value.map(|value| value.to_str().unwrap_or_default()) {
        None | Some("") => Err(format!("the variable `{name}` is not set")),
        Some(value) => ProviderKey::new(value)
            .ok_or_else(|| format!("the variable `{name}` has characters that no key has")),
    }
}

fn read_file(path: &Path) -> Result<ProviderKey, String> {
    let shown = path.display();
    match std::fs::read_to_string(path) {
        Ok(text) => ProviderKey::new(&text)
            .ok_or_else(|| format!("the file {shown} has not one key in it, and nothing else")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("there is no file {shown}"))
        }
        Err(error) => Err(format!("the file {shown} cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = ProviderKey::new(" sk-something-secret\n").unwrap();
        assert_eq!(key.expose(), "sk-something-secret");
        assert_eq!(key.fingerprint().len(), 8);
        for text in [format!("{key:?}"), format!("{key}"), format!("{:#?}", Some(key.clone()))] {
            assert!(text.contains(&key.fingerprint()) && !text.contains("secret"), "{text}");
        }
        for unusable in ["", " \n", "two words", "two\nlines", "schlüssel", "a\0b"] {
            assert_eq!(ProviderKey::new(unusable), None, "{unusable:?}");
        }
    }
}
