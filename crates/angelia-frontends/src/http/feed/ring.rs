//! The most recent events of the feed, encoded, and the clients that read them.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use angelia_wire::sse::SseEncoder;
use axum::body::Bytes;
use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

/// How many events a client may fall behind.
const MAX_EVENTS: usize = 4096;

/// How many bytes of events are kept.
const MAX_BYTES: usize = 8 << 20;

/// How many events are written to a client at once.
const MAX_BATCH: usize = 64;

/// How long the feed continues after its last client disconnects, so that a reloaded page, or a
/// laptop whose network changes, resumes without a gap.
pub(super) const LINGER: Duration = Duration::from_mins(1);

/// The ring of events. Cheap to clone; clones share one state.
#[derive(Clone)]
pub struct ChangeFeed {
    shared: Arc<FeedState>,
}

struct FeedState {
    /// Distinguishes the ids of this process from those of others.
    boot: String,
    ring: Mutex<Ring>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
    readers: watch::Sender<usize>,
}

struct Ring {
    /// The number of the first event in `events`.
    first: u64,
    events: VecDeque<Bytes>,
    bytes: usize,
    is_producing: bool,
    /// Whether the producer knows the current lists. Whatever a client reads from then on is not older
    /// than what the producer compares with, so every later change is reported.
    is_ready: bool,
    /// When the last client disconnected.
    idle_since: Instant,
}

impl Default for ChangeFeed {
    fn default() -> Self {
        let ring = Ring {
            first: 1,
            events: VecDeque::new(),
            bytes: 0,
            is_producing: false,
            is_ready: false,
            idle_since: Instant::now(),
        };
        Self {
            shared: Arc::new(FeedState {
                boot: Uuid::new_v4().simple().to_string()[..8].to_owned(),
                ring: Mutex::new(ring),
                newest: watch::Sender::new(0),
                readers: watch::Sender::new(0),
            }),
        }
    }
}

impl ChangeFeed {
    /// Returns whether the caller must start the producer.
    pub(super) fn start_producer(&self) -> bool {
        !std::mem::replace(&mut self.shared.ring.lock().is_producing, true)
    }

    /// Returns whether the producer must end, because nobody has listened for a while. If so,
    /// forgets all events, because a gap follows them.
    pub(super) fn end_producer_if_idle(&self) -> bool {
        let mut ring = self.shared.ring.lock();
        let is_idle = *self.shared.readers.borrow() == 0 && ring.idle_since.elapsed() >= LINGER;
        if is_idle {
            ring.is_producing = false;
            ring.is_ready = false;
            ring.forget();
        }
        is_idle
    }

    /// Lets clients begin, because the producer now knows the lists.
    pub(super) fn begin(&self) {
        self.shared.ring.lock().is_ready = true;
        self.shared.newest.send_modify(|_| {});
    }

    /// Adds an event. `data` is JSON.
    pub(super) fn push(&self, name: &str, data: &[u8]) {
        let mut ring = self.shared.ring.lock();
        let number = ring.next();
        let event = self.shared.encode(number, name, data);
        ring.bytes += event.len();
        ring.events.push_back(event);
        while ring.events.len() > MAX_EVENTS || ring.bytes > MAX_BYTES {
            let Some(oldest) = ring.events.pop_front() else { break };
            ring.bytes -= oldest.len();
            ring.first += 1;
        }
        drop(ring);
        self.shared.newest.send_replace(number);
    }

    /// Makes every client read everything again, because the producer has missed something.
    pub(super) fn reset(&self) {
        let mut ring = self.shared.ring.lock();
        ring.forget();
        let newest = ring.first - 1;
        drop(ring);
        self.shared.newest.send_replace(newest);
    }

    /// Returns a reader that continues after the event with this id.
    pub(super) fn reader(&self, last: Option<&str>) -> FeedReader {
        let known = last.and_then(|id| {
            let (boot, number) = id.trim().split_once('-')?;
            (boot == self.shared.boot).then(|| number.parse::<u64>().ok()).flatten()
        });
        self.shared.readers.send_modify(|count| *count += 1);
        FeedReader {
            newest: self.shared.newest.subscribe(),
            feed: self.clone(),
            // Without a known position, the first read is a reset.
            seen: known,
        }
    }
}

impl Ring {
    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Forgets all events. Skipping one number puts every client behind the ring.
    fn forget(&mut self) {
        self.first = self.next() + 1;
        self.events.clear();
        self.bytes = 0;
    }
}

