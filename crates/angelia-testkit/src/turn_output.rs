//! Everything an agent emitted during one turn, and accessors for it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use angelia_core::{
    model::{
        AgentStart, ApprovalRequest, ApprovalStage, EventKind, Failure, NativeSessionId, Notice,
        TextChannel, ToolCall, ToolResult, TurnStatus, Usage,
    },
    ports::{AgentEvent, AgentOutcome},
};

/// Everything an agent emitted during a turn, and how the turn ended.
#[derive(Debug)]
pub struct TurnOutput {
    pub agent_events: Vec<AgentEvent>,
    pub outcome: AgentOutcome,
    /// The time from the first cancel to the end of the turn, where that was measured.
    pub cancel_latency: Option<Duration>,
}

impl TurnOutput {
    pub fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.agent_events.iter().filter_map(|one| match one {
            AgentEvent::Event(event) => Some(event),
            _ => None,
        })
    }

    fn collect_events<'a, T>(&'a self, pick: impl Fn(&'a EventKind) -> Option<T>) -> Vec<T> {
        self.events().filter_map(pick).collect()
    }

    /// Returns the answer; panics unless the turn completed.
    pub fn answer(&self) -> &str {
        assert_eq!(self.outcome.status, TurnStatus::Completed, "{self:#?}");
        self.outcome.text.as_deref().unwrap()
    }

    /// Returns the answer of a completed turn: the outcome's text, or else the answer blocks.
    pub fn answer_or_blocks(&self) -> String {
        assert_eq!(self.outcome.status, TurnStatus::Completed, "{self:#?}");
        match &self.outcome.text {
            Some(text) => text.to_string(),
            None => self.blocks().concat(),
        }
    }

    pub fn blocks(&self) -> Vec<&str> {
        self.collect_events(|event| match event {
            EventKind::Block { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        })
    }

    pub fn deltas(&self) -> String {
        let deltas = self.collect_events(|event| match event {
            EventKind::Delta { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        });
        deltas.concat()
    }

    pub fn failure(&self) -> &Failure {
        match self.outcome.status.failure() {
            Some(failure) => failure,
            None => panic!("it did not fail: {self:#?}"),
        }
    }

    pub fn started(&self) -> &AgentStart {
        let started = self.collect_events(|event| match event {
            EventKind::Started(started) => Some(started),
            _ => None,
        });
        match started.first() {
            Some(started) => started,
            None => panic!("it did not start: {self:#?}"),
        }
    }

    pub fn native_session_id(&self) -> NativeSessionId {
        self.started().native_session_id.clone().unwrap()
    }

    pub fn usages(&self) -> Vec<&Usage> {
        self.collect_events(|event| match event {
            EventKind::Usage(usage) => Some(usage),
            _ => None,
        })
    }

    /// Returns the last usage.
    pub fn usage(&self) -> &Usage {
        self.usages().last().unwrap()
    }

    pub fn tool_calls(&self) -> Vec<&ToolCall> {
        self.collect_events(|event| match event {
            EventKind::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    pub fn tool_results(&self) -> Vec<&ToolResult> {
        self.collect_events(|event| match event {
            EventKind::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    pub fn notices(&self) -> Vec<&Notice> {
        self.collect_events(|event| match event {
            EventKind::Notice(notice) => Some(notice),
            _ => None,
        })
    }

    pub fn approval_requests(&self) -> Vec<&ApprovalRequest> {
        self.requests_of(ApprovalStage::Request)
    }

    /// Returns the calls that the agent has reported.
    pub fn reports(&self) -> Vec<&ApprovalRequest> {
        self.requests_of(ApprovalStage::Report)
    }

    fn requests_of(&self, stage: ApprovalStage) -> Vec<&ApprovalRequest> {
        let requests = self.agent_events.iter().filter_map(|one| match one {
            AgentEvent::ApprovalRequest(request) => (request.stage == stage).then_some(request),
            _ => None,
        });
        requests.collect()
    }
}
