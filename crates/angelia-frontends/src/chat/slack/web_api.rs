//! One request to the Web API, and the meaning of its errors.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, SendError, SendErrorKind};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header};
use serde::Deserialize;
use serde_json::Value;

use super::super::platform_http::{
    AddressProblem, build_client, classify_transport_error, parse_address, read_body, retry_after,
};

const DEFAULT_ADDRESS: &str = "https://slack.com";

pub(super) const SERVER: &str = "Slack";
const JSON: &str = "application/json; charset=utf-8";
const FORM: &str = "application/x-www-form-urlencoded";

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const FILE_TIMEOUT: Duration = Duration::from_secs(200);

/// The header that lists the scopes of a token.
const SCOPES_HEADER: &str = "x-oauth-scopes";

/// Sends requests with the tokens of one app.
pub(super) struct WebApi {
    client: Client,
    base: Url,
    /// Slack serves files from other hosts too; any other server must serve them itself.
    is_slack_itself: bool,
    bot_token: Arc<str>,
    app_token: Arc<str>,
}

#[derive(Debug)]
pub(super) enum WebApiError {
    Transport(SendError),
    Refused(SlackRefusal),
}

/// A response with `"ok": false`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SlackRefusal {
    #[serde(default, rename = "error")]
    pub(super) code: String,
    /// The missing scope.
    needed: Option<String>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct WebApiAnswer {
    ok: bool,
    #[serde(flatten)]
    refusal: SlackRefusal,
}

impl WebApi {
    pub(super) fn new(
        base: Option<&str>,
        bot_token: &str,
        app_token: &str,
    ) -> Result<Self, AddressProblem> {
        Ok(Self {
            client: build_client(REQUEST_TIMEOUT)?,
            base: parse_address(base.unwrap_or(DEFAULT_ADDRESS))?,
            is_slack_itself: base.is_none(),
            bot_token: bot_token.into(),
            app_token: app_token.into(),
        })
    }

    /// Calls a method as the bot.
    pub(super) async fn call(&self, method: &str, body: &Value) -> Result<Value, WebApiError> {
        let request = self.request(method, &self.bot_token, JSON);
        Ok(send(request.body(body.to_string())).await?.0)
    }

    /// Calls a method as the bot with a form, for methods that take no JSON.
    pub(super) async fn call_with_form(
        &self,
        method: &str,
        fields: &[(&str, &str)],
    ) -> Result<Value, WebApiError> {
        let mut encoded = self.base.clone();
        encoded.query_pairs_mut().clear().extend_pairs(fields);
        let body = encoded.query().unwrap_or_default().to_owned();
        Ok(send(self.request(method, &self.bot_token, FORM).body(body)).await?.0)
    }

    /// Returns the bot's identity and the scopes of its token.
    pub(super) async fn test_token(&self) -> Result<(Value, Option<String>), WebApiError> {
        let request = self.request("auth.test", &self.bot_token, JSON).body("{}");
        send(request).await
    }

    /// Returns the address of a new socket. It works only once.
    pub(super) async fn open_connection(&self) -> Result<String, ConnectionError> {
        let request = self.request("apps.connections.open", &self.app_token, FORM);
        let (opened, _) = send(request).await.map_err(|error| error.of_token("app_token"))?;
        let url = opened["url"].as_str().map(str::to_owned);
        url.ok_or_else(|| {
            ConnectionError::new(ConnectionErrorKind::Lost, "Slack gave no address for a socket")
        })
    }

    /// Uploads a file's content to an address from Slack. The address itself grants the permission, so
    /// the request carries no token.
    pub(super) async fn upload(&self, address: &str, content: Vec<u8>) -> Result<(), SendError> {
        let url = parse_address(address)
            .map_err(|error| SendError::new(SendErrorKind::Refused, error.to_string()))?;
        let request = self.client.post(url).timeout(FILE_TIMEOUT).body(content);
        let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        let response = request.send().await;
        let response = response.map_err(|error| classify_transport_error(SERVER, &error))?;
        if !response.status().is_success() {
            let message = format!("{SERVER} answered {} for the file", response.status());
            return Err(SendError::new(SendErrorKind::NotSent, message));
        }
        Ok(())
    }

    /// Downloads a file with the token, which goes only to Slack's hosts.
    pub(super) async fn download(&self, address: &str, limit: u64) -> Result<Response, SendError> {
        let refused = |message: &str| SendError::new(SendErrorKind::Refused, message);
        let url = parse_address(address).ok().filter(|url| self.is_trusted(url));
        let url = url.ok_or_else(|| refused("the file is not on a server of Slack"))?;
        let request = self.client.get(url).timeout(FILE_TIMEOUT).bearer_auth(&self.bot_token);
        let response = request.send().await;
        let response = response.map_err(|error| classify_transport_error(SERVER, &error))?;
        if response.status() != StatusCode::OK {
            let message = format!("{SERVER} answered {} for the file", response.status());
            return Err(SendError::new(SendErrorKind::NotSent, message));
        }
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(refused(&format!("the file has more than {limit} bytes")));
        }
        Ok(response)
    }

    fn is_trusted(&self, url: &Url) -> bool {
        let is_own = url.host_str() == self.base.host_str()
            && url.port_or_known_default() == self.base.port_or_known_default();
        let is_of_slack = url.scheme() == "https"
            && url.port().is_none()
            && url.host_str().is_some_and(|host| host.ends_with(".slack.com"));
        is_own || (self.is_slack_itself && is_of_slack)
    }

    fn request(&self, method: &str, token: &str, content_type: &str) -> RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(&format!("api/{method}"));
        self.client.post(url).bearer_auth(token).header(header::CONTENT_TYPE, content_type)
    }
}

