//! HTTP requests with a bearer token to a self-hosted chat server, and the meaning of its errors.
//! [`ServerWords`] holds whatever differs between platforms.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, SendError, SendErrorKind};
use reqwest::{Client, Method, RequestBuilder, Response, Url, header};
use serde::Deserialize;
use serde_json::Value;

use super::platform_http::{
    AddressProblem, build_client, classify_transport_error, parse_address, read_body, retry_after,
};

const JSON: &str = "application/json";

/// The time limit of a request, not counting the wait of a long poll.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// What differs between the servers of the platforms.
#[derive(Debug)]
pub(super) struct ServerWords {
    /// The server's name in error messages.
    pub(super) server: &'static str,
    /// The path prefix of all requests.
    pub(super) root: &'static [&'static str],
    /// What the owner can do if the server refuses the token.
    pub(super) bad_token: &'static str,
    /// What the owner can do if the bot lacks the permission to post.
    pub(super) forbidden: &'static str,
    /// The likely cause if the server does not know an endpoint.
    pub(super) other_server: &'static str,
}

/// Requests with the token of one bot.
pub(super) struct BearerApi {
    client: Client,
    base: Url,
    token: Arc<str>,
    words: &'static ServerWords,
}

/// A request, without its body.
#[derive(Clone, Debug)]
pub(super) struct ApiRequest<'a> {
    method: Method,
    path: Vec<&'a str>,
    /// Whether `path` is complete and gets no [`ServerWords::root`] in front.
    is_whole: bool,
    query: Vec<(&'a str, String)>,
    timeout: Duration,
}

