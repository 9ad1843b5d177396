//! Tool calls that run until they are ended, each with a file that it creates when it runs.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use angelia_executors::selftest::CheckedAgent;
use angelia_testkit::conformance::executor::LongTool;

pub(crate) struct LongTools {
    folder: PathBuf,
    count: AtomicU32,
}

impl LongTools {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, count: AtomicU32::new(0) }
    }

    /// Returns a tool call whose process belongs to the agent's process group.
    pub(crate) fn in_group(&self, agent: &dyn CheckedAgent) -> LongTool {
        self.tool(agent, |running| format!("touch {running}; exec sleep 60"))
    }

    /// Returns a tool call whose process has left the agent's process group and session.
    pub(crate) fn escaped(&self, agent: &dyn CheckedAgent) -> LongTool {
        self.tool(agent, |running| format!("setsid sh -c 'touch {running}; exec sleep 60'"))
    }

    fn tool(&self, agent: &dyn CheckedAgent, command: impl FnOnce(&str) -> String) -> LongTool {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let running = format!("running-{number}");
        LongTool {
            prompt: agent.approval_prompt(&command(&running)),
            running: Some(self.folder.join(running)),
        }
    }
}