/// Sends a request, and returns the response and the scopes of the token.
async fn send(request: RequestBuilder) -> Result<(Value, Option<String>), WebApiError> {
    const MAX_ANSWER: u64 = 8 << 20;
    let response = request.send().await;
    let response = response
        .map_err(|error| WebApiError::Transport(classify_transport_error(SERVER, &error)))?;
    let status = response.status();
    let pause = retry_after(&response);
    let scopes = response.headers().get(SCOPES_HEADER);
    let scopes = scopes.and_then(|scopes| scopes.to_str().ok()).map(str::to_owned);
    if status == StatusCode::TOO_MANY_REQUESTS {
        let code = "ratelimited".to_owned();
        return Err(WebApiError::Refused(SlackRefusal { code, needed: None, retry_after: pause }));
    }
    let body = read_body(SERVER, response, MAX_ANSWER).await.map_err(WebApiError::Transport)?;
    let answer: Option<Value> = serde_json::from_slice(&body).ok();
    match answer.as_ref().and_then(|answer| WebApiAnswer::deserialize(answer).ok()) {
        Some(WebApiAnswer { ok: true, .. }) => Ok((answer.unwrap_or_default(), scopes)),
        Some(WebApiAnswer { refusal, .. }) => {
            Err(WebApiError::Refused(SlackRefusal { retry_after: pause, ..refusal }))
        }
        None => {
            let message = format!("{SERVER} answered {status} without JSON");
            Err(WebApiError::Transport(SendError::new(SendErrorKind::Unknown, message)))
        }
    }
}

impl SlackRefusal {
    /// Returns whether Slack rejected the blocks of a message.
    pub(super) fn is_about_blocks(&self) -> bool {
        matches!(
            self.code.as_str(),
            "invalid_blocks" | "invalid_blocks_format" | "msg_blocks_too_long" | "msg_too_long"
        )
    }

    /// Returns whether the message is no longer a stream.
    pub(super) fn is_ended_stream(&self) -> bool {
        matches!(self.code.as_str(), "message_not_in_streaming_state" | "stopped_by_user")
    }

    /// Returns whether streams are unavailable to this app.
    pub(super) fn is_unknown_method(&self) -> bool {
        matches!(
            self.code.as_str(),
            "unknown_method" | "method_deprecated" | "not_allowed_token_type" | "missing_scope"
        )
    }

    pub(super) fn is_limited(&self) -> bool {
        matches!(self.code.as_str(), "ratelimited" | "rate_limited")
    }

    fn kind(&self) -> SendErrorKind {
        match self.code.as_str() {
            "ratelimited" | "rate_limited" | "service_unavailable" | "request_timeout" => {
                SendErrorKind::NotSent
            }
            // Slack says that part of the request may have been carried out.
            "internal_error" | "fatal_error" | "" => SendErrorKind::Unknown,
            _ => SendErrorKind::Refused,
        }
    }
}

impl WebApiError {
    /// Converts the error for a connection made with this token.
    pub(super) fn of_token(self, token: &str) -> ConnectionError {
        let refusal = match self {
            Self::Transport(error) => {
                return ConnectionError::new(ConnectionErrorKind::Lost, error.message);
            }
            Self::Refused(refusal) => refusal,
        };
        let code = &refusal.code;
        let (kind, message) = match code.as_str() {
            "invalid_auth"
            | "not_authed"
            | "token_revoked"
            | "token_expired"
            | "account_inactive"
            | "not_allowed_token_type" => (
                ConnectionErrorKind::Refused,
                format!(
                    "{SERVER} does not accept `{token}` ({code}); copy it again from the page of the app"
                ),
            ),
            "missing_scope" => {
                let needed = refusal.needed.as_deref().unwrap_or("a scope");
                let message = format!(
                    "`{token}` lacks {needed}; add it on the page of the app, and install the app again"
                );
                (ConnectionErrorKind::Refused, message)
            }
            _ => (ConnectionErrorKind::Lost, format!("{SERVER} answered: {code}")),
        };
        ConnectionError { retry_after: refusal.retry_after, ..ConnectionError::new(kind, message) }
    }
}

impl From<WebApiError> for SendError {
    fn from(error: WebApiError) -> Self {
        let refusal = match error {
            WebApiError::Transport(error) => return error,
            WebApiError::Refused(refusal) => refusal,
        };
        let needed =
            refusal.needed.as_ref().map(|scope| format!("; the bot needs the scope {scope}"));
        let message =
            format!("{SERVER} refused it: {}{}", refusal.code, needed.unwrap_or_default());
        Self { retry_after: refusal.retry_after, ..Self::new(refusal.kind(), message) }
    }
}

impl fmt::Debug for WebApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebApi").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}
