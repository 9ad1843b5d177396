//! The threads of sub-agents. Their messages carry their own thread id. Their tool calls are shown
//! below the call that started them, their text is not part of the answer, their questions become
//! approvals, and the tokens that they use count towards the turn.

use std::collections::HashMap;

use angelia_core::model::ToolId;
use serde_json::value::RawValue;

use super::CodexTranslator;
use crate::codex::{protocol::message::Route, usage::ThreadUsageTracker};

#[derive(Debug, Default)]
pub(super) struct SubAgents(HashMap<Box<str>, SubAgent>);

#[derive(Debug)]
struct SubAgent {
    /// The tool call that started the sub-agent.
    call: Option<ToolId>,
    ledger: ThreadUsageTracker,
}

impl SubAgents {
    pub(super) fn owns(&self, thread: &str) -> bool {
        self.0.contains_key(thread)
    }

    pub(super) fn register(&mut self, thread: &str, call: Option<ToolId>) {
        let known = self
            .0
            .entry(thread.into())
            .or_insert_with(|| SubAgent { call: None, ledger: ThreadUsageTracker::new(false) });
        if let Some(call) = call {
            known.call.get_or_insert(call);
        }
    }

    pub(super) fn parent_call(&self, thread: &str) -> Option<&ToolId> {
        self.0.get(thread)?.call.as_ref()
    }

    pub(super) fn ledger(&mut self, thread: &str) -> Option<&mut ThreadUsageTracker> {
        self.0.get_mut(thread).map(|agent| &mut agent.ledger)
    }

    pub(super) fn forget(&mut self, thread: &str) {
        self.0.remove(thread);
    }
}

impl CodexTranslator {
    /// Registers a new thread as a sub-agent's if its parent is one of our threads.
    pub(super) fn on_thread_started(&mut self, params: &RawValue) {
        let route = Route::of(params);
        if let (Some(id), Some(parent)) = (route.thread.as_deref(), route.parent.as_deref())
            && id != self.context.thread.as_str()
            && self.owns(parent)
        {
            self.sub_agents.register(id, None);
        }
    }
}
