//! The webhook adapter: sends one request per text, and decides from the response whether another
//! attempt makes sense.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{
    BoxFuture, Channel, ChannelCapabilities, Clock, OutgoingMessage, SendError, SendErrorKind,
    SentMessage,
};
use reqwest::{Client, Response, StatusCode, Url, header};
use serde::Serialize;

use super::{
    super::platform_http::{
        AddressProblem, build_client, classify_transport_error, parse_address, retry_after,
    },
    sign::signature,
};

pub const PLATFORM: &str = "webhook";

/// The time limit of the whole request, including its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Sends texts to one URL, signed with one secret.
pub struct Webhook {
    client: Client,
    url: Url,
    secret: Arc<str>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("a webhook needs a secret to sign with")]
    NoSecret,
}

#[derive(Serialize)]
struct WebhookBody<'a> {
    id: &'a str,
    channel: String,
    chat: &'a str,
    text: &'a str,
    may_repeat: bool,
    buttons: Vec<WebhookButton<'a>>,
}

#[derive(Serialize)]
struct WebhookButton<'a> {
    label: &'a str,
    value: &'a str,
}

impl Webhook {
    pub fn new(url: &str, secret: &str, clock: Arc<dyn Clock>) -> Result<Self, WebhookError> {
        let parsed = parse_address(url)?;
        if secret.is_empty() {
            return Err(WebhookError::NoSecret);
        }
        let client = build_client(REQUEST_TIMEOUT)?;
        Ok(Self { client, url: parsed, secret: secret.into(), clock })
    }

    async fn post(&self, chat: &str, message: &OutgoingMessage) -> Result<SentMessage, SendError> {
        let body = WebhookBody {
            id: &message.id,
            channel: format!("{PLATFORM}:{chat}"),
            chat,
            text: &message.text,
            may_repeat: message.may_repeat,
            buttons: message
                .buttons
                .iter()
                .map(|button| WebhookButton { label: &button.label, value: &button.value })
                .collect(),
        };
        let body = serde_json::to_vec(&body)
            .map_err(|error| SendError::new(SendErrorKind::Refused, error.to_string()))?;
        let timestamp = self.clock.now().as_second();
        let response = self
            .client
            .post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-angelia-delivery", &*message.id)
            .header("x-angelia-timestamp", timestamp)
            .header("x-angelia-signature-256", signature(&self.secret, timestamp, &body))
            .body(body)
            .send()
            .await;
        match response {
            Ok(response) => classify_response(&response),
            Err(error) => Err(classify_transport_error("the webhook", &error)),
        }
    }
}

impl Channel for Webhook {
    fn platform(&self) -> &'static str {
        PLATFORM
    }

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities { buttons: true, home: true, ..ChannelCapabilities::default() }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<SentMessage, SendError>> {
        Box::pin(self.post(chat, message))
    }
}

/// Classifies a response: delivered, or an error that tells whether another attempt makes sense.
fn classify_response(response: &Response) -> Result<SentMessage, SendError> {
    let status = response.status();
    let kind = match status {
        status if status.is_success() => return Ok(SentMessage::default()),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => SendErrorKind::NotSent,
        // The receiver or a proxy failed while handling the request, so the text may have arrived.
        StatusCode::REQUEST_TIMEOUT => SendErrorKind::Unknown,
        status if status.is_server_error() => SendErrorKind::Unknown,
        _ => SendErrorKind::Refused,
    };
    let mut error = SendError::new(kind, format!("the webhook answered {status}"));
    error.retry_after = retry_after(response);
    Err(error)
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}
