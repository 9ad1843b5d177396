//! Everything an agent emitted during one turn, and accessors for it.

use std::time::Duration;

use angelia_core::{
    model::{
        ApprovalRequest, EventKind, Failure, NativeSessionId, Notice, Started, Status, TextChannel,
        ToolCall, ToolResult, Usage,
    },
    ports::{Emitted, Ended},
};

#[derive(Debug)]
pub(super) struct Heard {
    pub(super) emitted: Vec<Emitted>,
    pub(super) ended: Ended,
    /// The time from the first cancel to the end of the turn.
    pub(super) reaction: Option<Duration>,
}

impl Heard {
    pub(super) fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.emitted.iter().filter_map(|one| match one {
            Emitted::Event(event) => Some(event),
            _ => None,
        })
    }

    fn pick<'a, T>(&'a self, pick: impl Fn(&'a EventKind) -> Option<T>) -> Vec<T> {
        self.events().filter_map(pick).collect()
    }

    /// Returns the answer of a completed turn: the outcome's text, or else the answer blocks.
    pub(super) fn answer(&self) -> String {
        assert_eq!(self.ended.status, Status::Completed, "{self:#?}");
        match &self.ended.text {
            Some(text) => text.to_string(),
            None => self.blocks().concat(),
        }
    }

    pub(super) fn blocks(&self) -> Vec<&str> {
        self.pick(|event| match event {
            EventKind::Block { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        })
    }

    pub(super) fn deltas(&self) -> String {
        let deltas = self.pick(|event| match event {
            EventKind::Delta { channel: TextChannel::Answer, text, .. } => Some(&**text),
            _ => None,
        });
        deltas.concat()
    }

    pub(super) fn failure(&self) -> &Failure {
        match self.ended.status.failure() {
            Some(failure) => failure,
            None => panic!("it did not fail: {self:#?}"),
        }
    }

    pub(super) fn started(&self) -> &Started {
        let started = self.pick(|event| match event {
            EventKind::Started(started) => Some(started),
            _ => None,
        });
        match started.first() {
            Some(started) => started,
            None => panic!("it did not start: {self:#?}"),
        }
    }

    pub(super) fn native(&self) -> NativeSessionId {
        let started = self.started();
        started.native_session_id.clone().unwrap()
    }

    pub(super) fn usages(&self) -> Vec<&Usage> {
        self.pick(|event| match event {
            EventKind::Usage(usage) => Some(usage),
            _ => None,
        })
    }

    pub(super) fn tool_calls(&self) -> Vec<&ToolCall> {
        self.pick(|event| match event {
            EventKind::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    pub(super) fn tool_results(&self) -> Vec<&ToolResult> {
        self.pick(|event| match event {
            EventKind::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    pub(super) fn notices(&self) -> Vec<&Notice> {
        self.pick(|event| match event {
            EventKind::Notice(notice) => Some(notice),
            _ => None,
        })
    }

    pub(super) fn asked(&self) -> Vec<&ApprovalRequest> {
        let asks = self.emitted.iter().filter_map(|one| match one {
            Emitted::Ask(request) => Some(request),
            _ => None,
        });
        asks.collect()
    }
}
