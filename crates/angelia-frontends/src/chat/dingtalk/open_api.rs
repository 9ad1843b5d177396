//! One request to DingTalk's API, the access token, and the meaning of errors.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, SendError, SendErrorKind};
use reqwest::{Client, Method, RequestBuilder, Response, Url, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::chat::{
    access_token::{NewToken, TOKEN_MARGIN, TokenCache},
    platform_http::{
        AddressProblem, build_client, classify_transport_error, parse_address, read_body,
        retry_after,
    },
};

const DEFAULT_ADDRESS: &str = "https://api.dingtalk.com";
/// Files are uploaded to the older API.
const DEFAULT_MEDIA_ADDRESS: &str = "https://oapi.dingtalk.com";

pub(super) const SERVER: &str = "DingTalk";
const JSON: &str = "application/json";
const TOKEN_HEADER: &str = "x-acs-dingtalk-access-token";

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause after a rate limit error that names none.
const LIMIT_PAUSE: Duration = Duration::from_secs(1);

/// The error code for a missing permission.
const NO_PERMISSION: &str = "AccessTokenPermissionDenied";

/// Sends requests with the credentials of one app.
pub(super) struct OpenApi {
    pub(super) client: Client,
    base: Url,
    media_base: Url,
    pub(super) client_id: Arc<str>,
    client_secret: Arc<str>,
    token: TokenCache,
}

#[derive(Debug)]
pub(super) enum OpenApiError {
    Transport(SendError),
    Refused(OpenApiRefusal),
}

/// An error response.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenApiRefusal {
    status: u16,
    code: String,
    message: String,
    /// The permissions that the app would need.
    scopes: Vec<String>,
    retry_after: Option<Duration>,
}

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    code: Value,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "accessdenieddetail")]
    denied: DeniedDetail,
}

#[derive(Default, Deserialize)]
struct DeniedDetail {
    #[serde(default, rename = "requiredScopes")]
    required_scopes: Vec<String>,
}

impl OpenApi {
    pub(super) fn new(
        base: Option<&str>,
        client_id: &str,
        client_secret: &str,
    ) -> Result<Self, AddressProblem> {
        Ok(Self {
            client: build_client(REQUEST_TIMEOUT)?,
            base: parse_address(base.unwrap_or(DEFAULT_ADDRESS))?,
            media_base: parse_address(base.unwrap_or(DEFAULT_MEDIA_ADDRESS))?,
            client_id: client_id.into(),
            client_secret: client_secret.into(),
            token: TokenCache::default(),
        })
    }

    /// Calls a method with the access token. If the platform rejects the token, tries once more
    /// with a new one.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, OpenApiError> {
        let (method, body) = (&method, body.to_string());
        self.with_token(|token| {
            let request = self.request(method.clone(), path).header(TOKEN_HEADER, token);
            request.body(body.clone())
        })
        .await
    }

    /// Requests a connection. This needs the credentials themselves, not a token.
    pub(super) async fn open_connection(&self, topics: &[&str]) -> Result<Value, OpenApiError> {
        let subscriptions: Vec<Value> =
            topics.iter().map(|topic| json!({"type": "CALLBACK", "topic": topic})).collect();
        let body = json!({
            "clientId": &*self.client_id,
            "clientSecret": &*self.client_secret,
            "subscriptions": subscriptions,
            "ua": concat!("angelia/", env!("CARGO_PKG_VERSION")),
            "localIp": "",
        });
        let request = self.request(Method::POST, "/v1.0/gateway/connections/open");
        send(request.body(body.to_string())).await
    }

    /// Uploads a file and returns the id by which a message can refer to it.
    pub(super) async fn upload(
        &self,
        kind: &str,
        content_type: &str,
        form: Vec<u8>,
    ) -> Result<String, OpenApiError> {
        let answer = self
            .with_token(|token| {
                let mut url = self.media_base.clone();
                url.set_path("/media/upload");
                url.query_pairs_mut().append_pair("access_token", token).append_pair("type", kind);
                let request = self.client.post(url).timeout(REQUEST_TIMEOUT * 10);
                request.header(header::CONTENT_TYPE, content_type).body(form.clone())
            })
            .await?;
        match answer["media_id"].as_str() {
            Some(id) => Ok(id.to_owned()),
            None => Err(OpenApiError::Refused(OpenApiRefusal {
                status: 400,
                message: answer["errmsg"].as_str().unwrap_or_default().to_owned(),
                ..OpenApiRefusal::default()
            })),
        }
    }

    /// Downloads a file from an address that the platform returned. The request carries no
    /// credentials.
    pub(super) async fn download(&self, address: &str, limit: u64) -> Result<Vec<u8>, SendError> {
        let refused = |message: String| SendError::new(SendErrorKind::Refused, message);
        let url = parse_address(address)
            .map_err(|_| refused(format!("{SERVER} gave no encrypted address for the file")))?;
        let request = self.client.get(url).timeout(REQUEST_TIMEOUT * 10);
        let response = request.send().await;
        let response = response.map_err(|error| classify_transport_error(SERVER, &error))?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(refused(format!("{SERVER} answered {status} for the file")));
        }
        read_body(SERVER, response, limit).await
    }

    pub(super) async fn check_credentials(&self) -> Result<(), OpenApiError> {
        self.access_token(None).await.map(drop)
    }

    async fn with_token(
        &self,
        build: impl Fn(&str) -> RequestBuilder,
    ) -> Result<Value, OpenApiError> {
        let token = self.access_token(None).await?;
        match send(build(&token)).await {
            Err(OpenApiError::Refused(refusal)) if refusal.is_about_token() => {
                let token = self.access_token(Some(&token)).await?;
                send(build(&token)).await
            }
            outcome => outcome,
        }
    }

    /// Returns a token that should be valid and is not the `refused` one.
    async fn access_token(&self, refused: Option<&str>) -> Result<Arc<str>, OpenApiError> {
        self.token.get(refused, self.fetch_token()).await
    }

    async fn fetch_token(&self) -> Result<NewToken, OpenApiError> {
        let body = json!({"appKey": &*self.client_id, "appSecret": &*self.client_secret});
        let request = self.request(Method::POST, "/v1.0/oauth2/accessToken");
        let answer = send(request.body(body.to_string())).await.map_err(|error| match error {
            // The actual request was not sent yet, so it cannot have arrived.
            OpenApiError::Transport(error) => {
                OpenApiError::Transport(SendError { kind: SendErrorKind::NotSent, ..error })
            }
            refused @ OpenApiError::Refused(_) => refused,
        })?;
        let Some(value) = answer["accessToken"].as_str() else {
            let message = format!("{SERVER} gave no access token");
            return Err(OpenApiError::Transport(SendError::new(SendErrorKind::NotSent, message)));
        };
        let lifetime = Duration::from_secs(answer["expireIn"].as_u64().unwrap_or_default());
        let use_for = lifetime.saturating_sub(TOKEN_MARGIN);
        Ok(NewToken { value: value.into(), use_for })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(path);
        self.client.request(method, url).header(header::CONTENT_TYPE, JSON)
    }
}

