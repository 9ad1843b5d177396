//! The only place that spawns tasks. Every task belongs to a group that its owner awaits and that
//! has a token to stop it: no task outlives its owner.

use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A group of tasks with one cancellation token.
#[derive(Clone, Debug, Default)]
pub struct TaskGroup {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl TaskGroup {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a group that stops with this one and can stop earlier. This group awaits its tasks.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { tracker: self.tracker.clone(), stop: self.stop.child_token() }
    }

    /// Cancelled when the group is asked to stop.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task to its own end; the task itself watches [`TaskGroup::stop_token`].
    #[expect(clippy::disallowed_methods, reason = "this is the one home of spawning")]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(self.tracker.track_future(task)));
    }

    /// Runs a task that is dropped at its next await when the group stops.
    pub fn spawn_until_stopped(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Number of running tasks, including those of parent and child groups.
    pub fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Asks every task to stop and waits for them. Returns `false` if some still run after `grace`.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }
}

/// Runs a future as a task and waits for it. Wake-ups of a task stay inside the runtime, while
/// every wake-up of the future that the runtime blocks on goes through the kernel.
#[expect(clippy::disallowed_methods, reason = "this is the one home of spawning")]
pub async fn run_as_task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shutting down cancels the task.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_for_every_task_and_says_when_it_gave_up() {
        let tasks = TaskGroup::new();
        let child = tasks.child();
        let stop = child.stop_token().clone();
        child.spawn(async move { stop.cancelled().await });
        tasks.spawn_until_stopped(std::future::pending());
        assert_eq!(tasks.count(), 2);
        assert!(tasks.shutdown(Duration::from_secs(1)).await);

        let stubborn = TaskGroup::new();
        stubborn.spawn(tokio::time::sleep(Duration::from_mins(1)));
        assert!(!stubborn.shutdown(Duration::from_secs(1)).await);
    }
}