impl FeedState {
    fn encode(&self, number: u64, name: &str, data: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        let id = format!("{}-{number}", self.boot);
        SseEncoder::new(&mut out).id(&id).event(name).data(data).end();
        out.freeze()
    }
}

/// The position of one client.
pub(super) struct FeedReader {
    feed: ChangeFeed,
    newest: watch::Receiver<u64>,
    seen: Option<u64>,
}

impl FeedReader {
    /// Waits for events and returns a batch of them. Cancel safe.
    pub(super) async fn next(&mut self) -> Bytes {
        loop {
            // Mark the current value as seen before reading, so that an event that arrives in
            // between wakes us again.
            self.newest.borrow_and_update();
            if let Some(events) = self.take() {
                return events;
            }
            if self.newest.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let shared = &self.feed.shared;
        let ring = shared.ring.lock();
        if !ring.is_ready {
            return None;
        }
        let next = ring.next();
        // The reader is up to date with the ring if its next event is in the ring or will be the
        // next one added.
        let seen = self.seen.filter(|seen| seen + 1 >= ring.first && *seen < next);
        let Some(seen) = seen else {
            self.seen = Some(next - 1);
            return Some(shared.encode(next - 1, "reset", b"{}"));
        };
        let start = usize::try_from(seen + 1 - ring.first).unwrap_or(usize::MAX);
        let mut out = BytesMut::new();
        let mut taken = 0;
        for event in ring.events.iter().skip(start).take(MAX_BATCH) {
            out.extend_from_slice(event);
            taken += 1;
        }
        self.seen = Some(seen + taken);
        (taken > 0).then(|| out.freeze())
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        self.feed.shared.ring.lock().idle_since = Instant::now();
        self.feed.shared.readers.send_modify(|count| *count -= 1);
    }
}

impl fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeFeed").field("boot", &self.shared.boot).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    async fn text(reader: &mut FeedReader) -> String {
        String::from_utf8(reader.next().await.to_vec()).unwrap()
    }

    fn last_id(text: &str) -> String {
        let line = text.lines().rfind(|line| line.starts_with("id: ")).unwrap();
        line["id: ".len()..].to_owned()
    }

    fn begun_feed() -> ChangeFeed {
        let feed = ChangeFeed::default();
        feed.begin();
        feed
    }

    #[tokio::test]
    async fn a_client_begins_when_the_producer_knows_the_lists() {
        let feed = ChangeFeed::default();
        let mut reader = feed.reader(None);
        assert!(reader.next().now_or_never().is_none());
        feed.begin();
        assert!(text(&mut reader).await.contains("event: reset"));
    }

    #[tokio::test]
    async fn a_client_resumes_where_it_was() {
        let feed = begun_feed();
        let mut reader = feed.reader(None);
        assert!(text(&mut reader).await.contains("event: reset"));
        feed.push("turn.changed", b"{\"id\":1}");
        feed.push("turn.changed", b"{\"id\":2}");
        let both = text(&mut reader).await;
        assert!(both.contains("{\"id\":1}") && both.contains("{\"id\":2}"), "{both}");
        feed.push("turn.changed", b"{\"id\":3}");
        let resumed = text(&mut feed.reader(Some(&last_id(&both)))).await;
        assert!(resumed.contains("{\"id\":3}") && !resumed.contains("{\"id\":2}"), "{resumed}");
    }

    #[tokio::test]
    async fn a_client_that_is_too_late_reads_everything_again() {
        let feed = begun_feed();
        let mut slow = feed.reader(None);
        let first = text(&mut slow).await;
        for number in 0..=MAX_EVENTS {
            feed.push("turn.changed", number.to_string().as_bytes());
        }
        for id in [last_id(&first), "other-1".to_owned(), "nonsense".to_owned()] {
            let told = text(&mut feed.reader(Some(&id))).await;
            assert!(told.contains("event: reset"), "{id}: {told}");
        }
        assert!(text(&mut slow).await.contains("event: reset"));
        feed.push("turn.changed", b"{\"id\":\"new\"}");
        assert!(text(&mut slow).await.contains("new"));
    }

    #[tokio::test]
    async fn a_gap_of_the_producer_is_a_reset() {
        let feed = begun_feed();
        let mut reader = feed.reader(None);
        text(&mut reader).await;
        feed.push("turn.changed", b"1");
        feed.reset();
        assert!(text(&mut reader).await.contains("event: reset"));
        feed.push("turn.changed", b"2");
        assert!(text(&mut reader).await.contains("data: 2"));
    }
}
