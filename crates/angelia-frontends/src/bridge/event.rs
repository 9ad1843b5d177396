//! The events that the bridge writes to its host.

use std::path::Path;

use angelia_core::model::{
    Approval, ApprovalKind, Notice, Outcome, Resolution, ToolCall, ToolId, ToolResult, TurnStatus,
    Usage,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use serde_with::As;

use super::{request::BridgeErrorCode, transcript::RunTranscript};
use crate::event_json::{FailureJson, QuestionJson, UsageJson, time::Rfc3339};

/// One line of the bridge.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "Event")]
pub enum BridgeEvent<'a> {
    /// The run was accepted; the first event of every run.
    RunStarted {
        #[serde(flatten)]
        ids: RunIds<'a>,
        #[serde(flatten)]
        about: &'a RunInfo,
    },
    ToolStarted {
        #[serde(flatten)]
        ids: RunIds<'a>,
        tool_id: &'a str,
        name: &'a str,
        /// `read`, `edit`, `execute` or `other`.
        class: &'static str,
        /// One line for people.
        title: &'a str,
        #[schemars(with = "Value")]
        input: &'a RawValue,
        /// The tool whose sub-agent called this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_id: Option<&'a str>,
    },
    ToolFinished {
        #[serde(flatten)]
        ids: RunIds<'a>,
        tool_id: &'a str,
        ok: bool,
        output: &'a str,
    },
    /// The agent waits for a decision: answer with `approve`.
    ApprovalRequested {
        #[serde(flatten)]
        ids: RunIds<'a>,
        approval_id: String,
        /// `tool` or `question`.
        kind: &'static str,
        title: &'a str,
        detail: &'a str,
        /// For an edit: a unified diff of what it would change.
        #[serde(skip_serializing_if = "Option::is_none")]
        diff: Option<&'a str>,
        tool_id: Option<&'a str>,
        tool: &'a str,
        choices: Vec<&'static str>,
        /// What `session` and `always` allow: first exactly this call, then wider rules.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        rules: &'a [std::sync::Arc<str>],
        /// When the approval counts as declined.
        #[serde(with = "As::<Rfc3339>")]
        #[schemars(with = "String")]
        expires_at: Timestamp,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(with = "Vec<Map<String, Value>>")]
        questions: Vec<QuestionJson>,
    },
    /// The approval was decided, by this host or elsewhere.
    ApprovalResolved {
        #[serde(flatten)]
        ids: RunIds<'a>,
        approval_id: String,
        verdict: &'static str,
        by: &'a str,
    },
    Notice {
        #[serde(flatten)]
        ids: RunIds<'a>,
        /// `info` or `warning`.
        level: &'static str,
        code: &'a str,
        text: &'a str,
        /// The same in fields, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Map<String, Value>>")]
        detail: Option<&'a RawValue>,
    },
    /// The next part of a message while it is written.
    AssistantDelta {
        #[serde(flatten)]
        ids: RunIds<'a>,
        /// The number of the message in the run, from 0.
        index: u32,
        text: &'a str,
    },
    /// The message has no further deltas.
    AssistantDeltaEnd {
        #[serde(flatten)]
        ids: RunIds<'a>,
        index: u32,
    },
    /// The full message; it overrides the deltas.
    AssistantMessage {
        #[serde(flatten)]
        ids: RunIds<'a>,
        index: u32,
        text: &'a str,
    },
    /// How the run ended; its last event.
    Final {
        #[serde(flatten)]
        ids: RunIds<'a>,
        #[serde(flatten)]
        end: Box<FinalFields<'a>>,
    },
    Pong {
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<&'a str>,
    },
    /// The run will be stopped; comes before its `final`.
    InterruptAck {
        /// The id of the interrupt request if it had one, else that of the run.
        request_id: &'a str,
        session_id: &'a str,
        /// The id of the run's request.
        run_request_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    },
    /// The bridge ends; its last event.
    ShutdownAck {
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<&'a str>,
    },
    /// A request was not carried out.
    Error {
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<&'a str>,
        code: BridgeErrorCode,
        /// What failed, and what to do.
        message: &'a str,
    },
}

/// The ids that every event of a run carries.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RunIds<'a> {
    pub request_id: &'a str,
    pub session_id: &'a str,
}

/// The turn, session and settings of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunInfo {
    pub turn_id: String,
    /// The id of the session, as `angelia sessions show` takes it.
    pub angelia_session_id: String,
    pub profile: String,
    pub executor: String,
    /// `null`: the agent's own default, as long as the agent has not named it.
    pub model: Option<String>,
    pub cwd: Box<Path>,
    /// The request repeats an earlier one with the same idempotency key.
    pub repeats: bool,
}

