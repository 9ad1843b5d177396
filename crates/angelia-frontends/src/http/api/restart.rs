//! `POST /api/restart`: restarts the daemon. The response reports what the daemon waits for. If the
//! caller disconnects before the restart is committed, the restart is cancelled.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use angelia_core::model::FailureKind;
use angelia_wire::sse::SseEncoder;
use axum::{
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use futures_util::{Stream, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::super::{
    ErrorKind, HttpError, body::JsonBody, resources::TurnResource, sse, state::SharedState,
};

/// More messages than a daemon reports before its caller reads them.
const MAX_UNREAD_PROGRESS: usize = 16;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartBody {
    /// `true`: turns that wait for a person or a caller's tool are ended, not waited for.
    #[serde(default)]
    pub now: bool,
}

/// The progress of a restart.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum RestartProgress {
    /// The daemon accepts no new work, and waits.
    #[serde(rename = "restart.waiting")]
    Waiting {
        /// Turns that may continue until `drain` is over.
        running: Vec<TurnResource>,
        /// Turns that wait for a person or a caller's tool.
        waiting: Vec<TurnResource>,
        /// How many turns continue in the next process.
        queued: usize,
    },
    /// The restart can no longer be cancelled.
    #[serde(rename = "restart.committed")]
    Committed,
}

/// A requested restart. It is cancelled when the receiver of its progress is gone.
#[derive(Debug)]
pub struct RestartRequest {
    pub now: bool,
    pub progress: mpsc::Sender<RestartProgress>,
}

/// Passes restart requests to the daemon, one at a time.
#[derive(Clone, Debug)]
pub struct RestartRequests {
    requests: mpsc::Sender<RestartRequest>,
    is_under_way: Arc<AtomicBool>,
}

impl RestartRequests {
    pub fn new() -> (Self, mpsc::Receiver<RestartRequest>) {
        let (requests, receiver) = mpsc::channel(1);
        (Self { requests, is_under_way: Arc::default() }, receiver)
    }

    fn claim(&self) -> Result<RestartClaim, HttpError> {
        if self.is_under_way.swap(true, Ordering::AcqRel) {
            let message = "a restart is already under way";
            return Err(HttpError::new(ErrorKind::Conflict, message)
                .with_hint("wait for it, or cancel it with Ctrl-C where it was requested"));
        }
        Ok(RestartClaim(Arc::clone(&self.is_under_way)))
    }
}

/// The exclusive right to restart, released when dropped.
struct RestartClaim(Arc<AtomicBool>);

impl Drop for RestartClaim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

pub(super) async fn restart(
    State(state): SharedState,
    JsonBody(body): JsonBody<RestartBody>,
) -> Result<Response, HttpError> {
    let claim = state.restarts.claim()?;
    let (progress, receiver) = mpsc::channel(MAX_UNREAD_PROGRESS);
    let request = RestartRequest { now: body.now, progress };
    state.restarts.requests.send(request).await.map_err(|_| {
        let kind = ErrorKind::Failed(FailureKind::Unavailable);
        HttpError::new(kind, "this process is not a daemon that can be restarted")
    })?;
    let body = Body::from_stream(progress_stream(receiver, claim));
    Ok((sse::HEADERS, body).into_response())
}

fn progress_stream(
    progress: mpsc::Receiver<RestartProgress>,
    claim: RestartClaim,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((progress, claim), |(mut progress, claim)| async move {
        let mut out = BytesMut::new();
        match tokio::time::timeout(sse::KEEP_ALIVE_INTERVAL, progress.recv()).await {
            Ok(Some(step)) => {
                let json = serde_json::to_vec(&step).unwrap_or_default();
                SseEncoder::new(&mut out).data(&json).end();
            }
            Ok(None) => return None,
            Err(_nothing_new) => SseEncoder::new(&mut out).comment("keep-alive").end(),
        }
        Some((Ok(out.freeze()), (progress, claim)))
    })
}