impl<'a> ApiRequest<'a> {
    pub(super) fn new(method: Method, path: &[&'a str]) -> Self {
        let path = path.to_vec();
        Self { method, path, is_whole: false, query: Vec::new(), timeout: REQUEST_TIMEOUT }
    }

    pub(super) fn get(path: &[&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Creates a request whose path does not start with [`ServerWords::root`].
    pub(super) fn at(method: Method, path: &[&'a str]) -> Self {
        Self { is_whole: true, ..Self::new(method, path) }
    }

    pub(super) fn with(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Gives the server this much more time to answer.
    pub(super) fn wait(mut self, more: Duration) -> Self {
        self.timeout += more;
        self
    }
}

#[derive(Debug)]
pub(super) enum BearerError {
    Transport(SendError),
    Refused(ApiRefusal),
}

/// An error response.
#[derive(Clone, Debug)]
pub(super) struct ApiRefusal {
    pub(super) status: u16,
    /// The server's machine-readable error code.
    pub(super) code: String,
    said: String,
    /// How long the server asks us to wait.
    pub(super) pause: Option<Duration>,
    words: &'static ServerWords,
}

/// The fields of an error, as the platforms name them.
#[derive(Default, Deserialize)]
struct RefusalFields {
    #[serde(default, alias = "id")]
    errcode: String,
    #[serde(default, alias = "message")]
    error: String,
    retry_after_ms: Option<u64>,
}

impl BearerApi {
    pub(super) fn new(
        base: &str,
        token: &str,
        words: &'static ServerWords,
    ) -> Result<Self, AddressProblem> {
        let client = build_client(REQUEST_TIMEOUT)?;
        Ok(Self { client, base: parse_address(base)?, token: token.into(), words })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the URL of a WebSocket on the server.
    pub(super) fn socket_address(&self, path: &[&str]) -> String {
        let mut url = self.url(&ApiRequest::get(path));
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        // This cannot fail between web schemes.
        let _changed = url.set_scheme(scheme);
        url.into()
    }

    /// Makes a request. Sends `body` as JSON unless it is null.
    pub(super) async fn call(
        &self,
        request: &ApiRequest<'_>,
        body: &Value,
    ) -> Result<Value, BearerError> {
        let mut built = self.request(request);
        if !body.is_null() {
            built = built.header(header::CONTENT_TYPE, JSON).body(body.to_string());
        }
        self.read_json(self.send(built).await?).await
    }

    /// Makes a request for something that may not exist. Returns `None` if it does not, or if the bot may not
    /// see it.
    pub(super) async fn find(
        &self,
        request: &ApiRequest<'_>,
    ) -> Result<Option<Value>, BearerError> {
        match self.call(request, &Value::Null).await {
            Ok(found) => Ok(Some(found)),
            Err(BearerError::Refused(refusal)) if matches!(refusal.status, 400 | 403 | 404) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a request with a file's content as the body.
    pub(super) async fn upload(
        &self,
        request: &ApiRequest<'_>,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Value, BearerError> {
        let built = self.request(request).header(header::CONTENT_TYPE, content_type).body(body);
        self.read_json(self.send(built).await?).await
    }

    /// Downloads a file of at most `limit` bytes.
    pub(super) async fn download(
        &self,
        request: &ApiRequest<'_>,
        limit: u64,
    ) -> Result<Vec<u8>, BearerError> {
        let response = self.send(self.request(request)).await?;
        read_body(self.words.server, response, limit).await.map_err(BearerError::Transport)
    }

    fn url(&self, request: &ApiRequest<'_>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear();
            if !request.is_whole {
                path.extend(self.words.root);
            }
            path.extend(&request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        url
    }

    fn request(&self, request: &ApiRequest<'_>) -> RequestBuilder {
        let built = self.client.request(request.method.clone(), self.url(request));
        let built = built.timeout(request.timeout);
        built.header(header::AUTHORIZATION, format!("Bearer {}", self.token))
    }

    /// Returns the response if it is a success.
    async fn send(&self, request: RequestBuilder) -> Result<Response, BearerError> {
        let response = request.send().await.map_err(|error| self.cut(&error))?;
        let (status, asked) = (response.status(), retry_after(&response));
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|error| self.cut(&error))?;
        let fields: RefusalFields = serde_json::from_slice(&body).unwrap_or_default();
        let said = if fields.error.is_empty() { status.to_string() } else { fields.error };
        let pause = fields.retry_after_ms.map(Duration::from_millis).or(asked);
        Err(BearerError::Refused(ApiRefusal {
            status: status.as_u16(),
            code: fields.errcode,
            said,
            pause: pause.filter(|_| status == 429),
            words: self.words,
        }))
    }

    fn cut(&self, error: &reqwest::Error) -> BearerError {
        BearerError::Transport(classify_transport_error(self.words.server, error))
    }

    async fn read_json(&self, response: Response) -> Result<Value, BearerError> {
        let body = response.bytes().await.map_err(|error| self.cut(&error))?;
        serde_json::from_slice(&body).map_err(|_| {
            let message = format!("{} answered without JSON", self.words.server);
            BearerError::Transport(SendError::new(SendErrorKind::Unknown, message))
        })
    }
}

impl ApiRefusal {
    /// Returns what the owner can do about the error.
    const fn advice(&self) -> &'static str {
        match self.status {
            403 => self.words.forbidden,
            413 => "it is too large for this server",
            _ => "",
        }
    }
}

impl From<BearerError> for SendError {
    fn from(error: BearerError) -> Self {
        let refusal = match error {
            BearerError::Transport(error) => return error,
            BearerError::Refused(refusal) => refusal,
        };
        let kind = match refusal.status {
            // The message can still be sent, with another token or later.
            401 | 429 => SendErrorKind::NotSent,
            500.. => SendErrorKind::Unknown,
            _ => SendErrorKind::Refused,
        };
        let advice = refusal.advice();
        let gap = if advice.is_empty() { "" } else { "; " };
        let message = format!("{} refused it: {}{gap}{advice}", refusal.words.server, refusal.said);
        Self { retry_after: refusal.pause, ..Self::new(kind, message) }
    }
}

impl From<BearerError> for ConnectionError {
    fn from(error: BearerError) -> Self {
        let refusal = match error {
            BearerError::Transport(error) => {
                return Self::new(ConnectionErrorKind::Lost, error.message);
            }
            BearerError::Refused(refusal) => refusal,
        };
        let ApiRefusal { status, said, words, .. } = &refusal;
        let server = words.server;
        let (kind, message) = match status {
            401 => (
                ConnectionErrorKind::Refused,
                format!("{server} does not accept the token ({said}); {}", words.bad_token),
            ),
            404 => (ConnectionErrorKind::Lost, format!("{} ({said})", words.other_server)),
            status => (ConnectionErrorKind::Lost, format!("{server} answered {status}: {said}")),
        };
        Self { retry_after: refusal.pause, ..Self::new(kind, message) }
    }
}

impl fmt::Debug for BearerApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerApi").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}