/// The fields of `final`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FinalFields<'a> {
    /// `completed`, `partial`, `interrupted`, `failed` or `parked`.
    status: &'static str,
    /// The answer, or the part of it that exists if the run did not complete.
    response: &'a str,
    /// The messages of this run, with its tool calls and their results.
    #[schemars(with = "Vec<Map<String, Value>>")]
    messages: &'a RunTranscript,
    /// How often the model was called, as far as the events show.
    api_calls: u32,
    completed: bool,
    interrupted: bool,
    /// A budget ended the run.
    partial: bool,
    failed: bool,
    #[schemars(with = "Map<String, Value>")]
    usage: UsageJson,
    /// Why the run ended, in a few words.
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    error: Option<FailureJson>,
    /// The host's reason for interrupting the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_message: Option<&'a str>,
    /// When a parked turn resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    resumes_at: Option<Rfc3339>,
}

impl<'a> FinalFields<'a> {
    pub(super) fn new(
        outcome: &'a Outcome,
        said: &'a RunTranscript,
        interrupt_message: Option<&'a str>,
    ) -> Box<Self> {
        let status = &outcome.status;
        let error = status.failure().cloned().map(FailureJson);
        let resumes_at = match status {
            TurnStatus::Parked { resumes_at } => Some(Rfc3339(*resumes_at)),
            _ => None,
        };
        let completed = matches!(status, TurnStatus::Completed);
        Box::new(Self {
            status: status.as_str(),
            response: &outcome.text,
            messages: said,
            api_calls: said.api_calls().max(u32::from(completed)),
            completed,
            interrupted: matches!(status, TurnStatus::Interrupted),
            partial: matches!(status, TurnStatus::Partial),
            failed: matches!(status, TurnStatus::Failed(_)),
            // The fill level of the agent's context window is not part of the bridge's contract.
            usage: UsageJson(Usage { context: None, ..outcome.usage.clone() }),
            reason: &outcome.reason,
            error,
            interrupt_message,
            resumes_at,
        })
    }
}

impl<'a> BridgeEvent<'a> {
    pub(super) fn tool_started(ids: RunIds<'a>, call: &'a ToolCall) -> Self {
        Self::ToolStarted {
            ids,
            tool_id: call.id.as_str(),
            name: &call.name,
            class: call.class.as_str(),
            title: &call.title,
            input: &call.input,
            parent_tool_id: call.parent.as_ref().map(ToolId::as_str),
        }
    }

    pub(super) fn tool_finished(ids: RunIds<'a>, result: &'a ToolResult) -> Self {
        Self::ToolFinished {
            ids,
            tool_id: result.id.as_str(),
            ok: result.ok,
            output: &result.output,
        }
    }

    pub(super) fn approval(ids: RunIds<'a>, approval: &'a Approval) -> Self {
        let questions = match &approval.kind {
            ApprovalKind::Tool => Vec::new(),
            ApprovalKind::Question(questions) => questions.iter().map(Into::into).collect(),
        };
        let choices = approval.kind.choices().iter();
        Self::ApprovalRequested {
            ids,
            approval_id: approval.id.to_string(),
            kind: approval.kind.as_str(),
            title: &approval.title,
            detail: &approval.detail,
            diff: approval.diff.as_deref(),
            tool_id: approval.tool_id.as_ref().map(ToolId::as_str),
            tool: &approval.tool_name,
            choices: choices.map(|choice| choice.as_str()).collect(),
            rules: &approval.rules,
            expires_at: approval.expires_at,
            questions,
        }
    }

    pub(super) fn resolved(ids: RunIds<'a>, resolution: &'a Resolution) -> Self {
        Self::ApprovalResolved {
            ids,
            approval_id: resolution.id.to_string(),
            verdict: resolution.verdict.as_str(),
            by: &resolution.by,
        }
    }

    pub(super) fn notice(ids: RunIds<'a>, notice: &'a Notice) -> Self {
        Self::Notice {
            ids,
            level: notice.level.as_str(),
            code: &notice.code,
            text: &notice.text,
            detail: notice.detail.as_deref(),
        }
    }

    /// Appends the event as one line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Err(error) = serde_json::to_writer(&mut *out, self) {
            // Writing our own types to a vector does not fail. If it ever does, no line is better
            // than half a line.
            tracing::error!(%error, "cannot serialize a bridge event");
            out.truncate(start);
            return;
        }
        if matches!(self, Self::ToolStarted { .. } | Self::Final { .. }) {
            // The agent's JSON is embedded verbatim. Its line breaks are between tokens, where a
            // space means the same.
            for byte in &mut out[start..] {
                if matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        out.push(b'\n');
    }
}
