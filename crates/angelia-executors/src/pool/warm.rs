//! Processes kept started and waiting, by the shape of their launch.
//!
//! ```text
//!  declare ─┐                       ┌─ two workers: start what is lacking, one each at a time
//!  take ────┼─► stock (who, how many) ◄─┤
//!           │                       └─ a tender: ends what is dead, too much or forgotten
//!           └─► hit: at once · wait: for one that is just starting · miss: start one yourself
//! ```
//!
//! The first process of a shape is there because somebody declared or used it; every burst of
//! misses adds one, and quiet time takes them away again. A program that dies at its start is
//! tried again later and later, never in a loop.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Failure, LaunchFingerprint},
    ports::BoxFuture,
    task::Tasks,
};
use futures_util::future::join_all;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::stock::{Next, Stock, Taken};

/// Starting takes most of a processor, so few start at once.
const WORKERS: usize = 2;

const TEND_EVERY: Duration = Duration::from_secs(30);

/// Something that can wait in a pool.
pub trait Warm: Send + 'static {
    fn is_alive(&mut self) -> bool;

    fn close(self) -> BoxFuture<'static, ()>;
}

/// Starts one of a shape.
pub type Start<T> = Arc<dyn Fn() -> BoxFuture<'static, Result<T, Failure>> + Send + Sync>;

pub struct WarmPool<T: Warm>(Arc<Shared<T>>);

impl<T: Warm> Clone for WarmPool<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Shared<T> {
    stock: Mutex<Stock<T, Start<T>>>,
    changed: Notify,
    tasks: Tasks,
}

impl<T: Warm> fmt::Debug for WarmPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmPool").finish_non_exhaustive()
    }
}

impl<T: Warm> WarmPool<T> {
    /// A pool whose tasks are a part of `tasks`. Needs a runtime.
    pub fn new(tasks: &Tasks) -> Self {
        let shared = Arc::new(Shared {
            stock: Mutex::new(Stock::new()),
            changed: Notify::new(),
            tasks: tasks.child(),
        });
        for _ in 0..WORKERS {
            let worker = Arc::clone(&shared);
            (shared.tasks).spawn_until_stopped(async move { worker.work().await });
        }
        let tender = Arc::clone(&shared);
        (shared.tasks).spawn_until_stopped(async move { tender.tend().await });
        Self(shared)
    }

    /// Keeps `count` of this shape ready from now on.
    pub fn declare(&self, shape: &LaunchFingerprint, count: usize, start: Start<T>) {
        (self.0.stock()).declare(shape, count, start, Instant::now());
        self.0.changed.notify_waiters();
    }

    /// A process of this shape, if one is ready or on its way; `None`: start one now. Either way
    /// `count` are kept ready for a while.
    pub async fn take(
        &self,
        shape: &LaunchFingerprint,
        count: usize,
        start: Start<T>,
    ) -> Option<T> {
        let mut dead = Vec::new();
        let taken =
            self.0.stock().take(shape, count, start, Instant::now(), T::is_alive, &mut dead);
        self.0.changed.notify_waiters();
        self.0.close_in_background(dead);
        match taken {
            Taken::Hit(one) => Some(one),
            Taken::Wait(coming) => coming.await.ok(),
            Taken::Miss(difference) => {
                let reason = difference.unwrap_or("none was waiting");
                tracing::debug!(reason, "no warm process fits");
                None
            }
        }
    }

    /// How many of a shape are ready.
    pub fn ready(&self, shape: &LaunchFingerprint) -> usize {
        self.0.stock().ready(shape)
    }

    /// Ends every process that waits, and starts no more.
    pub async fn close(&self) {
        self.0.tasks.stop_token().cancel();
        let waiting = self.0.stock().drain();
        join_all(waiting.into_iter().map(T::close)).await;
    }
}

impl<T: Warm> Shared<T> {
    fn stock(&self) -> MutexGuard<'_, Stock<T, Start<T>>> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let next = self.stock().next(Instant::now());
            match next {
                Next::Start(shape, start, evicted) => {
                    if let Some(evicted) = evicted {
                        evicted.close().await;
                    }
                    self.start(&shape, &start).await;
                }
                Next::At(time) => tokio::select! {
                    () = sleep_until(time) => {}
                    () = changed => {}
                },
                Next::Nothing => changed.await,
            }
        }
    }

    async fn start(&self, shape: &LaunchFingerprint, start: &Start<T>) {
        let started = start().await;
        let now = Instant::now();
        let surplus = match started {
            Ok(one) => self.stock().started(shape, one, now),
            Err(failure) => {
                tracing::warn!(%failure, "a process could not be kept warm");
                self.stock().failed(shape, now);
                None
            }
        };
        if let Some(surplus) = surplus {
            surplus.close().await;
        }
        self.changed.notify_waiters();
    }

    async fn tend(&self) {
        loop {
            tokio::time::sleep(TEND_EVERY).await;
            let gone = self.stock().tend(Instant::now(), T::is_alive);
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
