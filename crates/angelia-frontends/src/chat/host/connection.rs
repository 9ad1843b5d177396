//! Keeps an adapter's connection up and tracks its health. A lost connection is restored after a pause
//! that grows with each failure; connections do not delay each other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_core::ports::{
    Channel, Clock, ConnectionError, ConnectionErrorKind, EventInbox, InboundEvent, ReplyRoute,
    StoreFuture,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{chat_host::ChatContext, command::COMMAND_HINTS};

/// The pause after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(5);

/// The pause after refused credentials. They may become valid later, after a change on the
/// platform.
const REFUSED_PAUSE: Duration = Duration::from_mins(15);

/// A connection that stays up this long counts as recovered.
const STABLE_AFTER: Duration = Duration::from_mins(1);

/// After this long without a sign of life, the connection is replaced.
const MAX_SILENCE: Duration = Duration::from_mins(2);

/// The state of a channel, for `status`.
#[derive(Clone, Debug)]
pub struct ChannelStatus {
    pub platform: Arc<str>,
    pub state: ConnectionState,
    pub last_event_at: Option<Timestamp>,
    pub last_error: Option<String>,
    /// How many events are not finished yet.
    pub backlog: usize,
}

impl ChannelStatus {
    /// Returns the status of a channel that could not be set up.
    pub(super) fn unusable(platform: &Arc<str>, error: &str) -> Self {
        Self {
            platform: Arc::clone(platform),
            state: ConnectionState::Refused,
            last_event_at: None,
            last_error: Some(error.to_owned()),
            backlog: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    Connecting,
    Connected,
    /// The connection was lost and is being restored.
    Retrying,
    /// The platform refuses the credentials.
    Refused,
}

impl ConnectionState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Retrying => "retrying",
            Self::Refused => "refused",
        }
    }
}

/// The last sign of life and the last error of a connection.
#[derive(Debug)]
pub(super) struct ConnectionHealth {
    seen: Mutex<SeenHealth>,
    /// Milliseconds from `since` to the last sign of life.
    alive_at: AtomicU64,
    since: Instant,
}

#[derive(Clone, Debug)]
struct SeenHealth {
    state: ConnectionState,
    last_event_at: Option<Timestamp>,
    last_error: Option<String>,
}

impl ConnectionHealth {
    pub(super) fn new() -> Self {
        let state = ConnectionState::Connecting;
        let seen = SeenHealth { state, last_event_at: None, last_error: None };
        Self { seen: Mutex::new(seen), alive_at: AtomicU64::new(0), since: Instant::now() }
    }

    pub(super) fn describe(&self, platform: &str, backlog: usize) -> ChannelStatus {
        let SeenHealth { state, last_event_at, last_error } = self.seen.lock().clone();
        ChannelStatus { platform: platform.into(), state, last_event_at, last_error, backlog }
    }

    fn note_alive(&self) {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.alive_at.store(elapsed, Ordering::Relaxed);
        self.seen.lock().state = ConnectionState::Connected;
    }

    /// Completes after [`MAX_SILENCE`] without a sign of life.
    async fn wait_for_silence(&self) {
        loop {
            let alive = Duration::from_millis(self.alive_at.load(Ordering::Relaxed));
            let silence = self.since.elapsed().saturating_sub(alive);
            match MAX_SILENCE.checked_sub(silence) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }

    fn note_error(&self, error: &ConnectionError) {
        let mut seen = self.seen.lock();
        seen.state = match error.kind {
            ConnectionErrorKind::Refused => ConnectionState::Refused,
            ConnectionErrorKind::Lost | ConnectionErrorKind::SendsOnly => ConnectionState::Retrying,
        };
        seen.last_error = Some(error.message.clone());
    }
}

/// Receives events from one platform until the host stops.
pub(super) async fn supervise(context: Arc<ChatContext>, adapter: Arc<dyn Channel>) {
    let Some(health) = context.health.get(adapter.platform()).cloned() else { return };
    let inbox = StoringInbox {
        context: Arc::clone(&context),
        platform: adapter.platform().into(),
        health: Arc::clone(&health),
    };
    let mut failures = 0;
    let mut has_commands = false;
    loop {
        let began = Instant::now();
        let cursor = context.parts.chats.cursor(adapter.platform()).await;
        if !has_commands {
            // The command menu is only a convenience, so do not wait long for it.
            let registering = adapter.register_commands(&COMMAND_HINTS);
            has_commands =
                timeout(Duration::from_secs(10), registering).await.is_ok_and(|told| told.is_ok());
        }
        health.note_alive();
        health.seen.lock().state = ConnectionState::Connecting;
        let error = match cursor {
            Ok(cursor) => tokio::select! {
                error = adapter.receive(cursor, &inbox) => error,
                () = health.wait_for_silence() => ConnectionError::new(
                    ConnectionErrorKind::Lost,
                    "the connection gave no sign of life for two minutes",
                ),
            },
            Err(error) => ConnectionError::new(ConnectionErrorKind::Lost, error.to_string()),
        };
        if error.kind == ConnectionErrorKind::SendsOnly {
            return;
        }
        failures = if began.elapsed() > STABLE_AFTER { 1 } else { failures + 1 };
        health.note_error(&error);
        let pause = pause_after(&error, failures, context.parts.clock.as_ref());
        tracing::warn!("{}: {error}; trying again in {} s", adapter.platform(), pause.as_secs());
        sleep(pause).await;
    }
}

/// Returns the pause before the next attempt. A random part keeps several programs from reconnecting at
/// the same moment.
fn pause_after(error: &ConnectionError, failures: u32, clock: &dyn Clock) -> Duration {
    let random = u32::from(clock.fresh_uuid().as_bytes()[15]);
    let growing = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    let pause = match (error.kind, error.retry_after) {
        (_, Some(asked)) => asked,
        (ConnectionErrorKind::Refused, None) => REFUSED_PAUSE,
        (_, None) => growing.min(MAX_PAUSE),
    };
    pause + pause.mul_f64(f64::from(random) / 1024.0)
}

/// Stores each event before the platform gets its acknowledgement.
struct StoringInbox {
    context: Arc<ChatContext>,
    platform: Arc<str>,
    health: Arc<ConnectionHealth>,
}

impl EventInbox for StoringInbox {
    fn accept(&self, events: Vec<InboundEvent>, cursor: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let parts = &self.context.parts;
            let now = parts.clock.now();
            let has_events = !events.is_empty();
            let added = parts.chats.accept(&self.platform, events, cursor, now).await?;
            if has_events {
                self.health.seen.lock().last_event_at = Some(now);
            }
            for event in added {
                self.context.lanes.dispatch(&self.context, event, false).await;
            }
            Ok(())
        })
    }

    fn keep_route<'a>(&'a self, chat: &'a str, route: ReplyRoute) -> StoreFuture<'a, ()> {
        let parts = &self.context.parts;
        parts.chats.put_route(&self.platform, chat, route, parts.clock.now())
    }

    fn note_alive(&self) {
        self.health.note_alive();
    }
}
