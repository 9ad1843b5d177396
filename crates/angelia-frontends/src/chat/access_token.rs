//! The access token of an app: kept while it is valid, and fetched by one request at a time.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

/// A token is replaced this long before its end.
pub(super) const TOKEN_MARGIN: Duration = Duration::from_mins(5);

/// The token that requests of one app share.
#[derive(Default)]
pub(super) struct TokenCache {
    held: Mutex<Option<HeldToken>>,
}

struct HeldToken {
    value: Arc<str>,
    use_until: Instant,
}

/// A token as the platform has issued it.
pub(super) struct NewToken {
    pub(super) value: Arc<str>,
    pub(super) use_for: Duration,
}

impl TokenCache {
    /// Returns the token that is held, or fetches one: if its time is over, or if it is the one that the
    /// platform has `refused`.
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
