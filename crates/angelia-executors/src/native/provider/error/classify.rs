//! The tables that map the type, message and status of an error to its class.

use super::{ErrorClass, body::ErrorBody, overflow};

/// Types and codes that mean the same everywhere.
const CODES: &[(&str, ErrorClass)] = &[
    ("insufficient_quota", ErrorClass::Billing),
    ("billing_error", ErrorClass::Billing),
    ("billing_hard_limit_reached", ErrorClass::Billing),
    ("billing_not_active", ErrorClass::Billing),
    ("insufficient_credits", ErrorClass::Billing),
    ("personal-team-blocked:spending-limit", ErrorClass::Billing),
    ("authentication_error", ErrorClass::Auth),
    ("invalid_api_key", ErrorClass::Auth),
    ("invalid_authentication", ErrorClass::Auth),
    ("permission_error", ErrorClass::Forbidden),
    ("not_found_error", ErrorClass::NotFound),
    ("model_not_found", ErrorClass::NotFound),
    ("rate_limit_error", ErrorClass::RateLimited),
    ("rate_limit_exceeded", ErrorClass::RateLimited),
    ("overloaded_error", ErrorClass::Overloaded),
    ("server_is_overloaded", ErrorClass::Overloaded),
    ("slow_down", ErrorClass::Overloaded),
    ("1305", ErrorClass::Overloaded),
    ("api_error", ErrorClass::Unavailable),
    ("timeout_error", ErrorClass::Unavailable),
    ("server_error", ErrorClass::Unavailable),
    ("unavailable_error", ErrorClass::Unavailable),
    ("request_too_large", ErrorClass::Overflow { window: None }),
    ("invalid_encrypted_content", ErrorClass::ReasoningRejected),
    ("content_policy_violation", ErrorClass::Refused),
    ("content_filter", ErrorClass::Refused),
    ("invalid_prompt", ErrorClass::Refused),
    ("cyber_policy", ErrorClass::Refused),
];

/// Phrases in lower case. All phrases of an entry must occur in the message.
const PHRASES: &[(&[&str], ErrorClass)] = &[
    (&["out of extra usage"], ErrorClass::Billing),
    (&["credit balance is too low"], ErrorClass::Billing),
    (&["spending-limit"], ErrorClass::Billing),
    (&["insufficient balance"], ErrorClass::Billing),
    (&["thinking", "signature"], ErrorClass::ReasoningRejected),
    (&["thinking", "cannot be modified"], ErrorClass::ReasoningRejected),
    (&["encrypted content", "could not be"], ErrorClass::ReasoningRejected),
    (&["grammar"], ErrorClass::SchemaRejected),
    (&["json schema", "not supported"], ErrorClass::SchemaRejected),
    (&["image", "exceed"], ErrorClass::ImageTooLarge),
    (&["image", "too large"], ErrorClass::ImageTooLarge),
    (&["image", "too big"], ErrorClass::ImageTooLarge),
    (&["image", "maximum size"], ErrorClass::ImageTooLarge),
    (&["image", "could not process"], ErrorClass::ImageUnreadable),
    (&["image", "not support"], ErrorClass::ImageRefused),
    (&["image", "unsupported"], ErrorClass::ImageRefused),
    (&["image_url", "expected"], ErrorClass::ImageRefused),
    (&["image", "text only"], ErrorClass::ImageRefused),
    (&["multimodal", "not support"], ErrorClass::ImageRefused),
];

/// Phrases in a refusal that is about the token, not about what the account may do.
const UNVALIDATED_TOKEN: [&str; 2] = ["[wke=unauthenticated:", "token could not be validated"];

/// Phrases about a key that will never be accepted again.
const REVOKED: [&str; 4] = ["revoked", "deactivated", "has been disabled", "has been deleted"];

pub(super) fn says_revoked(message: &str) -> bool {
    let words = message.to_ascii_lowercase();
    REVOKED.iter().any(|part| words.contains(part))
}

/// Statuses that blame our request. Except for billing, phrases count only with these statuses,
/// with 500, or without a status.
const REQUEST_FAULTS: [u16; 5] = [400, 404, 413, 415, 422];

pub(super) fn class_of(status: Option<u16>, body: &ErrorBody) -> ErrorClass {
    let words = body.message.to_ascii_lowercase();
    let codes = [body.code.as_deref(), body.kind.as_deref()];
    if status == Some(403) && UNVALIDATED_TOKEN.iter().any(|part| words.contains(part)) {
        return ErrorClass::Auth;
    }
    if let Some(class) = overflow::find(status, codes, &words, body.window) {
        return class;
    }
    if let Some(class) = codes.into_iter().flatten().find_map(class_of_code) {
        return class;
    }
    let phrase = PHRASES.iter().find(|(parts, _)| parts.iter().all(|part| words.contains(part)));
    match phrase {
        Some((_, class @ ErrorClass::Billing)) => return *class,
        // A failing server may say anything; only what it says about our request counts.
        Some((_, class))
            if status.is_none_or(|status| REQUEST_FAULTS.contains(&status) || status == 500) =>
        {
            return *class;
        }
        _ => {}
    }
    class_of_status(status, body)
}

fn class_of_code(code: &str) -> Option<ErrorClass> {
    let known = CODES.iter().find(|(known, _)| known.eq_ignore_ascii_case(code));
    known.map(|(_, class)| *class)
}

fn class_of_status(status: Option<u16>, body: &ErrorBody) -> ErrorClass {
    match status {
        Some(401) => ErrorClass::Auth,
        Some(402) => ErrorClass::Billing,
        Some(403) if body.is_moderation => ErrorClass::Refused,
        Some(403) => ErrorClass::Forbidden,
        Some(404) => ErrorClass::NotFound,
        Some(429) => ErrorClass::RateLimited,
        Some(503 | 529) => ErrorClass::Overloaded,
        // The request is too large, and some servers say no more than that.
        Some(400 | 413) if body.message.is_empty() => ErrorClass::Overflow { window: None },
        Some(413) => ErrorClass::Overflow { window: None },
        Some(408 | 409 | 500..) | None => ErrorClass::Unavailable,
        Some(_) => ErrorClass::Invalid,
    }
}
