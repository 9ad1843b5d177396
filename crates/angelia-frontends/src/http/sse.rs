//! The parts that every stream of server-sent events has in common.

use std::time::Duration;

use axum::http::{HeaderName, header};

pub(super) const HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/event-stream"),
    (header::CACHE_CONTROL, "no-store"),
    // For proxies that would otherwise buffer the stream before they pass it on.
    (HeaderName::from_static("x-accel-buffering"), "no"),
];

/// After this time without an event, a frame without content keeps the connection open.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
