//! The events of running turns in memory. Every viewer reads at its own pace from its own position,
//! so a slow viewer does not delay the others.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{
    AWAITING_TOOL_RESULT_NOTICE, TurnCounts,
    text_cut::text_bytes,
    turn_statistics::{ExecutorTotals, TurnStatistics},
    watchdog::StateTimeout,
};
use crate::{
    model::{EventKind, Outcome, Seq, SessionId, TextChannel, TurnEvent, TurnId},
    ports::{Store, StoreError},
};

/// Number of stored events read at once when a turn is replayed.
const REPLAY_PAGE: usize = 512;

#[derive(Debug)]
pub(super) struct TurnLog {
    pub(super) turn: TurnId,
    pub(super) session: SessionId,
    /// Events in the batches in which they were published, so that publishing and following take
    /// one step per batch.
    batches: Mutex<Vec<Arc<[TurnEvent]>>>,
    progress: watch::Sender<LogProgress>,
    /// Last event that an earlier process recorded. Events up to this one are only in the store.
    stored_until: AtomicU64,
    submitted_at: Instant,
    /// Time from the submission to the first text of the answer.
    first_word: OnceLock<Duration>,
    /// The timeout that expires next.
    timeout: Mutex<Option<(Instant, StateTimeout)>>,
}

/// Number of logs kept after their turn has ended. A client often requests the events of a short
/// turn only after its end, and still gets every delta. Later viewers read from the store.
const MAX_RECENT_LOGS: usize = 16;
/// Turns with more events or bytes than this are not kept.
const MAX_RECENT_EVENTS: usize = 1024;
const MAX_RECENT_BYTES: usize = 1 << 20;

/// The logs in memory.
#[derive(Debug, Default)]
pub(super) struct TurnLogs {
    running: HashMap<TurnId, Arc<TurnLog>>,
    recent: VecDeque<Arc<TurnLog>>,
    /// Number of finished turns by status.
    finished: BTreeMap<&'static str, u64>,
    statistics: TurnStatistics,
}

#[derive(Debug, Default)]
pub(super) struct LogCounts {
    pub(super) turns: TurnCounts,
    pub(super) finished: Vec<(&'static str, u64)>,
    pub(super) executors: Vec<(Arc<str>, ExecutorTotals)>,
}

impl TurnLogs {
    pub(super) fn insert(&mut self, log: &Arc<TurnLog>) {
        self.running.insert(log.turn, Arc::clone(log));
    }

    pub(super) fn remove(&mut self, turn: TurnId) {
        self.running.remove(&turn);
    }

    pub(super) fn finish(&mut self, turn: TurnId) {
        let Some(log) = self.running.remove(&turn) else {
            return;
        };
        if let Some(EventKind::Finished(outcome)) = log.last_kind() {
            *self.finished.entry(outcome.status.as_str()).or_default() += 1;
            if let Some(executor) = log.executor() {
                self.statistics.add(&executor, &outcome.usage, log.first_word());
            }
        }
        if !log.is_small() {
            return;
        }
        if self.recent.len() == MAX_RECENT_LOGS {
            self.recent.pop_front();
        }
        self.recent.push_back(log);
    }

    pub(super) fn count(&self) -> LogCounts {
        let mut turns = TurnCounts::default();
        for log in self.running.values() {
            match log.last_kind() {
                None => turns.queued += 1,
                // Kept only until its end is written.
                Some(EventKind::Finished(_)) => {}
                Some(EventKind::Notice(notice)) if *notice.code == *AWAITING_TOOL_RESULT_NOTICE => {
                    turns.running += 1;
                    turns.awaiting_tool_result += 1;
                }
                Some(_) => turns.running += 1,
            }
        }
        let finished = self.finished.iter();
        LogCounts {
            turns,
            finished: finished.map(|(status, count)| (*status, *count)).collect(),
            executors: self.statistics.list(),
        }
    }

    pub(super) fn open_turn_ids(&self) -> Vec<TurnId> {
        self.running.keys().copied().collect()
    }

