//! Classifies the errors of providers, so that the loop knows what to do about them. The type and
//! message of an error take precedence over its status: an exhausted balance is reported as 429,
//! 402, 403 or 400.
//!
//! - `body`: reads the type, code and message of an error, in any of their shapes.
//! - `classify`: the tables that map errors to classes.
//! - `overflow`: the many ways to say "the conversation is too long", and the window that they
//!   name.
//! - `wait`: how long to wait, according to headers and messages.

mod body;
mod classify;
mod overflow;
mod wait;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

pub(in crate::native) use self::wait::REQUEST_IDS;
use self::{body::ErrorBody, wait::RetryHeaders};

/// An error of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    pub class: ErrorClass,
    /// `None` for an error inside an answer.
    pub status: Option<u16>,
    /// The provider's own type or code of the error.
    pub code: Option<Arc<str>>,
    /// The provider's message.
    pub message: Arc<str>,
    pub request_id: Option<Arc<str>>,
    /// The error comes from a provider behind this one, so it does not concern our own key.
    pub is_upstream: bool,
    /// The wait that the provider asks for.
    pub retry_after: Option<Duration>,
    /// The provider says whether to try again.
    pub should_retry: Option<bool>,
}

/// What an error means for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The key is not accepted.
    Auth,
    /// The balance or the quota is used up; waiting does not help.
    Billing,
    /// The account may not do this.
    Forbidden,
    /// There is no such model, or no such address.
    NotFound,
    RateLimited,
    Overloaded,
    /// The server failed or is not ready.
    Unavailable,
    /// The conversation does not fit. `window` is the size that the provider named, if any.
    Overflow {
        window: Option<u64>,
    },
    /// The requested output limit is higher than the model's.
    OutputCap {
        limit: Option<u64>,
    },
    /// A policy refuses the content.
    Refused,
    /// The model accepts no images.
    ImageRefused,
    /// An image is larger than the provider accepts.
    ImageTooLarge,
    /// An image is not one, or the provider cannot read it.
    ImageUnreadable,
    /// The provider does not accept its own reasoning.
    ReasoningRejected,
    /// The schema of a tool cannot be compiled.
    SchemaRejected,
    /// The request is wrong in some other way.
    Invalid,
}

/// The reply to a failed request.
#[derive(Clone, Copy, Debug)]
pub struct ErrorReply<'a> {
    pub status: u16,
    /// The names are in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a str,
    pub now: Timestamp,
}

impl ProviderError {
    pub fn from_reply(reply: &ErrorReply<'_>) -> Self {
        let headers = RetryHeaders::read(reply.headers, reply.now);
        let body = ErrorBody::read(reply.body);
        let mut error = Self::new(Some(reply.status), body);
        error.retry_after = headers.retry_after.or(error.retry_after);
        error.should_retry = headers.should_retry;
        error.request_id = error.request_id.or(headers.request_id);
        error
    }

    /// Reads an error inside an answer.
    pub fn from_frame(frame: &str) -> Self {
        Self::new(None, ErrorBody::read(frame))
    }

    fn new(status: Option<u16>, body: ErrorBody) -> Self {
        let status_in_body = body.code.as_deref().and_then(|code| code.parse().ok());
        let status = status.filter(|status| *status >= 400).or(status_in_body);
        let class = classify::class_of(status, &body);
        let retry_after = match class {
            ErrorClass::RateLimited => wait::wait_in_words(&body.message),
            _ => None,
        };
        Self {
            class,
            status,
            code: body.kind.or(body.code).map(Into::into),
            message: body.message.into(),
            request_id: body.request_id.map(Into::into),
            is_upstream: body.is_upstream,
            retry_after,
            should_retry: None,
        }
    }

    /// Returns whether the error is about the key of the request, so that another key may be
    /// accepted.
    pub const fn concerns_key(&self) -> bool {
        let by_class =
            matches!(self.class, ErrorClass::Auth | ErrorClass::Billing | ErrorClass::RateLimited);
        by_class && !self.is_upstream
    }

    /// Returns whether the provider or the account is at fault, so that another provider may answer
    /// the same request.
    pub const fn is_of_provider(&self) -> bool {
        matches!(
            self.class,
            ErrorClass::Auth
                | ErrorClass::Billing
                | ErrorClass::Forbidden
                | ErrorClass::RateLimited
                | ErrorClass::Overloaded
                | ErrorClass::Unavailable
        )
    }

    /// Returns whether the key will never be accepted again.
    pub fn is_revoked(&self) -> bool {
        self.class == ErrorClass::Auth && classify::says_revoked(&self.message)
    }

    /// Returns whether the same request may succeed later. The provider's own statement takes
    /// precedence, except about an account: asking again restores neither a key nor a balance.
    pub fn is_transient(&self) -> bool {
        match self.class {
            ErrorClass::Auth | ErrorClass::Billing | ErrorClass::Forbidden => false,
            ErrorClass::RateLimited | ErrorClass::Overloaded | ErrorClass::Unavailable => {
                self.should_retry.unwrap_or(true)
            }
            _ => self.should_retry.unwrap_or(false),
        }
    }
}
