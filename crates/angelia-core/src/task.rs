//! The only place where tasks are born. Every task belongs to a group that somebody awaits, and is
//! told to stop by that group's token: no task outlives its owner.

use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A group of tasks with one token.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    pub fn new() -> Self {
        Self::default()
    }

    /// A group that stops with this one, and can stop earlier. Its tasks are awaited by this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { tracker: self.tracker.clone(), stop: self.stop.child_token() }
    }

    /// Cancelled when the group is asked to stop.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task to its own end; it watches [`Tasks::stop_token`] itself.
    #[expect(clippy::disallowed_methods, reason = "this is the one home of spawning")]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(self.tracker.track_future(task)));
    }

    /// Runs a task that is simply dropped at its next await when the group stops.
    pub fn spawn_until_stopped(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// How many there are now, of this group and those it belongs with.
    pub fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Asks every task to stop and waits for them. `false`: some were still running after `grace`.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }
}

/// Runs something as a task and waits for it. What wakes a task stays within the runtime; what
/// wakes the future that a runtime blocks on goes through the kernel, every time.
#[expect(clippy::disallowed_methods, reason = "this is the one home of spawning")]
pub async fn as_task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is going down cancels it.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_for_every_task_and_says_when_it_gave_up() {
        let tasks = Tasks::new();
        let child = tasks.child();
        let stop = child.stop_token().clone();
        child.spawn(async move { stop.cancelled().await });
        tasks.spawn_until_stopped(std::future::pending());
        assert_eq!(tasks.count(), 2);
        assert!(tasks.shutdown(Duration::from_secs(1)).await);

        let stubborn = Tasks::new();
        stubborn.spawn(tokio::time::sleep(Duration::from_mins(1)));
        assert!(!stubborn.shutdown(Duration::from_secs(1)).await);
    }
}
