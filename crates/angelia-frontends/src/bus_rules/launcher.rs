//! Runs commands in the background: a few at a time, each with a time limit, each reaped. When too
//! many are waiting, the next one is not run, and a warning is logged.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    ports::{CommandRunner, CommandSpec},
    task::TaskGroup,
};
use tokio::sync::Semaphore;

#[derive(Clone, Copy, Debug)]
pub struct LauncherLimits {
    pub max_running: usize,
    pub max_waiting: usize,
    pub time_limit: Duration,
}

impl Default for LauncherLimits {
    fn default() -> Self {
        Self { max_running: 8, max_waiting: 256, time_limit: Duration::from_mins(5) }
    }
}

#[derive(Clone)]
pub struct Launcher {
    commands: Arc<dyn CommandRunner>,
    limits: LauncherLimits,
    slots: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    tasks: TaskGroup,
}

impl Launcher {
    pub fn new(commands: Arc<dyn CommandRunner>, limits: LauncherLimits, tasks: TaskGroup) -> Self {
        Self {
            commands,
            limits,
            slots: Arc::new(Semaphore::new(limits.max_running)),
            waiting: Arc::default(),
            tasks,
        }
    }

    pub fn time_limit(&self) -> Duration {
        self.limits.time_limit
    }

    /// Starts a command in the background; `what` names it in the log. Returns `false` if too many
    /// commands are waiting already.
    pub fn start(&self, what: impl fmt::Display, command: CommandSpec) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.limits.max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(
                "{what} is not run: {} commands are waiting already",
                self.limits.max_waiting
            );
            return false;
        }
        let what = what.to_string();
        let this = self.clone();
        self.tasks.spawn_until_stopped(async move {
            let place = this.slots.acquire().await;
            this.waiting.fetch_sub(1, Ordering::Relaxed);
            let ran = this.commands.run(command).await;
            drop(place);
            match ran {
                Ok(ran) if ran.timed_out => {
                    tracing::warn!(
                        "{what} was stopped after {} s",
                        this.limits.time_limit.as_secs()
                    );
                }
                Ok(ran) if !ran.ok => {
                    tracing::warn!("{what} failed");
                    tracing::trace!("{what} said: {}", ran.stderr);
                }
                Ok(_) => {}
                Err(error) => tracing::warn!("{what} was not run: {error}"),
            }
        });
        true
    }
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher").field("limits", &self.limits).finish_non_exhaustive()
    }
}
