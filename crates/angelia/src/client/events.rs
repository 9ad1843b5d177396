//! A turn of the daemon as it happens. When the connection is lost, the rest is fetched from where
//! it stopped; a daemon that comes back in time is found again.

use std::time::Duration;

use angelia_core::model::{Seq, TurnId};
use angelia_frontends::event_json::{ApiEvent, read_event};
use angelia_wire::{limits, sse};
use bytes::BufMut;
use hyper::{Method, StatusCode, body::Incoming};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{ClientError, Daemon, TIMEOUT, connection::Connection, request};

/// How long a daemon that has gone may take to come back.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(100);

/// The daemon says something every 15 seconds; one that has been silent for so long hangs.
const SILENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Events {
    daemon: Daemon,
    turn: TurnId,
    seen: Seq,
    stream: Option<Stream>,
    /// Since when there is none.
    lost: Option<Instant>,
    over: bool,
    /// The turn ends when this is dropped.
    hold: bool,
}

#[derive(Debug)]
struct Stream {
    connection: Connection,
    body: Incoming,
    decoder: sse::Decoder,
    /// When something came last.
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

    /// The next events, as many as have come; `None` after the turn's last one. Cancel safe.
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

/// What has arrived whole.
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
            // Twice only if a daemon starts again where it had been before.
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
