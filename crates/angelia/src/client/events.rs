//! Follows the events of a turn in the daemon. After a lost connection the client reconnects and
//! continues after the last event it has seen, also if the daemon was restarted meanwhile.

use std::time::Duration;

use angelia_core::model::{Seq, TurnId};
use angelia_frontends::event_json::{ApiEvent, read_event};
use angelia_wire::{limits, sse};
use bytes::BufMut;
use hyper::{Method, StatusCode, body::Incoming};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{ClientError, Daemon, TIMEOUT, connection::Connection, request};

/// How long to try to reconnect to a daemon that is gone.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(100);

/// The daemon sends something every 15 seconds; one that is silent for this long hangs.
const SILENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Events {
    daemon: Daemon,
    turn: TurnId,
    seen: Seq,
    stream: Option<Stream>,
    /// When the stream was lost.
    lost: Option<Instant>,
    over: bool,
    /// The daemon ends the turn when this value is dropped.
    hold: bool,
}

#[derive(Debug)]
struct Stream {
    connection: Connection,
    body: Incoming,
    decoder: sse::Decoder,
    /// When data arrived last.
    heard: Instant,
}

impl Events {
    pub(super) async fn open(
        daemon: Daemon,
        turn: TurnId,
        after: Seq,
        hold: bool,
    ) -> Result<Self, ClientError> {
        let mut events =
            Self { daemon, turn, seen: after, stream: None, lost: None, over: false, hold };
        events.connect().await?;
        Ok(events)
    }

    /// Returns the next events, as many as have arrived, or `None` after the turn's last one.
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ApiEvent>>, ClientError> {
        while !self.over {
            let Some(stream) = &mut self.stream else {
                self.find_again().await?;
                continue;
            };
            let events = take(&mut stream.decoder, &mut self.seen, &mut self.over);
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if self.over {
                break;
            }
            let piece = stream.connection.piece(&mut stream.body);
            match timeout_at(stream.heard + SILENCE, piece).await {
                Ok(Some(Ok(bytes))) => {
                    stream.decoder.buffer().put_slice(&bytes);
                    stream.heard = Instant::now();
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
        let hold = if self.hold { "?hold=true" } else { "" };
        let path = format!("/api/turns/{}/events{hold}", self.turn);
        let request = request(Method::GET, &path).resuming_after(self.seen);
        let sent = timeout(TIMEOUT, self.daemon.send(request)).await;
        let (connection, response) = sent.unwrap_or(Err(ClientError::Silent))?;
        self.lost = None;
        if response.status() == StatusCode::NO_CONTENT {
            self.over = true;
            return Ok(());
        }
        self.stream = Some(Stream {
            connection,
            body: response.into_body(),
            decoder: sse::Decoder::new(limits::MAX_FRAME),
            heard: Instant::now(),
        });
        Ok(())
    }

    async fn find_again(&mut self) -> Result<(), ClientError> {
        let lost = *self.lost.get_or_insert_with(Instant::now);
        match self.connect().await {
            Err(ClientError::Gone(_) | ClientError::Broken(_)) if lost.elapsed() < PATIENCE => {
                sleep(RETRY).await;
                Ok(())
            }
            done => done,
        }
    }
}

/// Decodes the events that have arrived completely.
fn take(decoder: &mut sse::Decoder, seen: &mut Seq, over: &mut bool) -> Vec<ApiEvent> {
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
            // Seen events arrive again only if a daemon starts again from an earlier position.
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