    pub(super) fn find(&self, turn: TurnId) -> Option<Arc<TurnLog>> {
        let recent = || self.recent.iter().find(|log| log.turn == turn);
        self.running.get(&turn).or_else(recent).cloned()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogProgress {
    last_seq: Seq,
    finished: bool,
}

impl TurnLog {
    pub(super) fn new(turn: TurnId, session: SessionId) -> Arc<Self> {
        let (progress, _) = watch::channel(LogProgress::default());
        Arc::new(Self {
            turn,
            session,
            batches: Mutex::default(),
            progress,
            stored_until: AtomicU64::new(0),
            submitted_at: Instant::now(),
            first_word: OnceLock::new(),
            timeout: Mutex::default(),
        })
    }

    /// Returns the time from the submission to the first text of the answer, if there is any.
    pub(super) fn first_word(&self) -> Option<Duration> {
        self.first_word.get().copied()
    }

    pub(super) fn set_timeout(&self, at: Instant, timeout: &StateTimeout) {
        let mut shown = self.timeout.lock();
        if shown.as_ref().is_none_or(|(then, known)| *then != at || known != timeout) {
            *shown = Some((at, timeout.clone()));
        }
    }

    pub(super) fn timeout(&self) -> Option<(Instant, StateTimeout)> {
        self.timeout.lock().clone()
    }

    /// Returns the newest text of the answer: at least `bytes` of it, if there is that much.
    pub(super) fn newest_text(&self, bytes: usize) -> String {
        let batches = self.batches.lock();
        let mut pieces = Vec::new();
        let (mut size, mut newest_block) = (0, None);
        for event in batches.iter().rev().flat_map(|batch| batch.iter().rev()) {
            let (block, text, is_whole) = match &event.kind {
                EventKind::Delta { block, channel: TextChannel::Answer, text } => {
                    (*block, text, false)
                }
                EventKind::Block { block, channel: TextChannel::Answer, text } => {
                    (*block, text, true)
                }
                _ => continue,
            };
            if *newest_block.get_or_insert(block) != block || size >= bytes {
                break;
            }
            size += text.len();
            pieces.push(Arc::clone(text));
            if is_whole {
                break;
            }
        }
        pieces.iter().rev().map(|piece| &**piece).collect()
    }

    fn last_kind(&self) -> Option<EventKind> {
        let batches = self.batches.lock();
        let last = batches.last()?.last()?;
        Some(last.kind.clone())
    }

    /// Returns the executor that this process started for the turn.
    fn executor(&self) -> Option<Arc<str>> {
        let batches = self.batches.lock();
        let mut events = batches.iter().flat_map(|batch| batch.iter());
        events.find_map(|event| match &event.kind {
            EventKind::Started(started) => Some(Arc::clone(&started.executor)),
            _ => None,
        })
    }

    fn is_small(&self) -> bool {
        let batches = self.batches.lock();
        if batches.iter().map(|batch| batch.len()).sum::<usize>() > MAX_RECENT_EVENTS {
            return false;
        }
        let events = batches.iter().flat_map(|batch| batch.iter());
        events.map(|event| text_bytes(&event.kind)).sum::<usize>() <= MAX_RECENT_BYTES
    }

    /// Sets the last event that an earlier process recorded. Viewers read events up to it from the
    /// store.
    pub(super) fn set_stored_until(&self, seq: Seq) {
        self.stored_until.store(seq, Ordering::Release);
        self.progress.send_modify(|progress| progress.last_seq = progress.last_seq.max(seq));
    }

    /// Ends the watches of an unfinished turn that this process no longer works on.
    pub(super) fn end_watches(&self) {
        self.progress.send_modify(|progress| progress.finished = true);
    }

    /// Shows numbered events to every viewer.
    pub(super) fn publish(&self, batch: Arc<[TurnEvent]>) {
        let Some(last) = batch.last() else { return };
        let (seq, finished) = (last.seq, matches!(last.kind, EventKind::Finished(_)));
        if self.first_word.get().is_none() && batch.iter().any(is_answer) {
            self.first_word.get_or_init(|| self.submitted_at.elapsed());
        }
        self.batches.lock().push(batch);
        self.progress.send_modify(|progress| {
            progress.last_seq = seq;
            progress.finished = finished;
        });
    }

    pub(super) fn is_finished(&self) -> bool {
        self.progress.borrow().finished
    }

    fn batch_after(&self, seq: Seq) -> Option<EventBatch> {
        let batches = self.batches.lock();
        let index = batches.partition_point(|batch| batch.last().is_some_and(|e| e.seq <= seq));
        let events = Arc::clone(batches.get(index)?);
        let from = events.partition_point(|event| event.seq <= seq);
        Some(EventBatch { events, from })
    }
}

fn is_answer(event: &TurnEvent) -> bool {
    let (EventKind::Delta { channel, text, .. } | EventKind::Block { channel, text, .. }) =
        &event.kind
    else {
        return false;
    };
    *channel == TextChannel::Answer && !text.is_empty()
}

/// Events in order, shared with the other viewers of the turn.
#[derive(Clone, Debug)]
pub struct EventBatch {
    events: Arc<[TurnEvent]>,
    from: usize,
}

impl Deref for EventBatch {
    type Target = [TurnEvent];

    fn deref(&self) -> &[TurnEvent] {
        &self.events[self.from..]
    }
}

impl From<Vec<TurnEvent>> for EventBatch {
    fn from(events: Vec<TurnEvent>) -> Self {
        Self { events: events.into(), from: 0 }
    }
}

impl EventBatch {
    /// Returns the outcome of the turn if these are its last events.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self.last().map(|event| &event.kind) {
            Some(EventKind::Finished(outcome)) => Some(outcome),
            _ => None,
        }
    }
}

/// One viewer's position in the events of a running or finished turn.
pub struct TurnWatch {
    source: WatchSource,
    seen: Seq,
    over: bool,
}

enum WatchSource {
    Live { log: Arc<TurnLog>, progress: watch::Receiver<LogProgress>, store: Arc<dyn Store> },
    Stored { store: Arc<dyn Store>, turn: TurnId },
}

impl std::fmt::Debug for TurnWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnWatch").field("seen", &self.seen).field("over", &self.over).finish()
    }
}

