//! Everything an agent emitted during one turn, and accessors for it.

use std::time::Duration;

use angelia_core::{
    model::{
        AgentStart, ApprovalRequest, EventKind, Failure, NativeSessionId, Notice, TextChannel,
        ToolCall, ToolResult, TurnStatus, Usage,
    },
    ports::{AgentEvent, AgentOutcome},
};

#[derive(Debug)]
pub(super) struct TurnTrace {
    pub(super) agent_events: Vec<AgentEvent>,
    pub(super) outcome: AgentOutcome,
    /// The time from the first cancel to the end of the turn.
    pub(super) cancel_latency: Option<Duration>,
}

impl TurnTrace {
    pub(super) fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.agent_events.iter().filter_map(|one| match one {
            AgentEvent::Event(event) => Some(event),
            _ => None,
        })
    }

    fn collect_events<'a, T>(&'a self, pick: impl Fn(&'a EventKind) -> Option<T>) -> Vec<T> {
        self.events().filter_map(pick).collect()
    }

    /// Returns the answer of a completed turn: the outcome's text, or else the answer blocks.
    pub(super) fn answer(&self) -> String {
        assert_eq!(self.outcome.status, TurnStatus::Completed, "{self:#?}");
        match &self.outcome.text {
            Some(text) => text.to_string(),
            None => self.blocks().concat(),
        }
    }

    pub(super) fn blocks(&self) -> Vec<&str> {
        self.collect_events(|event| match event {
            EventKind::Block { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        })
    }

    pub(super) fn deltas(&self) -> String {
        let deltas = self.collect_events(|event| match event {
            EventKind::Delta { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        });
        deltas.concat()
    }

    pub(super) fn failure(&self) -> &Failure {
        match self.outcome.status.failure() {
            Some(failure) => failure,
            None => panic!("it did not fail: {self:#?}"),
        }
    }

    pub(super) fn started(&self) -> &AgentStart {
        let started = self.collect_events(|event| match event {
            EventKind::Started(started) => Some(started),
            _ => None,
        });
        match started.first() {
            Some(started) => started,
            None => panic!("it did not start: {self:#?}"),
        }
    }

    pub(super) fn native_session_id(&self) -> NativeSessionId {
        let started = self.started();
        started.native_session_id.clone().unwrap()
    }

    pub(super) fn usages(&self) -> Vec<&Usage> {
        self.collect_events(|event| match event {
            EventKind::Usage(usage) => Some(usage),
            _ => None,
        })
    }

    pub(super) fn tool_calls(&self) -> Vec<&ToolCall> {
        self.collect_events(|event| match event {
            EventKind::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    pub(super) fn tool_results(&self) -> Vec<&ToolResult> {
        self.collect_events(|event| match event {
            EventKind::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    pub(super) fn notices(&self) -> Vec<&Notice> {
        self.collect_events(|event| match event {
            EventKind::Notice(notice) => Some(notice),
            _ => None,
        })
    }

    pub(super) fn approval_requests(&self) -> Vec<&ApprovalRequest> {
        let asks = self.agent_events.iter().filter_map(|one| match one {
            AgentEvent::ApprovalRequest(request) => Some(request),
            _ => None,
        });
        asks.collect()
    }
}
