//! The change feed behind `GET /api/events`. One task reads what has changed and writes it once,
//! however many clients follow; every client reads at its own pace from a ring of recent events, so a
//! slow one delays nobody.
//!
//! - [`ChangeFeed`]: the ring, and who follows it; [`follow`]: the stream of one client.
//! - `producer`: the task that turns announcements of the engine into events.
//! - `pending`: which things have changed and may be reported now.
//! - `resource_lists`: lists that are compared with what was reported last.

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
/// another process is told to read everything again by a `reset`.
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
