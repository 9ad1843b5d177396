//! Turn ends that the store could not write. They are shown, kept by the session's actor, and
//! written as soon as the store accepts them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    event_writer::{SAFE_TEXT_BYTES, write_once},
    session_actor::SessionActor,
    text_cut::cut_texts,
};
use crate::{
    model::{EventKind, TurnEvent, TurnId, TurnState},
    ports::{Lease, Store, StoreError},
};

const FIRST_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Delays between the last attempts, made when the actor ends.
const LAST_RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1)];

/// The length to which the very last attempt cuts each text, because a cut text may fit where the
/// whole text does not.
const LAST_RESORT_TEXT_BYTES: usize = 200;

/// The end of a turn that has not been written yet.
#[derive(Debug)]
pub(super) struct UnwrittenEnd {
    pub(super) turn: TurnId,
    /// Events that were shown before the end and are not written yet either.
    pub(super) before: Vec<TurnEvent>,
    /// The last events; the very last one is `Finished`.
    pub(super) events: Vec<TurnEvent>,
}

impl UnwrittenEnd {
    /// Returns the state in which readers see the turn until its end is written.
    pub(super) fn state(&self) -> Option<TurnState> {
        let last = self.events.last()?;
        match &last.kind {
            EventKind::Finished(outcome) => {
                Some(TurnState::Finished { at: last.at, outcome: outcome.clone() })
            }
            _ => None,
        }
    }

    async fn write(&self, store: &dyn Store, lease: &Lease) -> Result<(), StoreError> {
        let all: Vec<_> = self.before.iter().chain(&self.events).cloned().collect();
        write_once(store, lease, &all).await
    }

    fn cut_texts(&mut self, limit: usize) -> bool {
        let all = self.before.iter_mut().chain(&mut self.events);
        cut_texts(all.map(|event| &mut event.kind), limit)
    }
}

/// The unwritten ends of one session, oldest first, and when to retry.
#[derive(Debug, Default)]
pub(super) struct UnwrittenEnds {
    ends: Vec<UnwrittenEnd>,
    retry_at: Option<Instant>,
    retry_delay: Duration,
}

impl UnwrittenEnds {
    pub(super) const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns when to retry, or `None` if there is nothing to write.
    pub(super) const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    fn push(&mut self, end: UnwrittenEnd) {
        if self.ends.is_empty() {
            self.retry_delay = FIRST_RETRY_DELAY;
        }
        self.ends.push(end);
        self.schedule_retry();
    }

    fn schedule_retry(&mut self) {
        self.retry_at = (!self.ends.is_empty()).then(|| Instant::now() + self.retry_delay);
        self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
    }
}

impl SessionActor {
    pub(super) fn keep_end(&mut self, end: UnwrittenEnd) {
        self.unwritten_ends.push(end);
    }

    /// Tries to write the kept ends. Returns the error of the first one that still cannot be
    /// written.
    pub(super) async fn write_kept_ends(&mut self) -> Result<(), StoreError> {
        while let Some(end) = self.unwritten_ends.ends.first_mut() {
            let written = end.write(&*self.shared.store, &self.lease).await;
            match &written {
                Err(StoreError::TooLarge { .. }) if end.cut_texts(SAFE_TEXT_BYTES) => continue,
                Err(error) if error.is_temporary() => {
                    self.unwritten_ends.schedule_retry();
                    return written;
                }
                Ok(()) | Err(_) => {}
            }
            let end = self.unwritten_ends.ends.remove(0);
            self.forget_kept_end(&end, written);
        }
        self.unwritten_ends.retry_at = None;
        Ok(())
    }

    /// Makes the last attempts before the actor gives up its lease: first with the whole texts,
    /// then with cut ones.
    pub(super) async fn write_kept_ends_finally(&mut self) {
        for delay in LAST_RETRY_DELAYS {
            if self.write_kept_ends().await.is_ok() {
                return;
            }
            sleep(delay).await;
        }
        for mut end in std::mem::take(&mut self.unwritten_ends).ends {
            end.cut_texts(LAST_RESORT_TEXT_BYTES);
            let written = end.write(&*self.shared.store, &self.lease).await;
            self.forget_kept_end(&end, written);
        }
    }

    fn forget_kept_end(&self, end: &UnwrittenEnd, written: Result<(), StoreError>) {
        match written {
            Ok(()) => tracing::info!(turn = %end.turn, "the end of the turn is recorded now"),
            Err(error) => {
                tracing::error!(turn = %end.turn, %error, "the end of the turn is not recorded");
                self.shared.count_lost_end();
            }
        }
        self.shared.remove_kept_end(end.turn);
        self.shared.finish_log(end.turn);
        self.notify_changed();
    }
}
