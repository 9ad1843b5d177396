//! Follows the events of a turn in the daemon. After a lost connection, the client reconnects and
//! continues after the last event it has seen, even if the daemon was restarted in the meantime.

use std::time::Duration;

use angelia_core::model::{Seq, TurnId};
use angelia_frontends::event_json::{ApiEvent, read_event};
use angelia_wire::{limits, sse};
use bytes::BufMut;
use hyper::{Method, StatusCode, body::Incoming};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{ClientError, DaemonClient, REQUEST_TIMEOUT, connection::DaemonConnection, request};

/// How long to try to reconnect to a daemon that is gone.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// The daemon sends something every 15 seconds, so one that is silent for this long hangs.
const MAX_SILENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct TurnEvents {
    daemon: DaemonClient,
    turn: TurnId,
    last_seq: Seq,
    stream: Option<EventStream>,
    /// When the stream was lost.
    lost_at: Option<Instant>,
    is_finished: bool,
    /// Whether the daemon ends the turn when this value is dropped.
    holds_turn: bool,
}

#[derive(Debug)]
struct EventStream {
    connection: DaemonConnection,
    body: Incoming,
    decoder: sse::SseDecoder,
    /// When data last arrived.
    last_data_at: Instant,
}

impl TurnEvents {
    pub(super) async fn open(
        daemon: DaemonClient,
        turn: TurnId,
        after: Seq,
        hold: bool,
    ) -> Result<Self, ClientError> {
        let mut events = Self {
            daemon,
            turn,
            last_seq: after,
            stream: None,
            lost_at: None,
            is_finished: false,
            holds_turn: hold,
        };
        events.connect().await?;
        Ok(events)
    }

    /// Returns the next events, as many as have arrived, or `None` after the turn's last one.
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ApiEvent>>, ClientError> {
        while !self.is_finished {
            let Some(stream) = &mut self.stream else {
                self.reconnect().await?;
                continue;
            };
            let events =
                decode_events(&mut stream.decoder, &mut self.last_seq, &mut self.is_finished);
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if self.is_finished {
                break;
            }
            let piece = stream.connection.next_chunk(&mut stream.body);
            match timeout_at(stream.last_data_at + MAX_SILENCE, piece).await {
                Ok(Some(Ok(bytes))) => {
                    stream.decoder.buffer().put_slice(&bytes);
                    stream.last_data_at = Instant::now();
                }
                ended => {
                    tracing::debug!(turn = %self.turn, ?ended, "lost a turn's events");
                    self.stream = None;
                }
            }
        }
        Ok(None)
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let hold = if self.holds_turn { "?hold=true" } else { "" };
        let path = format!("/api/turns/{}/events{hold}", self.turn);
        let request = request(Method::GET, &path).resuming_after(self.last_seq);
        let sent = timeout(REQUEST_TIMEOUT, self.daemon.send(request)).await;
        let (connection, response) = sent.unwrap_or(Err(ClientError::Timeout))?;
        self.lost_at = None;
        if response.status() == StatusCode::NO_CONTENT {
            self.is_finished = true;
            return Ok(());
        }
        self.stream = Some(EventStream {
            connection,
            body: response.into_body(),
            decoder: sse::SseDecoder::new(limits::MAX_FRAME_BYTES),
            last_data_at: Instant::now(),
        });
        Ok(())
    }

    async fn reconnect(&mut self) -> Result<(), ClientError> {
        let lost = *self.lost_at.get_or_insert_with(Instant::now);
        match self.connect().await {
            Err(ClientError::Unreachable(_) | ClientError::ConnectionLost(_))
                if lost.elapsed() < RECONNECT_TIMEOUT =>
            {
                sleep(RECONNECT_DELAY).await;
                Ok(())
            }
            done => done,
        }
    }
}

/// Decodes the events that have arrived completely.
fn decode_events(decoder: &mut sse::SseDecoder, seen: &mut Seq, over: &mut bool) -> Vec<ApiEvent> {
    let mut events = Vec::new();
    for event in decoder {
        let event = match event {
            Ok(event) => event,
            Err(too_long) => {
                tracing::warn!(%too_long, "an event of the turn is missing here");
                continue;
            }
        };
        *over |= event.name == "turn.finished";
        match read_event(&event.data) {
            // Events that were already seen arrive again only if a daemon restarts from an earlier
            // position.
            Ok(event) if event.seq > *seen => {
                *seen = event.seq;
                events.push(event);
            }
            Ok(_seen_already) => {}
            Err(error) => tracing::warn!(%error, "an event of the turn is missing here"),
        }
    }
    events
}
