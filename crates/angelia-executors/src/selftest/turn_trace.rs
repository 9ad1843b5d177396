//! Everything that an agent emitted during one turn, and accessors for it.

use std::time::Duration;

use angelia_core::{
    model::{
        AgentStart, ApprovalRequest, ApprovalStage, EventKind, NativeSessionId, Notice,
        TextChannel, ToolCall, ToolResult, TurnStatus, Usage,
    },
    ports::{AgentEvent, AgentOutcome},
};

use super::Defect;

/// Everything an agent emitted during a turn, and how the turn ended.
#[derive(Debug)]
pub struct TurnTrace {
    pub agent_events: Vec<AgentEvent>,
    pub outcome: AgentOutcome,
    /// The time from the first cancel to the end of the turn, if it was measured.
    pub cancel_latency: Option<Duration>,
}

impl TurnTrace {
    pub fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.agent_events.iter().filter_map(|one| match one {
            AgentEvent::Event(event) => Some(event),
            _ => None,
        })
    }

    fn collect_events<'a, T>(&'a self, pick: impl Fn(&'a EventKind) -> Option<T>) -> Vec<T> {
        self.events().filter_map(pick).collect()
    }

    /// Returns the answer of a completed turn: the outcome's text, or else the answer blocks.
    pub fn completed_answer(&self) -> Result<String, Defect> {
        match (&self.outcome.status, &self.outcome.text) {
            (TurnStatus::Completed, Some(text)) => Ok(text.to_string()),
            (TurnStatus::Completed, None) => Ok(self.blocks().concat()),
            (TurnStatus::Failed(failure), _) => Err(failure.clone().into()),
            (other, _) => Err(Defect::new(format!("the turn ended as {other:?}"))),
        }
    }

    pub fn blocks(&self) -> Vec<&str> {
        self.collect_events(|event| match event {
            EventKind::Block { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        })
    }

    /// Returns the pieces in which the answer arrived.
    pub fn answer_pieces(&self) -> Vec<&str> {
        self.collect_events(|event| match event {
            EventKind::Delta { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        })
    }

    pub fn deltas(&self) -> String {
        self.answer_pieces().concat()
    }

    pub fn start(&self) -> Option<&AgentStart> {
        self.events().find_map(|event| match event {
            EventKind::Started(started) => Some(started),
            _ => None,
        })
    }

    pub fn conversation(&self) -> Result<NativeSessionId, Defect> {
        let id = self.start().and_then(|start| start.native_session_id.clone());
        id.ok_or_else(|| Defect::new("it does not name its conversation"))
    }

    pub fn usages(&self) -> Vec<&Usage> {
        self.collect_events(|event| match event {
            EventKind::Usage(usage) => Some(usage),
            _ => None,
        })
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

    /// Returns the calls that the agent reported.
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
