//! One request to the open API with the app's token, and the meaning of its errors. The token is renewed before
//! it expires, and once more if the platform says that it is invalid.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, SendError, SendErrorKind};
use bytes::Bytes;
use futures_util::TryFutureExt as _;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::chat::{
    access_token::{NewToken, TOKEN_MARGIN, TokenCache},
    platform_http::{
        AddressProblem, build_client, classify_transport_error, parse_address, read_body,
        retry_after,
    },
};

/// The address of Feishu's open API. Lark needs another `base_url`.
const DEFAULT_ADDRESS: &str = "https://open.feishu.cn";

pub(super) const SERVER: &str = "Feishu";
const JSON: &str = "application/json; charset=utf-8";

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(3);

/// The pause after "too many requests" without a stated pause.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// How much of the platform's error text is shown.
const MAX_WORDS: usize = 300;

/// Sends the requests of one app. Credentials and tokens go to one server and are never shown.
pub(super) struct OpenApi {
    client: Client,
    base: Url,
    pub(super) app_id: Arc<str>,
    app_secret: Arc<str>,
    token: TokenCache,
}

/// A request that can be repeated with another token.
#[derive(Clone, Debug)]
pub(super) struct ApiRequest {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<(String, Bytes)>,
    timeout: Duration,
}

impl ApiRequest {
    /// Creates a request. `path` comes after `/open-apis/`.
    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { method, path, query: Vec::new(), body: None, timeout: REQUEST_TIMEOUT }
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn json(mut self, body: &Value) -> Self {
        self.body = Some((JSON.to_owned(), body.to_string().into()));
        self
    }

    /// Sets a form with a file as the body.
    pub(super) fn form(mut self, content_type: String, body: Vec<u8>) -> Self {
        self.body = Some((content_type, body.into()));
        self.timeout = UPLOAD_TIMEOUT;
        self
    }
}

#[derive(Debug)]
pub(super) enum OpenApiError {
    Transport(SendError),
    Refused(Refusal),
}

/// A response whose code is not zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) words: String,
    status: u16,
    retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct Answer {
    code: i64,
    #[serde(default)]
    msg: String,
}

impl OpenApi {
    pub(super) fn new(
        base: Option<&str>,
        app_id: &str,
        app_secret: &str,
    ) -> Result<Self, AddressProblem> {
        Ok(Self {
            client: build_client(REQUEST_TIMEOUT)?,
            base: parse_address(base.unwrap_or(DEFAULT_ADDRESS))?,
            app_id: app_id.into(),
            app_secret: app_secret.into(),
            token: TokenCache::default(),
        })
    }

