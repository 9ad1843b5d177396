//! The sources of a provider's key, and the key itself, which is never printed.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::model::{Failure, FailureKind};
use sha2::{Digest as _, Sha256};

use super::{
    entra::EntraSettings,
    oauth::{OAuthSettings, login_file::LoginFile},
};
use crate::{ExecutorHost, native::provider::quirks::KeyHeader};

/// The number of digits of a key's hash that are shown, to tell keys apart.
const FINGERPRINT_DIGITS: usize = 8;

/// A source of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySource {
    /// An environment variable of this process.
    Env(Arc<str>),
    /// A file that contains only the key.
    File(PathBuf),
    /// A program and its arguments; it prints the key, or JSON with the key and its expiry.
    Command(Vec<Arc<str>>),
    /// A Microsoft Entra token.
    Entra(EntraSettings),
    /// An OAuth login.
    OAuth(OAuthSettings),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Command(words) => write!(f, "command {}", words.join(" ")),
            Self::Entra(_) => f.write_str("entra"),
            Self::OAuth(settings) => write!(f, "oauth {}", settings.server),
        }
    }
}

impl KeySource {
    /// Returns whether there is a key, without creating one; `None` if only creating one would
    /// tell. `logins` is the folder with the logins of this home.
    pub fn is_set(&self, variables: &BTreeMap<OsString, OsString>, logins: &Path) -> Option<bool> {
        match self {
            Self::Env(name) => Some(read_variable(name, variables).is_ok()),
            Self::File(path) => Some(read_file(path).is_ok()),
            Self::Command(_) | Self::Entra(_) => None,
            Self::OAuth(settings) => Some(LoginFile::of(settings, logins).exists()),
        }
    }

    /// Returns whether the key is created on demand, and can be renewed.
    pub const fn is_made(&self) -> bool {
        match self {
            Self::Env(_) | Self::File(_) => false,
            Self::Command(_) | Self::Entra(_) | Self::OAuth(_) => true,
        }
    }

    /// Returns the lane of requests with this key, which says who pays.
    pub const fn lane(&self) -> &'static str {
        match self {
            Self::Env(_) | Self::File(_) | Self::Command(_) => "api_key",
            Self::Entra(_) => "entra",
            Self::OAuth(_) => "oauth",
        }
    }

    /// Loads the key, or returns why there is none. The host masks it from then on.
    pub async fn load(&self, host: &ExecutorHost) -> Result<ProviderKey, String> {
        let key = match self {
            Self::Env(name) => read_variable(name, &host.environment),
            Self::File(path) => read_file(path),
            Self::Command(_) | Self::Entra(_) | Self::OAuth(_) => {
                host.providers.made_keys().read(self, host).await
            }
        }?;
        host.redactor.add([key.expose()]);
        Ok(key)
    }

    /// Renews a key that was not accepted, only once no matter how many sessions ask. Returns
    /// `None` if there is no other key.
    pub async fn renew(&self, refused: &ProviderKey, host: &ExecutorHost) -> Option<ProviderKey> {
        if !self.is_made() {
            return None;
        }
        host.providers.made_keys().forget(self, refused).await;
        self.load(host).await.ok()
    }
}

/// A key. `Debug` and `Display` show only its fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey {
    text: Arc<str>,
    /// The key is a bearer token, and is always sent as one.
    is_token: bool,
}

impl ProviderKey {
    /// Returns `None` if the text is empty or not allowed in a header.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        fits.then(|| Self { text: text.into(), is_token: false })
    }

    /// Returns the key itself, for the header of a request.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Marks the key as a bearer token.
    #[must_use]
    pub(super) fn into_token(self) -> Self {
        Self { is_token: true, ..self }
    }

    /// Returns the header for this key. `usual` is the header of the provider's own keys.
    pub(in crate::native) const fn header(&self, usual: KeyHeader) -> KeyHeader {
        if self.is_token { KeyHeader::Bearer } else { usual }
    }

    /// Returns eight hexadecimal digits that tell this key apart from others.
    pub fn fingerprint(&self) -> String {
        let mut digits = format!("{:x}", Sha256::digest(self.text.as_bytes()));
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

/// Returns the key of the first source that has one, for requests that run no model. Returns `None`
/// if there are no sources, so that requests carry no key.
pub async fn load_key(
    sources: &[KeySource],
    host: &ExecutorHost,
) -> Result<Option<ProviderKey>, Failure> {
    let mut missing = Vec::new();
    for source in sources {
        match source.load(host).await {
            Ok(key) => return Ok(Some(key)),
            Err(reason) => missing.push(reason),
        }
    }
    if missing.is_empty() { Ok(None) } else { Err(missing_key(&missing)) }
}

/// Returns the failure of a provider without a key. `reasons` say why each source has none.
pub(super) fn missing_key(reasons: &[String]) -> Failure {
    let message = format!("the provider's key is missing: {}", reasons.join("; "));
    Failure::new(FailureKind::Auth, message).with_hint(
        "provide it where angelia (or its daemon) is started, or name another source in `keys` of the \
         provider in config.yaml",
    )
}

fn read_variable(
    name: &str,
    variables: &BTreeMap<OsString, OsString>,
) -> Result<ProviderKey, String> {
    let value = variables.get(OsStr::new(name));
    match value.map(|value| value.to_str().unwrap_or_default()) {
        None | Some("") => Err(format!("the variable `{name}` is not set")),
        Some(value) => ProviderKey::new(value)
            .ok_or_else(|| format!("the variable `{name}` has characters that a key cannot have")),
    }
}

fn read_file(path: &Path) -> Result<ProviderKey, String> {
    let shown = path.display();
    match std::fs::read_to_string(path) {
        Ok(text) => ProviderKey::new(&text)
            .ok_or_else(|| format!("the file {shown} must contain one key and nothing else")),
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
