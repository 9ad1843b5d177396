//! One request to the REST API, and the meaning of its errors. A request waits for its rate limit bucket.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, SendError, SendErrorKind};
use parking_lot::Mutex;
use reqwest::{Client, Method, RequestBuilder, Response, Url, header};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::buckets::{BucketKey, LimitHeaders, RateBuckets};
use crate::chat::platform_http::{
    AddressProblem, build_client, classify_transport_error, parse_address, read_body, retry_after,
};

/// The default address of the API.
const DEFAULT_ADDRESS: &str = "https://discord.com";

/// The hosts of the gateway and of files when the API is Discord's own.
const GATEWAY_DOMAIN: &str = "discord.gg";
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

pub(super) const SERVER: &str = "Discord";
const JSON: &str = "application/json";

/// Discord requires clients to identify themselves.
const USER_AGENT: &str = concat!("DiscordBot (angelia, ", env!("CARGO_PKG_VERSION"), ")");

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The time limit for answering an interaction: Discord rejects later answers.
const INTERACTION_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest wait of a request for its bucket. After that, the caller retries.
const MAX_BUCKET_WAIT: Duration = Duration::from_secs(15);

/// Sends requests with the token of one bot.
pub(super) struct RestApi {
    client: Client,
    base: Url,
    /// Whether the API is on another server than Discord's.
    is_other_server: bool,
    token: Arc<str>,
    buckets: Mutex<RateBuckets>,
}

/// A request, and its rate limit bucket.
#[derive(Clone, Debug)]
pub(super) struct RestRoute {
    method: Method,
    path: String,
    key: BucketKey,
}

impl RestRoute {
    /// Creates a request. `route` names the method and the path without ids; `major` is the
    /// channel.
    pub(super) fn new(method: Method, path: String, route: &'static str, major: &str) -> Self {
        Self { method, path, key: BucketKey { route, major: major.to_owned() } }
    }

    /// Creates a GET request that concerns no channel.
    pub(super) fn get(path: &'static str) -> Self {
        Self::new(Method::GET, path.to_owned(), path, "")
    }
}

#[derive(Debug)]
pub(super) enum RestError {
    Transport(SendError),
    Refused(RestRefusal),
}

/// An error response.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RestRefusal {
    #[serde(skip)]
    pub(super) status: u16,
    #[serde(default)]
    pub(super) code: u64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    retry_after: Option<f64>,
    #[serde(default)]
    global: bool,
}

