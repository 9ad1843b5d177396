//! The only place that spawns tasks. Every task belongs to a group, which its owner awaits and can
//! stop with a token, so no task outlives its owner.

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

    /// Returns a group that stops with this one or earlier. This group also awaits the child's
    /// tasks.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { tracker: self.tracker.clone(), stop: self.stop.child_token() }
    }

    /// Returns the token that is cancelled when the group is asked to stop.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task to its own end. The task itself watches [`TaskGroup::stop_token`].
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

    /// Returns the number of running tasks, including those of parent and child groups.
    pub fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Asks every task to stop, and waits for them. Returns `false` if some are still running after
    /// `grace`.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }
}

/// Runs a future as a task and waits for it. Wake-ups of a task stay inside the runtime, whereas
/// every wake-up of a future passed to `block_on` goes through the kernel.
#[expect(clippy::disallowed_methods, reason = "this is the one home of spawning")]
pub async fn run_as_task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The task is cancelled only if the runtime is shutting down.
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
