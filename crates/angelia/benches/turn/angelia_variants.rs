//! Runs an agent program through Angelia in two ways: the engine in this process, and `angelia
//! serve` over its socket. Each has a hot session.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use angelia_core::model::SessionId;
use anyhow::Result;

use crate::{
    daemon::SocketDaemon, http::SocketClient, local::InProcessEngine, report::SampleSeries,
};

/// The prompt of every turn, the same for all variants.
pub(crate) const PROMPT: &str = "WORDS:20";

pub(crate) struct AngeliaVariants {
    local: InProcessEngine,
    local_session: SessionId,
    pub(crate) client: SocketClient,
    daemon_session: String,
    /// Declared after its client, so that it is dropped after it.
    pub(crate) daemon: SocketDaemon,
    /// The time a pool needs to replace a process that was taken from it.
    refill: Duration,
}

/// The results of one of the two ways.
#[derive(Default)]
pub(crate) struct VariantResults {
    /// The first text of a hot session's turn.
    pub(crate) hot: SampleSeries,
    pub(crate) hot_end: SampleSeries,
    /// The first text of a new session.
    pub(crate) new: SampleSeries,
}

impl AngeliaVariants {
    pub(crate) fn start(
        local: InProcessEngine,
        daemon: SocketDaemon,
        refill: Duration,
    ) -> Result<Self> {
        let mut client = daemon.client()?;
        let daemon_session = client.create_session()?;
        let local_session = local.create_session()?;
        Ok(Self { local, local_session, client, daemon_session, daemon, refill })
    }

    pub(crate) fn hot_local(&self, found: &mut VariantResults) -> Result<()> {
        let turn = self.local.turn(self.local_session, PROMPT)?;
        found.hot.add(turn.first);
        found.hot_end.add(turn.end);
        Ok(())
    }

    pub(crate) fn hot_daemon(&mut self, found: &mut VariantResults) -> Result<()> {
        let turn = self.client.turn(&self.daemon_session, PROMPT)?;
        found.hot.add(turn.first);
        found.hot_end.add(turn.end);
        Ok(())
    }

    /// Measures a new session; the timing starts before the session is created.
    pub(crate) fn new_local(&self, found: &mut VariantResults) -> Result<()> {
        let begun = Instant::now();
        let session = self.local.create_session()?;
        let turn = self.local.turn_since(begun, session, PROMPT)?;
        found.new.add(turn.first);
        self.local.delete_session(session)?;
        sleep(self.refill);
        Ok(())
    }

    /// Measures a new session; the timing starts before the session is created.
    pub(crate) fn new_daemon(&mut self, found: &mut VariantResults) -> Result<()> {
        let begun = Instant::now();
        let session = self.client.create_session()?;
        let turn = self.client.turn_since(begun, &session, PROMPT)?;
        found.new.add(turn.first);
        self.client.delete_session(&session)?;
        sleep(self.refill);
        Ok(())
    }
}