impl RestApi {
    pub(super) fn new(base: Option<&str>, token: &str) -> Result<Self, AddressProblem> {
        Ok(Self {
            client: build_client(REQUEST_TIMEOUT)?,
            base: parse_address(base.unwrap_or(DEFAULT_ADDRESS))?,
            is_other_server: base.is_some(),
            token: token.into(),
            buckets: Mutex::default(),
        })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Waits for the bucket, then makes a request. Sends `body` as JSON unless it is null.
    pub(super) async fn call(&self, route: &RestRoute, body: &Value) -> Result<Value, RestError> {
        self.wait_for_bucket(&route.key).await?;
        let mut request = self.request(route);
        if !body.is_null() {
            request = request.header(header::CONTENT_TYPE, JSON).body(body.to_string());
        }
        self.send(&route.key, request).await
    }

    /// Makes a request with a form that contains a file.
    pub(super) async fn upload(
        &self,
        route: &RestRoute,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Value, RestError> {
        self.wait_for_bucket(&route.key).await?;
        let request = self.request(route).header(header::CONTENT_TYPE, content_type);
        self.send(&route.key, request.timeout(REQUEST_TIMEOUT * 10).body(body)).await
    }

    /// Returns an error if a request would have to wait for its bucket.
    pub(super) fn check_bucket(&self, route: &RestRoute) -> Result<(), SendError> {
        let now = Instant::now();
        // The request itself takes the slot later.
        self.buckets.lock().free_at(&route.key, now).map_or(Ok(()), |at| Err(busy(at - now)))
    }

    /// Answers an interaction. Its id contains a token of its own, so the bot's token is not sent.
    pub(super) async fn answer_interaction(
        &self,
        id: &str,
        answer: &Value,
    ) -> Result<(), RestError> {
        let url = self.url(&format!("interactions/{id}/callback"));
        let request = self.client.post(url).timeout(INTERACTION_TIMEOUT);
        let request = request.header(header::CONTENT_TYPE, JSON).body(answer.to_string());
        let key = BucketKey { route: "POST callback", major: id.to_owned() };
        match self.send(&key, request).await {
            // The interaction was already answered, or has expired.
            Err(RestError::Refused(refusal)) if [40060, 10062].contains(&refusal.code) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Downloads a file without sending credentials.
    pub(super) async fn download(&self, address: &str, limit: u64) -> Result<Vec<u8>, SendError> {
        let refused = |message: &str| SendError::new(SendErrorKind::Refused, message);
        let url: Url = address.parse().map_err(|_| refused("the file has no address"))?;
        let host = url.host_str().unwrap_or_default();
        let is_known = url.scheme() == "https" && FILE_HOSTS.contains(&host);
        if !is_known && !self.is_own_server(&url) {
            return Err(refused("the file is not on a server of Discord"));
        }
        let response = self.client.get(url).send().await;
        let response = response.map_err(|error| classify_transport_error(SERVER, &error))?;
        if !response.status().is_success() {
            let message = format!("{SERVER} answered {} for the file", response.status());
            return Err(SendError::new(SendErrorKind::NotSent, message));
        }
        read_body(SERVER, response, limit).await
    }

    /// Returns the gateway's address with our options. It receives the token, so it must belong to Discord or
    /// be on the server of `base_url`.
    pub(super) fn gateway_url(&self, address: &str) -> Option<String> {
        let mut url: Url = address.parse().ok()?;
        let host = url.host_str()?;
        let is_discord = !self.is_other_server
            && url.scheme() == "wss"
            && (host == GATEWAY_DOMAIN || host.ends_with(&format!(".{GATEWAY_DOMAIN}")));
        let is_own = self.is_other_server && self.is_own_server(&url);
        if !is_discord && !is_own {
            return None;
        }
        url.set_query(Some("v=10&encoding=json"));
        Some(url.into())
    }

    /// Returns whether an address is on the server of the API.
    fn is_own_server(&self, url: &Url) -> bool {
        let port = |url: &Url| match (url.port(), url.scheme()) {
            (Some(port), _) => port,
            (None, "https" | "wss") => 443,
            (None, _) => 80,
        };
        url.host_str() == self.base.host_str() && port(url) == port(&self.base)
    }

    async fn wait_for_bucket(&self, key: &BucketKey) -> Result<(), RestError> {
        loop {
            let now = Instant::now();
            let Err(at) = self.buckets.lock().take(key, now) else { return Ok(()) };
            if at - now > MAX_BUCKET_WAIT {
                return Err(RestError::Transport(busy(at - now)));
            }
            sleep_until(at).await;
        }
    }

    fn request(&self, route: &RestRoute) -> RequestBuilder {
        let request = self.client.request(route.method.clone(), self.url(&route.path));
        request.header(header::AUTHORIZATION, format!("Bot {}", self.token))
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("api/v10/{path}"));
        url
    }

    async fn send(&self, key: &BucketKey, request: RequestBuilder) -> Result<Value, RestError> {
        let failed =
            |error: &reqwest::Error| RestError::Transport(classify_transport_error(SERVER, error));
        let request = request.header(header::USER_AGENT, USER_AGENT);
        let response = request.send().await.map_err(|error| failed(&error))?;
        if let Some(limits) = read_limits(&response) {
            self.buckets.lock().learn(key, limits, Instant::now());
        }
        let (status, asked) = (response.status(), retry_after(&response));
        let body = response.bytes().await.map_err(|error| failed(&error))?;
        if status.is_success() {
            return match serde_json::from_slice(&body) {
                Ok(answer) => Ok(answer),
                Err(_) if body.is_empty() => Ok(Value::Null),
                Err(_not_json) => {
                    let message = format!("{SERVER} answered {status} without JSON");
                    Err(RestError::Transport(SendError::new(SendErrorKind::Unknown, message)))
                }
            };
        }
        let mut refusal: RestRefusal = serde_json::from_slice(&body).unwrap_or_default();
        refusal.status = status.as_u16();
        if refusal.message.is_empty() {
            refusal.message = status.to_string();
        }
        if refusal.status == 429 {
            let asked = asked.map(|asked| asked.as_secs_f64());
            refusal.retry_after = refusal.retry_after.or(asked);
            let pause = refusal.pause().unwrap_or(Duration::from_secs(1));
            self.buckets.lock().close(key, pause, refusal.global, Instant::now());
        }
        Err(RestError::Refused(refusal))
    }
}

fn read_limits(response: &Response) -> Option<LimitHeaders> {
    let header = |name: &str| response.headers().get(name)?.to_str().ok();
    let reset_after: f64 = header("x-ratelimit-reset-after")?.parse().ok()?;
    Some(LimitHeaders {
        bucket: header("x-ratelimit-bucket").map(str::to_owned),
        remaining: header("x-ratelimit-remaining")?.parse().ok()?,
        reset_after: Duration::try_from_secs_f64(reset_after).ok()?,
    })
}

/// Returns the error for a request that would exceed its rate limit.
fn busy(wait: Duration) -> SendError {
    let error = SendError::new(SendErrorKind::NotSent, format!("{SERVER} wants a pause"));
    SendError { retry_after: Some(wait), ..error }
}

impl RestRefusal {
    /// Returns how long Discord asks us to wait.
    fn pause(&self) -> Option<Duration> {
        self.retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Returns what the owner can do about the error.
    const fn advice(&self) -> &'static str {
        match self.code {
            50001 => "; let the bot see the channel",
            50007 => "; the person does not accept direct messages from the bot",
            50013 => "; give the bot permission to write there",
            40005 => "; the file is too large for this server",
            _ => "",
        }
    }
}

impl From<RestError> for SendError {
    fn from(error: RestError) -> Self {
        let refusal = match error {
            RestError::Transport(error) => return error,
            RestError::Refused(refusal) => refusal,
        };
        let kind = match refusal.status {
            429 => SendErrorKind::NotSent,
            500.. => SendErrorKind::Unknown,
            _ => SendErrorKind::Refused,
        };
        let message = format!("{SERVER} refused it: {}{}", refusal.message, refusal.advice());
        Self { retry_after: refusal.pause(), ..Self::new(kind, message) }
    }
}

impl From<RestError> for ConnectionError {
    fn from(error: RestError) -> Self {
        let refusal = match error {
            RestError::Transport(error) => {
                let lost = Self::new(ConnectionErrorKind::Lost, error.message);
                return Self { retry_after: error.retry_after, ..lost };
            }
            RestError::Refused(refusal) => refusal,
        };
        let said = &refusal.message;
        let (kind, message) = match refusal.status {
            401 => (
                ConnectionErrorKind::Refused,
                format!(
                    "{SERVER} does not accept the token ({said}); reset it at \
                     https://discord.com/developers/applications, page Bot"
                ),
            ),
            status => (ConnectionErrorKind::Lost, format!("{SERVER} answered {status}: {said}")),
        };
        Self { retry_after: refusal.pause(), ..Self::new(kind, message) }
    }
}

impl fmt::Debug for RestApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestApi").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_to_discords_gateway_or_to_the_configured_server_only() {
        let own = RestApi::new(None, "t").unwrap();
        for good in ["wss://gateway.discord.gg", "wss://gateway-us-east1-b.discord.gg/"] {
            assert!(own.gateway_url(good).unwrap().ends_with("/?v=10&encoding=json"), "{good}");
        }
        for bad in
            ["ws://gateway.discord.gg", "wss://evildiscord.gg", "wss://discord.gg.evil.org", "x"]
        {
            assert_eq!(own.gateway_url(bad), None, "{bad}");
        }
        let other = RestApi::new(Some("http://127.0.0.1:5000"), "t").unwrap();
        assert!(other.gateway_url("ws://127.0.0.1:5000/gw").is_some());
        for bad in ["ws://127.0.0.1:5001/gw", "wss://gateway.discord.gg", "ws://localhost:5000"] {
            assert_eq!(other.gateway_url(bad), None, "{bad}");
        }
    }
}