    /// Sends a request and returns the whole response.
    pub(super) async fn call(&self, request: &ApiRequest) -> Result<Value, OpenApiError> {
        let token = self.token(None).await?;
        match read_answer(self.send(request, &token).await?).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_about_token() => {
                let token = self.token(Some(&token)).await?;
                read_answer(self.send(request, &token).await?).await
            }
            outcome => outcome,
        }
    }

    /// Downloads a file of at most `limit` bytes.
    pub(super) async fn download(
        &self,
        request: &ApiRequest,
        limit: u64,
    ) -> Result<Vec<u8>, SendError> {
        let token = self.token(None).await?;
        let mut response = self.send(request, &token).await?;
        if !response.status().is_success() {
            match read_answer(response).await {
                Err(OpenApiError::Refused(refusal)) if refusal.is_about_token() => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    let message = format!("{SERVER} has no such file");
                    return Err(SendError::new(SendErrorKind::Refused, message));
                }
            }
            let token = self.token(Some(&token)).await?;
            response = self.send(request, &token).await?;
            if !response.status().is_success() {
                let refused = read_answer(response).await.err();
                let missing = || SendError::new(SendErrorKind::Refused, "there is no such file");
                return Err(refused.map_or_else(missing, Into::into));
            }
        }
        read_body(SERVER, response, limit).await
    }

    /// Requests the address of a WebSocket. This needs the app's secret instead of a token.
    pub(super) async fn open_endpoint(&self) -> Result<Value, OpenApiError> {
        let body = json!({"AppID": &*self.app_id, "AppSecret": &*self.app_secret});
        let request = self.client.post(self.url("callback/ws/endpoint"));
        let request = request.header(header::CONTENT_TYPE, JSON).body(body.to_string());
        read_answer(send_request(request).await?).await
    }

    /// Returns a token that should be valid and is not the `refused` one.
    async fn token(&self, refused: Option<&str>) -> Result<Arc<str>, OpenApiError> {
        let fetch = self.fetch_token().map_err(|error| match error {
            // The actual request was not sent yet, so it cannot have arrived.
            OpenApiError::Transport(error) => {
                OpenApiError::Transport(SendError { kind: SendErrorKind::NotSent, ..error })
            }
            refused @ OpenApiError::Refused(_) => refused,
        });
        self.token.get(refused, fetch).await
    }

    async fn fetch_token(&self) -> Result<NewToken, OpenApiError> {
        let body = json!({"app_id": &*self.app_id, "app_secret": &*self.app_secret});
        let url = self.url("open-apis/auth/v3/tenant_access_token/internal");
        let request = self.client.post(url).header(header::CONTENT_TYPE, JSON);
        let answer = read_answer(send_request(request.body(body.to_string())).await?).await?;
        let Some(value) = answer["tenant_access_token"].as_str() else {
            return Err(OpenApiError::Transport(no_answer("no token")));
        };
        let lifetime = Duration::from_secs(answer["expire"].as_u64().unwrap_or_default());
        // A token whose lifetime is shorter than the margin is used for half of it.
        let use_for = lifetime.saturating_sub(TOKEN_MARGIN).max(lifetime / 2);
        Ok(NewToken { value: value.into(), use_for })
    }

    async fn send(&self, request: &ApiRequest, token: &str) -> Result<Response, OpenApiError> {
        let mut url = self.url(&format!("open-apis/{}", request.path));
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        let mut sent = self.client.request(request.method.clone(), url);
        sent = sent.bearer_auth(token).timeout(request.timeout);
        if let Some((content_type, body)) = &request.body {
            sent = sent.header(header::CONTENT_TYPE, content_type).body(body.clone());
        }
        send_request(sent).await
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }
}

async fn send_request(request: RequestBuilder) -> Result<Response, OpenApiError> {
    let sent = request.send().await;
    sent.map_err(|error| OpenApiError::Transport(classify_transport_error(SERVER, &error)))
}

async fn read_answer(response: Response) -> Result<Value, OpenApiError> {
    let status = response.status();
    // The platform's gateway states the pause in its own header.
    let reset = response.headers().get("x-ogw-ratelimit-reset");
    let reset = reset.and_then(|seconds| seconds.to_str().ok()?.trim().parse().ok());
    let pause = reset.map(Duration::from_secs).or_else(|| retry_after(&response));
    let body = response.bytes().await;
    let body =
        body.map_err(|error| OpenApiError::Transport(classify_transport_error(SERVER, &error)))?;
    let answer = serde_json::from_slice::<Value>(&body).ok();
    let read = answer.and_then(|whole| Some((Answer::deserialize(&whole).ok()?, whole)));
    match read {
        Some((Answer { code: 0, .. }, whole)) if status.is_success() => Ok(whole),
        Some((Answer { code, msg }, _)) => Err(OpenApiError::Refused(Refusal {
            code,
            words: msg.chars().take(MAX_WORDS).collect(),
            status: status.as_u16(),
            retry_after: pause,
        })),
        None if status == StatusCode::TOO_MANY_REQUESTS => Err(OpenApiError::Refused(Refusal {
            status: status.as_u16(),
            retry_after: pause,
            words: "too many requests".to_owned(),
            ..Refusal::default()
        })),
        None => Err(OpenApiError::Transport(no_answer(&format!("{status} without JSON")))),
    }
}

fn no_answer(what: &str) -> SendError {
    SendError::new(SendErrorKind::Unknown, format!("{SERVER} answered with {what}"))
}