async fn send(request: RequestBuilder) -> Result<Value, OpenApiError> {
    let failed =
        |error: &reqwest::Error| OpenApiError::Transport(classify_transport_error(SERVER, error));
    let response = request.send().await.map_err(|error| failed(&error))?;
    if !response.status().is_success() {
        return Err(OpenApiError::Refused(read_refusal(response).await));
    }
    let status = response.status();
    let body = response.bytes().await.map_err(|error| failed(&error))?;
    let answer: Value = serde_json::from_slice(&body).map_err(|_not_json| {
        let message = format!("{SERVER} answered {status} without JSON");
        OpenApiError::Transport(SendError::new(SendErrorKind::Unknown, message))
    })?;
    // The older API reports errors in successful responses.
    match answer["errcode"].as_i64() {
        None | Some(0) => Ok(answer),
        Some(code) => Err(OpenApiError::Refused(OpenApiRefusal {
            status: 400,
            code: code.to_string(),
            message: answer["errmsg"].as_str().unwrap_or_default().to_owned(),
            ..OpenApiRefusal::default()
        })),
    }
}

async fn read_refusal(response: Response) -> OpenApiRefusal {
    let (status, retry_after) = (response.status().as_u16(), retry_after(&response));
    let body = response.bytes().await.unwrap_or_default();
    let body: ErrorBody = serde_json::from_slice(&body).unwrap_or_default();
    let code = match body.code {
        Value::String(code) => code,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    OpenApiRefusal {
        status,
        code,
        message: body.message,
        scopes: body.denied.required_scopes,
        retry_after,
    }
}

impl OpenApiRefusal {
    fn is_about_token(&self) -> bool {
        self.status == 401
            || ["InvalidAuthentication", "40014", "42001"]
                .iter()
                .any(|code| self.code.eq_ignore_ascii_case(code))
    }

    fn is_about_rate(&self) -> bool {
        let code = self.code.to_ascii_lowercase();
        let marks = ["qpslimit", "too.fast", "too.many", "toofast", "throttl", "flowcontrol"];
        self.status == 429 || marks.iter().any(|mark| code.contains(mark))
    }

    /// Returns the permissions that the app lacks, if they caused the error.
    pub(super) fn missing_permission(&self) -> Option<String> {
        let is_missing = self.code.contains(NO_PERMISSION) || !self.scopes.is_empty();
        is_missing.then(|| self.scopes.join(", "))
    }

    fn pause(&self) -> Option<Duration> {
        self.retry_after.or(self.is_about_rate().then_some(LIMIT_PAUSE))
    }
}

impl fmt::Display for OpenApiRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.status, self.code, self.message)
    }
}

impl From<OpenApiError> for SendError {
    fn from(error: OpenApiError) -> Self {
        let refusal = match error {
            OpenApiError::Transport(error) => return error,
            OpenApiError::Refused(refusal) => refusal,
        };
        let kind = match refusal.status {
            _ if refusal.is_about_rate() => SendErrorKind::NotSent,
            // The credentials may be accepted again after a change on the platform.
            _ if refusal.is_about_token() => SendErrorKind::NotSent,
            500.. => SendErrorKind::Unknown,
            _ => SendErrorKind::Refused,
        };
        let message = match refusal.missing_permission() {
            Some(scopes) => format!("the app has no permission for it in {SERVER}: {scopes}"),
            None => format!("{SERVER} refused it: {refusal}"),
        };
        Self { retry_after: refusal.pause(), ..Self::new(kind, message) }
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
        let (kind, message) = match refusal.status {
            400..=499 if !refusal.is_about_rate() => (
                ConnectionErrorKind::Refused,
                format!(
                    "{SERVER} does not accept the client id and secret ({refusal}); compare them with those of \
                     the app in open-dev.dingtalk.com"
                ),
            ),
            _ => (ConnectionErrorKind::Lost, format!("{SERVER} answered {refusal}")),
        };
        Self { retry_after: refusal.pause(), ..Self::new(kind, message) }
    }
}

impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApi").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}
