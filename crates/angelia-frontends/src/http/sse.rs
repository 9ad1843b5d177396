//! The parts that all streams of server-sent events share.

use std::time::Duration;

use axum::http::{HeaderName, header};

pub(super) const HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/event-stream"),
    (header::CACHE_CONTROL, "no-store"),
    // For proxies that would otherwise buffer the stream.
    (HeaderName::from_static("x-accel-buffering"), "no"),
];

/// After this long without an event, an empty frame keeps the connection open.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