impl Refusal {
    fn is_about_token(&self) -> bool {
        matches!(self.code, 99_991_663..=99_991_666 | 99_991_668 | 99_991_677)
    }

    fn is_too_fast(&self) -> bool {
        let by_code = matches!(
            self.code,
            99_991_400 | 99_991_402 | 11_020 | 11_021 | 11_232 | 11_233 | 1_000_004 | 1_000_005
        );
        // This code has two meanings, which only the text tells apart.
        let words = self.words.to_ascii_lowercase();
        let says_so = self.code == 230_020
            && ["frequen", "rate", "limit", "too fast", "too many"]
                .iter()
                .any(|word| words.contains(word));
        self.status == 429 || by_code || says_so
    }

    /// Returns whether the platform rejected the card itself: its syntax or its size.
    pub(super) const fn is_about_content(&self) -> bool {
        matches!(
            self.code,
            230_001 | 230_022 | 230_025 | 230_099 | 11_310 | 200_621 | 200_380 | 300_305
        )
    }

    /// Returns whether the message to answer is gone.
    pub(super) const fn is_about_reply(&self) -> bool {
        matches!(self.code, 230_011 | 231_003 | 230_019 | 230_071)
    }

    /// Returns whether the card no longer streams.
    pub(super) const fn is_closed_stream(&self) -> bool {
        matches!(self.code, 200_850 | 300_309)
    }

    pub(super) const fn is_old_sequence(&self) -> bool {
        self.code == 300_317
    }

    /// Returns whether the app lacks a permission.
    pub(super) const fn is_missing_scope(&self) -> bool {
        matches!(self.code, 99_991_672 | 99_991_679)
    }

    /// Returns whether the platform is only busy.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self.code, 1 | 1_000_040_343 | 1_000_040_350)
            || self.status != 200
            || self.is_too_fast()
    }

    /// Returns whether the platform does not know the app or rejects its secret.
    pub(super) const fn is_about_app(&self) -> bool {
        matches!(self.code, 10_003 | 10_005 | 10_012 | 10_014 | 10_015)
    }
}

impl From<OpenApiError> for SendError {
    fn from(error: OpenApiError) -> Self {
        let refusal = match error {
            OpenApiError::Transport(error) => return error,
            OpenApiError::Refused(refusal) => refusal,
        };
        let message = format!("{SERVER} refused it: {} ({})", refusal.words, refusal.code);
        if refusal.is_too_fast() {
            let pause = refusal.retry_after.unwrap_or(DEFAULT_PAUSE);
            let error = Self::new(SendErrorKind::NotSent, message);
            return Self { retry_after: Some(pause), ..error };
        }
        let kind = match refusal.status {
            500.. => SendErrorKind::Unknown,
            _ if refusal.is_about_token() => SendErrorKind::NotSent,
            _ => SendErrorKind::Refused,
        };
        Self::new(kind, message)
    }
}

impl From<OpenApiError> for ConnectionError {
    fn from(error: OpenApiError) -> Self {
        let refusal = match error {
            OpenApiError::Transport(error) => {
                return Self::new(ConnectionErrorKind::Lost, error.message);
            }
            OpenApiError::Refused(refusal) => refusal,
        };
        let said = format!("{} ({})", refusal.words, refusal.code);
        if refusal.is_about_app() {
            let message = format!(
                "{SERVER} does not accept the app ID and secret ({said}); copy them from the page \
                 \"Credentials & Basic Info\" of the app, and for Lark set base_url: \
                 https://open.larksuite.com"
            );
            return Self::new(ConnectionErrorKind::Refused, message);
        }
        let message = format!("{SERVER} answered: {said}");
        let retry_after = refusal.retry_after.filter(|_| refusal.is_too_fast());
        Self { retry_after, ..Self::new(ConnectionErrorKind::Lost, message) }
    }
}

impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApi")
            .field("host", &self.base.host_str())
            .field("app_id", &self.app_id)
            .finish_non_exhaustive()
    }
}
