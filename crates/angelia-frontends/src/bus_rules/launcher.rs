//! Runs commands in the background: a few per owner at a time, each with a time limit, each reaped.
//! An owner is a hook or a rule. Owners have separate slots, so that one whose command hangs does
//! not delay others. When too many commands of an owner are waiting, the next one is dropped, and a
//! warning is logged.

use std::{
    collections::HashMap,
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
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The limits for each owner of commands.
#[derive(Clone, Copy, Debug)]
pub struct LauncherLimits {
    pub max_running: usize,
    pub max_waiting: usize,
    pub time_limit: Duration,
}

impl Default for LauncherLimits {
    fn default() -> Self {
        Self { max_running: 4, max_waiting: 256, time_limit: Duration::from_mins(5) }
    }
}

#[derive(Clone)]
pub struct Launcher {
    commands: Arc<dyn CommandRunner>,
    limits: LauncherLimits,
    owners: Arc<Mutex<HashMap<Arc<str>, Arc<OwnerSlots>>>>,
    tasks: TaskGroup,
}

/// The commands of one owner.
#[derive(Debug)]
struct OwnerSlots {
    running: Semaphore,
    waiting: AtomicUsize,
}

impl Launcher {
    pub fn new(commands: Arc<dyn CommandRunner>, limits: LauncherLimits, tasks: TaskGroup) -> Self {
        Self { commands, limits, owners: Arc::default(), tasks }
    }

    pub fn time_limit(&self) -> Duration {
        self.limits.time_limit
    }

    /// Starts a command in the background; `what` names it in the log. Returns `false` if too many
    /// commands of this owner are already waiting.
    pub fn start(&self, owner: &Arc<str>, what: impl fmt::Display, command: CommandSpec) -> bool {
        let slots = self.slots_of(owner);
        if slots.waiting.fetch_add(1, Ordering::Relaxed) >= self.limits.max_waiting {
            slots.waiting.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(
                "{what} is not run: {} commands are waiting already",
                self.limits.max_waiting
            );
            return false;
        }
        let what = what.to_string();
        let this = self.clone();
        self.tasks.spawn_until_stopped(async move {
            let place = slots.running.acquire().await;
            slots.waiting.fetch_sub(1, Ordering::Relaxed);
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

    fn slots_of(&self, owner: &Arc<str>) -> Arc<OwnerSlots> {
        let mut owners = self.owners.lock();
        if let Some(slots) = owners.get(owner) {
            return Arc::clone(slots);
        }
        // The rules may have been edited: remove owners without commands.
        owners.retain(|_, slots| Arc::strong_count(slots) > 1);
        let slots = Arc::new(OwnerSlots {
            running: Semaphore::new(self.limits.max_running),
            waiting: AtomicUsize::new(0),
        });
        owners.insert(Arc::clone(owner), Arc::clone(&slots));
        slots
    }
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher").field("limits", &self.limits).finish_non_exhaustive()
    }
}
