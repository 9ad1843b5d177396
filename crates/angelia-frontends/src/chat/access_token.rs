//! An app's access token, cached while it is valid. Only one request at a time fetches a new one.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

/// How long before its expiry a token is replaced.
pub(super) const TOKEN_MARGIN: Duration = Duration::from_mins(5);

/// The access token that all requests of one app share.
#[derive(Default)]
pub(super) struct TokenCache {
    held: Mutex<Option<HeldToken>>,
}

struct HeldToken {
    value: Arc<str>,
    use_until: Instant,
}

/// A token that the platform has just issued.
pub(super) struct NewToken {
    pub(super) value: Arc<str>,
    pub(super) use_for: Duration,
}

impl TokenCache {
    /// Returns the cached token. Fetches a new one if the cached token has expired, or if it is the one
    /// that the platform `refused`.
    pub(super) async fn get<E>(
        &self,
        refused: Option<&str>,
        fetch: impl Future<Output = Result<NewToken, E>>,
    ) -> Result<Arc<str>, E> {
        let mut held = self.held.lock().await;
        let asked_at = Instant::now();
        if let Some(token) = &*held
            && asked_at < token.use_until
            && refused != Some(&*token.value)
        {
            return Ok(Arc::clone(&token.value));
        }
        let NewToken { value, use_for } = fetch.await?;
        *held = Some(HeldToken { value: Arc::clone(&value), use_until: asked_at + use_for });
        Ok(value)
    }
}
