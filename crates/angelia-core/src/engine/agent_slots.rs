//! Limits the number of live agents, and evicts the agent that has been idle longest to make room.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    AgentCounts,
    changes::{Announcer, EngineChange},
};
use crate::model::SessionId;

#[derive(Clone, Debug)]
pub(super) struct AgentSlots {
    slots: Arc<Semaphore>,
    /// The sessions whose agents hold a slot.
    live: Arc<Mutex<HashSet<SessionId>>>,
    idle: Arc<Mutex<HashMap<SessionId, IdleAgent>>>,
    waiting: Arc<AtomicUsize>,
    announcer: Announcer,
}

#[derive(Debug)]
struct IdleAgent {
    since: Instant,
    eviction: CancellationToken,
}

impl AgentSlots {
    pub(super) fn new(max: usize, announcer: Announcer) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(max.max(1))),
            live: Arc::default(),
            idle: Arc::default(),
            waiting: Arc::default(),
            announcer,
        }
    }

    /// Acquires a slot for the agent of a session. If all slots are taken, evicts the agent that has
    /// been idle longest; if all agents are busy, waits.
    pub(super) async fn acquire(&self, session: SessionId) -> Option<AgentSlot> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(AgentSlot::new(self, session, permit));
        }
        let _waiting = WaiterGuard::new(&self.waiting);
        self.evict();
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        Some(AgentSlot::new(self, session, permit))
    }

    /// Lists the sessions with a live agent, and how long it has been idle.
    pub(super) fn list(&self) -> Vec<(SessionId, Option<Duration>)> {
        let live: Vec<SessionId> = self.live.lock().iter().copied().collect();
        let idle = self.idle.lock();
        let idle_for = |session| idle.get(session).map(|agent| agent.since.elapsed());
        live.iter().map(|session| (*session, idle_for(session))).collect()
    }

    /// Marks the agent of a session as idle. The returned token is cancelled when the agent must be
    /// closed.
    pub(super) fn mark_idle(&self, session: SessionId) -> CancellationToken {
        let make_room = CancellationToken::new();
        let idle = IdleAgent { since: Instant::now(), eviction: make_room.clone() };
        self.idle.lock().insert(session, idle);
        self.announcer.announce(EngineChange::Agent(session));
        // A turn may have started waiting for a slot while every agent was busy.
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.evict();
        }
        make_room
    }

    pub(super) fn mark_busy(&self, session: SessionId) {
        self.idle.lock().remove(&session);
        self.announcer.announce(EngineChange::Agent(session));
    }

    pub(super) fn count(&self, max: usize) -> AgentCounts {
        AgentCounts {
            live: max.max(1) - self.slots.available_permits(),
            idle: self.idle.lock().len(),
            waiting_turns: self.waiting.load(Ordering::Acquire),
        }
    }

    fn evict(&self) {
        let mut idle = self.idle.lock();
        let oldest = idle.iter().min_by_key(|(_, idle)| idle.since).map(|(id, _)| *id);
        if let Some(idle) = oldest.and_then(|session| idle.remove(&session)) {
            idle.eviction.cancel();
        }
    }
}

/// The slot of a live agent, freed on drop.
#[derive(Debug)]
pub(super) struct AgentSlot {
    session: SessionId,
    live: Arc<Mutex<HashSet<SessionId>>>,
    announcer: Announcer,
    _permit: OwnedSemaphorePermit,
}

impl AgentSlot {
    fn new(slots: &AgentSlots, session: SessionId, permit: OwnedSemaphorePermit) -> Self {
        slots.live.lock().insert(session);
        slots.announcer.announce(EngineChange::Agent(session));
        let announcer = slots.announcer.clone();
        Self { session, live: Arc::clone(&slots.live), announcer, _permit: permit }
    }
}

impl Drop for AgentSlot {
    fn drop(&mut self) {
        self.live.lock().remove(&self.session);
        self.announcer.announce(EngineChange::Agent(self.session));
    }
}

/// Counts one waiter until dropped, even if the waiting future is cancelled.
struct WaiterGuard<'a>(&'a AtomicUsize);

impl<'a> WaiterGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
