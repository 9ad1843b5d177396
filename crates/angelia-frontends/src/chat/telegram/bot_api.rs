//! One request to the Bot API, and the meaning of its errors.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, SendError, SendErrorKind};
use reqwest::{Client, RequestBuilder, Url, header};
use serde::Deserialize;
use serde_json::Value;

use super::super::platform_http::{
    AddressProblem, build_client, classify_transport_error, parse_address, read_body,
};

/// The default address of the Bot API.
const DEFAULT_ADDRESS: &str = "https://api.telegram.org";

const SERVER: &str = "Telegram";
const JSON: &str = "application/json";

/// The time limit of a request, not counting the wait of a long poll.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Sends requests with the token of one bot. Every path contains the token, so no path is ever
/// shown.
pub(super) struct BotApi {
    client: Client,
    base: Url,
    token: Arc<str>,
}

#[derive(Debug)]
pub(super) enum ApiError {
    Transport(SendError),
    Refused(Refusal),
}

/// A response with `"ok": false`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) error_code: u16,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    parameters: RefusalParameters,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct RefusalParameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    result: Value,
    #[serde(flatten)]
    refusal: Refusal,
}

impl BotApi {
    pub(super) fn new(base: Option<&str>, token: &str) -> Result<Self, AddressProblem> {
        let base = parse_address(base.unwrap_or(DEFAULT_ADDRESS))?;
        Ok(Self { client: build_client(REQUEST_TIMEOUT)?, base, token: token.into() })
    }

    /// Calls a method with a JSON body.
    pub(super) async fn call(&self, method: &str, body: &Value) -> Result<Value, ApiError> {
        self.send(self.request(method, JSON).body(body.to_string())).await
    }

    /// Like [`BotApi::call`], for a method that waits up to `wait` before it answers.
    pub(super) async fn call_and_wait(
        &self,
        method: &str,
        body: &Value,
        wait: Duration,
    ) -> Result<Value, ApiError> {
        let request = self.request(method, JSON).timeout(REQUEST_TIMEOUT + wait);
        self.send(request.body(body.to_string())).await
    }

    /// Calls a method with a form that contains a file.
    pub(super) async fn upload(
        &self,
        method: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Value, ApiError> {
        let request = self.request(method, content_type).timeout(REQUEST_TIMEOUT * 10);
        self.send(request.body(body)).await
    }

    /// Downloads a file by the path from `getFile`.
    pub(super) async fn download(&self, path: &str, limit: u64) -> Result<Vec<u8>, SendError> {
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !path.split('/').all(is_plain) {
            return Err(SendError::new(SendErrorKind::Refused, "the path of the file is invalid"));
        }
        let url = self.url(&format!("file/bot{}/{path}", self.token));
        let failed = |error: &reqwest::Error| classify_transport_error(SERVER, error);
        let response = self.client.get(url).send().await;
        let response = response.map_err(|error| failed(&error))?;
        if !response.status().is_success() {
            let message = format!("{SERVER} answered {} for the file", response.status());
            return Err(SendError::new(SendErrorKind::NotSent, message));
        }
        read_body(SERVER, response, limit).await
    }

    fn request(&self, method: &str, content_type: &str) -> RequestBuilder {
        let url = self.url(&format!("bot{}/{method}", self.token));
        self.client.post(url).header(header::CONTENT_TYPE, content_type)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }

    async fn send(&self, request: RequestBuilder) -> Result<Value, ApiError> {
        let failed =
            |error: &reqwest::Error| ApiError::Transport(classify_transport_error(SERVER, error));
        let response = request.send().await.map_err(|error| failed(&error))?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| failed(&error))?;
        match serde_json::from_slice::<Answer>(&body) {
            Ok(answer) if answer.ok => Ok(answer.result),
            Ok(answer) => Err(ApiError::Refused(answer.refusal)),
            Err(_not_json) => {
                let message = format!("{SERVER} answered {status} without JSON");
                Err(ApiError::Transport(SendError::new(SendErrorKind::Unknown, message)))
            }
        }
    }
}

impl Refusal {
    /// Returns whether Telegram could not parse the HTML, or rejects the formatting.
    pub(super) fn is_about_formatting(&self) -> bool {
        self.error_code == 400 && self.description.to_ascii_lowercase().contains("entit")
    }

    /// Returns whether the message already has the new content.
    pub(super) fn is_not_modified(&self) -> bool {
        self.description.contains("message is not modified")
    }

    /// Returns whether the press was answered too late or is unknown.
    pub(super) fn is_old_query(&self) -> bool {
        self.description.contains("query is too old")
            || self.description.contains("query ID is invalid")
    }

    /// Returns whether the server lacks this method.
    pub(super) fn is_unknown_method(&self) -> bool {
        self.error_code == 404
    }

    /// Returns the new id of a group that became a supergroup.
    pub(super) const fn moved_to(&self) -> Option<i64> {
        self.parameters.migrate_to_chat_id
    }
}

impl From<ApiError> for SendError {
    fn from(error: ApiError) -> Self {
        let refusal = match error {
            ApiError::Transport(error) => return error,
            ApiError::Refused(refusal) => refusal,
        };
        let kind = match refusal.error_code {
            429 => SendErrorKind::NotSent,
            500.. => SendErrorKind::Unknown,
            _ => SendErrorKind::Refused,
        };
        let message = format!("{SERVER} refused it: {}", refusal.description);
        let retry_after = refusal.parameters.retry_after.map(Duration::from_secs);
        Self { retry_after, ..Self::new(kind, message) }
    }
}

impl From<ApiError> for ConnectionError {
    fn from(error: ApiError) -> Self {
        let refusal = match error {
            ApiError::Transport(error) => {
                return Self::new(ConnectionErrorKind::Lost, error.message);
            }
            ApiError::Refused(refusal) => refusal,
        };
        let said = &refusal.description;
        let (kind, message) = match refusal.error_code {
            401 | 404 => (
                ConnectionErrorKind::Refused,
                format!(
                    "{SERVER} does not accept the token ({said}); get a new one from @BotFather"
                ),
            ),
            409 => (
                ConnectionErrorKind::Lost,
                format!(
                    "another program receives with this token ({said}); stop it, or use another bot"
                ),
            ),
            code => (ConnectionErrorKind::Lost, format!("{SERVER} answered {code}: {said}")),
        };
        let retry_after = refusal.parameters.retry_after.map(Duration::from_secs);
        Self { retry_after, ..Self::new(kind, message) }
    }
}

impl fmt::Debug for BotApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotApi").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}