impl TurnWatch {
    pub(super) fn live(log: Arc<TurnLog>, store: Arc<dyn Store>, after: Seq) -> Self {
        let progress = log.progress.subscribe();
        Self { source: WatchSource::Live { log, progress, store }, seen: after, over: false }
    }

    pub(super) fn stored(store: Arc<dyn Store>, turn: TurnId, after: Seq) -> Self {
        Self { source: WatchSource::Stored { store, turn }, seen: after, over: false }
    }

    /// Returns the next events, as many as are available, or `None` after the last one. Cancel
    /// safe.
    pub async fn next(&mut self) -> Result<Option<EventBatch>, StoreError> {
        if self.over {
            return Ok(None);
        }
        let batch = match &mut self.source {
            WatchSource::Live { log, progress, store } => {
                follow(log, progress, store, self.seen).await?
            }
            WatchSource::Stored { store, turn } => replay(store, *turn, self.seen).await?,
        };
        match batch.as_deref().and_then(<[TurnEvent]>::last) {
            Some(last) => {
                self.seen = last.seq;
                self.over = matches!(last.kind, EventKind::Finished(_));
            }
            None => self.over = true,
        }
        Ok(batch)
    }
}

async fn replay(
    store: &Arc<dyn Store>,
    turn: TurnId,
    after: Seq,
) -> Result<Option<EventBatch>, StoreError> {
    let events = store.replay(turn, after, REPLAY_PAGE).await?;
    Ok((!events.is_empty()).then(|| events.into()))
}

async fn follow(
    log: &TurnLog,
    progress: &mut watch::Receiver<LogProgress>,
    store: &Arc<dyn Store>,
    seen: Seq,
) -> Result<Option<EventBatch>, StoreError> {
    loop {
        // Read the progress before the events, so that events published in between wake us again.
        let now = *progress.borrow_and_update();
        let stored_until = log.stored_until.load(Ordering::Acquire);
        // Start with the events of an earlier process, which are not in memory.
        if seen < stored_until
            && let Some(batch) = replay(store, log.turn, seen).await?
        {
            return Ok(Some(batch));
        }
        if now.last_seq > seen.max(stored_until) {
            return Ok(log.batch_after(seen));
        }
        if now.finished || progress.changed().await.is_err() {
            return Ok(None);
        }
    }
}
