//! Delegates work of the built-in loop to other profiles within the engine's process: the same rules, without
//! a server in between.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::{
    engine::Engine,
    model::{Failure, SessionId, SessionSpec},
    ports::{BoxFuture, DelegateProfile, DelegateResult, DelegatedWork, Store, WorkDelegation},
};
use angelia_frontends::{
    mcp::ProgressReporter,
    turn_service::{EngineTurns, SpecOverrides, TurnService},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{DelegationDesk, Delegator, MAX_CONCURRENT_TURNS, home_agents::refusal};
use crate::{assemble::App, profiles::ConfiguredProfiles};

pub(crate) struct EngineDelegation {
    app: Arc<App>,
    store: Arc<dyn Store>,
    turns: Arc<dyn TurnService>,
    /// Whether this process is the daemon, in which the owner sees the pending approvals of all turns.
    is_daemon: bool,
    /// The slots of the sessions that are currently delegating work.
    slots: Mutex<HashMap<SessionId, Arc<Semaphore>>>,
}

impl EngineDelegation {
    /// Delegates work to the engine of this process.
    pub(crate) fn start(
        (app, engine, store): (&Arc<App>, &Engine, &Arc<dyn Store>),
        profiles: &Arc<ConfiguredProfiles>,
        is_daemon: bool,
    ) -> Arc<dyn WorkDelegation> {
        let overrides = SpecOverrides::default();
        let turns = EngineTurns::new(engine.clone(), Arc::clone(profiles) as _, overrides);
        Arc::new(Self {
            app: Arc::clone(app),
            store: Arc::clone(store),
            turns: Arc::new(turns),
            is_daemon,
            slots: Mutex::default(),
        })
    }

    fn slots_of(&self, session: SessionId) -> Arc<Semaphore> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Every user of a semaphore has a reference besides the map's.
        slots.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let all = || Arc::new(Semaphore::new(MAX_CONCURRENT_TURNS as usize));
        Arc::clone(slots.entry(session).or_insert_with(all))
    }
}

impl WorkDelegation for EngineDelegation {
    fn delegates(&self, spec: &SessionSpec) -> Vec<DelegateProfile> {
        let config = self.app.live_config.current();
        let names = config.delegates(&spec.profile, &spec.executor);
        config.delegate_profiles(names.iter().map(String::as_str))
    }

    fn hand_on(
        &self,
        from: SessionId,
        work: DelegatedWork,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<DelegateResult, Failure>> {
        Box::pin(async move {
            let slots = self.slots_of(from);
            let desk = DelegationDesk {
                app: &self.app,
                store: &*self.store,
                slots: &slots,
                caller: Delegator::Session(from),
                can_ask: self.is_daemon,
            };
            let turns = std::future::ready(Ok(Arc::clone(&self.turns)));
            let progress = ProgressReporter::silent();
            desk.hand_on(work, turns, &progress, &stop).await.map_err(refusal)
        })
    }
}
