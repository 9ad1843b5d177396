//! The change feed behind `GET /api/events`. One task reads each change and encodes it once, however
//! many clients follow. Each client reads from a ring of recent events at its own pace, so a slow one
//! does not delay others.
//!
//! - [`ChangeFeed`]: the ring and its readers; [`follow`]: the stream of one client.
//! - `producer`: the task that turns the engine's announcements into events.
//! - `pending`: what has changed and may be reported now.
//! - `resource_lists`: compares lists with what was last reported.

mod pending;
mod producer;
mod resource_lists;
mod ring;

use std::{convert::Infallible, sync::Arc};

use axum::body::Bytes;
use bytes::BytesMut;
use futures_util::{Stream, stream};

use super::{ApiState, sse};
use angelia_wire::sse::SseEncoder;

pub use self::ring::ChangeFeed;

/// Returns the events after the one with this id. A client that is new, has missed too much, or knows
/// the ids of another process gets a `reset`, which tells it to read everything again.
pub(super) fn follow(
    state: &Arc<ApiState>,
    last: Option<&str>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let reader = state.feed.reader(last);
    if state.feed.start_producer() {
        producer::spawn(state);
    }
    let stop = state.tasks.stop_token().clone();
    stream::unfold((reader, stop), |(mut reader, stop)| async move {
        let next = tokio::time::timeout(sse::KEEP_ALIVE_INTERVAL, reader.next());
        let bytes = match stop.run_until_cancelled(next).await? {
            Ok(events) => events,
            Err(_nothing_new) => {
                let mut out = BytesMut::new();
                SseEncoder::new(&mut out).comment("keep-alive").end();
                out.freeze()
            }
        };
        Some((Ok(bytes), (reader, stop)))
    })
}
