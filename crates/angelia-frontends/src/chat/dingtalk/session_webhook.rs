//! Session webhooks. Each message brings an address that accepts answers for a while, without credentials
//! and without a quota.

use std::{collections::HashMap, sync::Arc, time::Duration};

use angelia_core::ports::{ReplyRoute, SendError, SendErrorKind};
use jiff::Timestamp;
use parking_lot::Mutex;
use reqwest::{Client, Url, header};
use serde_json::Value;

use super::open_api::SERVER;
use crate::chat::platform_http::{classify_transport_error, parse_address, retry_after};

/// How long before its announced end an address is no longer used: some end early.
const MARGIN: Duration = Duration::from_mins(5);

/// The error code for too many messages in a minute.
const TOO_MANY: i64 = 130_101;

/// The newest webhook address of each chat.
#[derive(Debug, Default)]
pub(super) struct SessionWebhooks {
    routes: Mutex<HashMap<Arc<str>, ReplyRoute>>,
}

/// Why a message could not be sent to a session webhook.
#[derive(Debug)]
pub(super) enum SessionError {
    /// The message certainly did not arrive and can be sent another way.
    Closed(String),
    Failed(SendError),
}

impl SessionWebhooks {
    /// Stores the newest address of a chat. Returns whether the chat had none before.
    pub(super) fn keep(&self, chat: Arc<str>, route: ReplyRoute) -> bool {
        self.routes.lock().insert(chat, route).is_none()
    }

    /// Returns the address of a chat if it is still usable: not expired, and either encrypted or on this
    /// machine.
    pub(super) fn find(&self, chat: &str, now: Timestamp) -> Option<Url> {
        let mut routes = self.routes.lock();
        let route = routes.get(chat)?;
        let end = route.expires_at.checked_sub(MARGIN).ok()?;
        if end <= now {
            routes.remove(chat);
            return None;
        }
        parse_address(&route.value).ok()
    }

    /// Forgets an address that the platform closed, unless there is a newer one.
    pub(super) fn forget(&self, chat: &str, url: &Url) {
        let mut routes = self.routes.lock();
        let is_same = |route: &ReplyRoute| parse_address(&route.value).ok().as_ref() == Some(url);
        if routes.get(chat).is_some_and(is_same) {
            routes.remove(chat);
        }
    }
}

/// Posts a message. The request carries no credentials: knowing the address is enough.
pub(super) async fn post(client: &Client, url: &Url, body: &Value) -> Result<(), SessionError> {
    let request = client.post(url.clone()).header(header::CONTENT_TYPE, "application/json");
    let response = request.body(body.to_string()).send().await.map_err(|error| {
        let error = classify_transport_error(SERVER, &error);
        match error.kind {
            SendErrorKind::NotSent => SessionError::Closed(error.message),
            SendErrorKind::Unknown | SendErrorKind::Refused => SessionError::Failed(error),
        }
    })?;
    let status = response.status();
    let pause = retry_after(&response);
    let limited = |pause: Duration| {
        let error =
            SendError::new(SendErrorKind::NotSent, format!("too many messages for {SERVER}"));
        SessionError::Failed(SendError { retry_after: Some(pause), ..error })
    };
    match status.as_u16() {
        429 => return Err(limited(pause.unwrap_or(Duration::from_secs(1)))),
        500.. => {
            let message = format!("{SERVER} answered {status}");
            return Err(SessionError::Failed(SendError::new(SendErrorKind::Unknown, message)));
        }
        300.. => return Err(SessionError::Closed(format!("{SERVER} answered {status}"))),
        _ => {}
    }
    let answer: Option<Value> =
        response.bytes().await.ok().and_then(|body| serde_json::from_slice(&body).ok());
    match answer.as_ref().and_then(|answer| answer["errcode"].as_i64()) {
        Some(0) => Ok(()),
        Some(TOO_MANY) => Err(limited(Duration::from_mins(1))),
        Some(code) => Err(SessionError::Closed(format!("{SERVER} answered with code {code}"))),
        None => {
            let message = format!("{SERVER} did not say whether the message has arrived");
            Err(SessionError::Failed(SendError::new(SendErrorKind::Unknown, message)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_used_until_five_minutes_before_its_end() {
        let webhooks = SessionWebhooks::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let route = |value: &str| ReplyRoute { value: value.into(), expires_at: at(1000) };
        webhooks.keep("a".into(), route("https://x/1"));
        assert!(webhooks.find("a", at(699)).is_some());
        assert!(webhooks.find("b", at(1)).is_none());
        assert!(webhooks.find("a", at(700)).is_none());
        assert!(webhooks.find("a", at(1)).is_none(), "it is forgotten");
        for bad in ["http://example.com/1", "ftp://x", "?", "file:///etc/passwd"] {
            webhooks.keep("a".into(), route(bad));
            assert_eq!(webhooks.find("a", at(1)), None, "{bad}");
        }
        webhooks.keep("a".into(), route("http://127.0.0.1:9/1"));
        let old = webhooks.find("a", at(1)).unwrap();
        webhooks.keep("a".into(), route("https://x/2"));
        webhooks.forget("a", &old);
        assert!(webhooks.find("a", at(1)).is_some(), "a newer one stays");
    }
}
