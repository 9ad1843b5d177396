//! A pool of started processes that wait for their first turn, grouped by launch shape.
//!
//! ```text
//!  declare ─┐                       ┌─ two workers: start missing processes, one each at a time
//!  take ────┼─► PoolState ◄─────────┤
//!           │                       └─ a pruning task: closes dead, surplus and unused processes
//!           └─► hit: at once · wait: for one that is starting · miss: the caller starts one
//! ```
//!
//! A shape gets its first process when it is declared or used. Every burst of misses adds one, and
//! quiet time removes them again. A program that dies at startup is retried with exponential
//! backoff, never in a tight loop.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Failure, LaunchFingerprint},
    ports::BoxFuture,
    task::TaskGroup,
};
use futures_util::future::join_all;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::state::{PoolAction, PoolState, PoolTakeResult};

/// Starting a program takes most of a CPU core, so only a few start at once.
const WORKERS: usize = 2;

const PRUNE_INTERVAL: Duration = Duration::from_secs(30);

/// A process that can wait in a pool.
pub trait WarmProcess: Send + 'static {
    fn is_alive(&mut self) -> bool;

    fn close(self) -> BoxFuture<'static, ()>;
}

/// Starts a process of one shape.
pub type ProcessStarter<T> = Arc<dyn Fn() -> BoxFuture<'static, Result<T, Failure>> + Send + Sync>;

pub struct WarmPool<T: WarmProcess>(Arc<PoolShared<T>>);

impl<T: WarmProcess> Clone for WarmPool<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct PoolShared<T> {
    state: Mutex<PoolState<T, ProcessStarter<T>>>,
    changed: Notify,
    tasks: TaskGroup,
}

impl<T: WarmProcess> fmt::Debug for WarmPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmPool").finish_non_exhaustive()
    }
}

impl<T: WarmProcess> WarmPool<T> {
    /// Creates a pool whose tasks are children of `tasks`. Must be called inside a tokio runtime.
    pub fn new(tasks: &TaskGroup) -> Self {
        let shared = Arc::new(PoolShared {
            state: Mutex::new(PoolState::new()),
            changed: Notify::new(),
            tasks: tasks.child(),
        });
        for _ in 0..WORKERS {
            let worker = Arc::clone(&shared);
            (shared.tasks).spawn_until_stopped(async move { worker.run_worker().await });
        }
        let tender = Arc::clone(&shared);
        (shared.tasks).spawn_until_stopped(async move { tender.run_pruner().await });
        Self(shared)
    }

    /// Keeps `count` processes of this shape ready from now on.
    pub fn declare(&self, shape: &LaunchFingerprint, count: usize, start: ProcessStarter<T>) {
        (self.0.lock_state()).declare(shape, count, start, Instant::now());
        self.0.changed.notify_waiters();
    }

    /// Takes a process of this shape if one is ready or starting. If this returns `None`, the
    /// caller must start one. In both cases, `count` processes are kept ready for a while.
    pub async fn take(
        &self,
        shape: &LaunchFingerprint,
        count: usize,
        start: ProcessStarter<T>,
    ) -> Option<T> {
        let mut dead = Vec::new();
        let taken =
            self.0.lock_state().take(shape, count, start, Instant::now(), T::is_alive, &mut dead);
        self.0.changed.notify_waiters();
        self.0.close_in_background(dead);
        match taken {
            PoolTakeResult::Hit(one) => Some(one),
            PoolTakeResult::Wait(coming) => coming.await.ok(),
            PoolTakeResult::Miss(difference) => {
                let reason = difference.unwrap_or("none was waiting");
                tracing::debug!(reason, "no warm process fits");
                None
            }
        }
    }

    /// Returns the number of ready processes of a shape.
    pub fn ready_count(&self, shape: &LaunchFingerprint) -> usize {
        self.0.lock_state().ready_count(shape)
    }

    /// Closes every ready process and starts no more.
    pub async fn close(&self) {
        self.0.tasks.stop_token().cancel();
        let waiting = self.0.lock_state().drain();
        join_all(waiting.into_iter().map(T::close)).await;
    }
}

impl<T: WarmProcess> PoolShared<T> {
    fn lock_state(&self) -> MutexGuard<'_, PoolState<T, ProcessStarter<T>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_worker(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register before reading the state, so that a change in between is not missed.
            changed.as_mut().enable();
            let next = self.lock_state().next_action(Instant::now());
            match next {
                PoolAction::Start(shape, start, evicted) => {
                    if let Some(evicted) = evicted {
                        evicted.close().await;
                    }
                    self.start(&shape, &start).await;
                }
                PoolAction::WaitUntil(time) => tokio::select! {
                    () = sleep_until(time) => {}
                    () = changed => {}
                },
                PoolAction::Idle => changed.await,
            }
        }
    }

    async fn start(&self, shape: &LaunchFingerprint, start: &ProcessStarter<T>) {
        let started = start().await;
        let now = Instant::now();
        let surplus = match started {
            Ok(one) => self.lock_state().record_start(shape, one, now),
            Err(failure) => {
                tracing::warn!(%failure, "could not start a warm process");
                self.lock_state().record_failure(shape, now);
                None
            }
        };
        if let Some(surplus) = surplus {
            surplus.close().await;
        }
        self.changed.notify_waiters();
    }

    async fn run_pruner(&self) {
        loop {
            tokio::time::sleep(PRUNE_INTERVAL).await;
            let gone = self.lock_state().prune(Instant::now(), T::is_alive);
            join_all(gone.into_iter().map(T::close)).await;
            self.changed.notify_waiters();
        }
    }

    fn close_in_background(&self, gone: Vec<T>) {
        for one in gone {
            self.tasks.spawn(one.close());
        }
    }
}

#[cfg(test)]
#[path = "warm_tests.rs"]
mod tests;
