//! Asks the daemon to restart, and follows the steps. Dropping the value cancels the request.

use angelia_frontends::http::{RestartBody, RestartProgress};
use angelia_wire::{limits, sse};
use bytes::BufMut;
use hyper::{Method, body::Incoming};

use super::{ClientError, DaemonClient, connection::DaemonConnection, request};

#[derive(Debug)]
pub(crate) struct RestartSteps {
    connection: DaemonConnection,
    body: Incoming,
    decoder: sse::SseDecoder,
}

impl DaemonClient {
    pub(crate) async fn restart(&self, now: bool) -> Result<RestartSteps, ClientError> {
        let asked = request(Method::POST, "/api/restart").json(&RestartBody { now })?;
        let (connection, response) = self.send(asked).await?;
        let decoder = sse::SseDecoder::new(limits::MAX_FRAME_BYTES);
        Ok(RestartSteps { connection, body: response.into_body(), decoder })
    }
}

impl RestartSteps {
    /// Returns the next step, or `None` when the daemon has closed the connection. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<RestartProgress> {
        loop {
            match self.decoder.next() {
                Some(Ok(event)) => {
                    if let Ok(step) = serde_json::from_str(&event.data) {
                        return Some(step);
                    }
                }
                Some(Err(too_long)) => {
                    tracing::warn!(%too_long, "a step of the restart is missing");
                }
                None => {
                    let chunk = self.connection.next_chunk(&mut self.body).await?;
                    self.decoder.buffer().put_slice(&chunk.ok()?);
                }
            }
        }
    }
}
