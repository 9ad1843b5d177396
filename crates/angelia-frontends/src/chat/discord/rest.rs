//! One request of the REST API, and what its error means. A request waits for its bucket.

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

/// Where the API is.
const DEFAULT_ADDRESS: &str = "https://discord.com";

/// The hosts of the gateway, and of files, where the API is Discord's own.
const GATEWAY_DOMAIN: &str = "discord.gg";
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

pub(super) const SERVER: &str = "Discord";
const JSON: &str = "application/json";

/// Discord wants to know the program.
const USER_AGENT: &str = concat!("DiscordBot (angelia, ", env!("CARGO_PKG_VERSION"), ")");

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// An answer to a press that comes later is not wanted any more.
const INTERACTION_TIMEOUT: Duration = Duration::from_secs(3);

/// A request does not wait longer than this for its bucket; its caller tries again.
const MAX_BUCKET_WAIT: Duration = Duration::from_secs(15);

/// Requests with the token of one bot.
pub(super) struct RestApi {
    client: Client,
    base: Url,
    /// The API is not Discord's own.
    is_other_server: bool,
    token: Arc<str>,
    buckets: Mutex<RateBuckets>,
}

/// A request, and the bucket that it counts against.
#[derive(Clone, Debug)]
pub(super) struct RestRoute {
    method: Method,
    path: String,
    key: BucketKey,
}

impl RestRoute {
    /// `route` names the method and the path without ids, `major` the channel.
    pub(super) fn new(method: Method, path: String, route: &'static str, major: &str) -> Self {
        Self { method, path, key: BucketKey { route, major: major.to_owned() } }
    }

    /// A request about the bot itself.
    pub(super) fn get(path: &'static str) -> Self {
        Self::new(Method::GET, path.to_owned(), path, "")
    }
}

#[derive(Debug)]
pub(super) enum RestError {
    Transport(SendError),
    Refused(RestRefusal),
}

/// An answer with an error.
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

    /// Makes a request, with JSON unless `body` is null. Waits for its bucket.
    pub(super) async fn call(&self, route: &RestRoute, body: &Value) -> Result<Value, RestError> {
        self.wait_for_bucket(&route.key).await?;
        let mut request = self.request(route);
        if !body.is_null() {
            request = request.header(header::CONTENT_TYPE, JSON).body(body.to_string());
        }
        self.send(&route.key, request).await
    }

    /// Makes a request with a form, for files.
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
        // The request itself takes the place.
        self.buckets.lock().free_at(&route.key, now).map_or(Ok(()), |at| Err(busy(at - now)))
    }

    /// Answers an interaction. Its token is in its id, so the bot's own stays here.
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
            // It was answered already, or is not known any more.
            Err(RestError::Refused(refusal)) if [40060, 10062].contains(&refusal.code) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Fetches a file from its address, without credentials.
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
            let message = format!("{SERVER} answered {} to the file", response.status());
            return Err(SendError::new(SendErrorKind::NotSent, message));
        }
        read_body(SERVER, response, limit).await
    }

    /// Returns the address of the gateway with our wishes. The token goes there, so it must be Discord's, or the
    /// server of `base_url`.
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

/// A request that its bucket does not let through now.
fn busy(wait: Duration) -> SendError {
    let error = SendError::new(SendErrorKind::NotSent, format!("{SERVER} wants a pause"));
    SendError { retry_after: Some(wait), ..error }
}

impl RestRefusal {
    /// How long Discord asks to wait.
    fn pause(&self) -> Option<Duration> {
        self.retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// What the owner can do about it.
    const fn advice(&self) -> &'static str {
        match self.code {
            50001 => "; let the bot see the channel",
            50007 => "; the person does not take direct messages of the bot",
            50013 => "; give the bot the permission to write there",
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
