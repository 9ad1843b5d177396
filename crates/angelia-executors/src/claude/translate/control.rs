//! Control requests and responses between the CLI and us, and the lifecycle of messages.

use angelia_core::{
    model::{Failure, FailureKind},
    ports::{AgentEvent, AgentOutcome},
};
use serde_json::value::RawValue;

use super::{CliRequest, CliRequestKind, StreamSignal, StreamTranslator, emit_native_line};
use crate::claude::protocol::{
    control::{ControlRequestBody, ControlRequestLine, ControlResponseBody, ControlResponseLine},
    incoming::{LifecycleLine, LineHead},
};

/// Parses a control request or response from the CLI outside of a turn, where it asks for no
/// approval. Returns `None` for any other line.
pub(crate) fn parse_control(line: &[u8]) -> Option<StreamSignal> {
    let line = std::str::from_utf8(line).ok()?;
    match &*LineHead::parse(line)?.kind {
        "control_request" => {
            let parsed = serde_json::from_str::<ControlRequestLine<'_>>(line).ok()?;
            let (id, raw) = (parsed.request_id.as_str()?, parsed.request.unwrap_or(RawValue::NULL));
            Some(StreamSignal::Request(CliRequest::new(id, raw, &parse_body(raw))))
        }
        "control_response" => parse_response(line),
        _ => None,
    }
}

fn parse_body(raw: &RawValue) -> ControlRequestBody<'_> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// Parses the response to one of our requests. Returns `None` if it names no request.
fn parse_response(line: &str) -> Option<StreamSignal> {
    let parsed: ControlResponseLine<'_> = serde_json::from_str(line).ok()?;
    let ControlResponseBody { subtype, request_id, payload, error } = parsed.response.0?;
    let result = if subtype.as_str() == Some("success") {
        Ok(payload.map(|raw| raw.to_owned().into()))
    } else {
        Err(error.as_str().unwrap_or("refused without a reason").to_owned())
    };
    Some(StreamSignal::Response { request_id: request_id.as_str()?.into(), result })
}

impl CliRequest {
    fn new(id: &str, raw: &RawValue, request: &ControlRequestBody<'_>) -> Self {
        let subtype = request.subtype.as_str().unwrap_or("unknown");
        let kind = match (subtype, request.server_name.as_str(), request.callback_id.as_str()) {
            ("mcp_message", Some(server), _) => CliRequestKind::Mcp {
                server: server.into(),
                message: request.message.unwrap_or(RawValue::NULL).to_owned().into(),
            },
            ("hook_callback", _, Some(callback_id)) => CliRequestKind::Hook {
                callback_id: callback_id.into(),
                input: request.input.unwrap_or(RawValue::NULL).to_owned().into(),
            },
            _ => {
                CliRequestKind::Unknown { subtype: subtype.into(), request: raw.to_owned().into() }
            }
        };
        Self { request_id: id.into(), kind }
    }
}

impl StreamTranslator {
    pub(super) fn on_control_request(
        &mut self,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let parsed = serde_json::from_str::<ControlRequestLine<'_>>(line).ok();
        let parts = parsed.as_ref().and_then(|parsed| Some((parsed.request_id.as_str()?, parsed)));
        // A request without an id cannot be answered.
        let Some((id, parsed)) = parts else {
            emit_native_line("control_request", line, out);
            return None;
        };
        let raw = parsed.request.unwrap_or(RawValue::NULL);
        let request = parse_body(raw);
        if request.subtype.as_str() == Some("can_use_tool")
            && let Some(response) = self.permissions.answer_allowed(id, &request)
        {
            return Some(StreamSignal::Respond(response));
        }
        let approval = match request.subtype.as_str() {
            Some("can_use_tool") => self.permissions.add_request(id, &request, &self.context),
            Some("hook_callback") => self.permissions.add_report(id, &request, &self.context),
            _ => None,
        };
        if let Some(approval) = approval {
            out.push(AgentEvent::ApprovalRequest(approval));
            return None;
        }
        Some(StreamSignal::Request(CliRequest::new(id, raw, &request)))
    }

    pub(super) fn on_control_response(
        &mut self,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let response = parse_response(line);
        match &response {
            Some(StreamSignal::Response { result: Ok(Some(payload)), .. }) => {
                self.read_account(payload);
            }
            Some(_) => {}
            None => emit_native_line("control_response", line, out),
        }
        response
    }

    /// Reads the billing lane from the response to `initialize`.
    pub(crate) fn read_account(&mut self, initialize_response: &RawValue) {
        self.lane.read_account(initialize_response.get());
    }

    pub(super) fn on_control_cancel(&mut self, line: &str, out: &mut Vec<AgentEvent>) {
        let parsed = serde_json::from_str::<ControlRequestLine<'_>>(line).ok();
        let id = parsed.as_ref().and_then(|parsed| parsed.request_id.as_str());
        match id.and_then(|id| self.permissions.withdraw(id)) {
            Some(key) => out.push(AgentEvent::ApprovalWithdrawn(key)),
            None => emit_native_line("control_cancel_request", line, out),
        }
    }

    /// Handles the lifecycle of a message that we sent with a uuid.
    pub(super) fn on_lifecycle(
        &mut self,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let parsed = serde_json::from_str::<LifecycleLine<'_>>(line).ok();
        self.reports_lifecycle |= parsed.is_some();
        let parts = parsed
            .as_ref()
            .and_then(|parsed| Some((parsed.command_uuid.as_str()?, parsed.state.as_str()?)));
        let Some((uuid, state)) = parts else {
            emit_native_line("command_lifecycle", line, out);
            return None;
        };
        if let Some(turn) = self.turn.as_mut()
            && turn.is_steer(uuid)
        {
            turn.update_steer(uuid, state);
            return self.end_if_idle(out);
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| *turn.uuid == *uuid) else {
            if self.last_uuid.as_deref() != Some(uuid) {
                emit_native_line("command_lifecycle", line, out);
            }
            return None;
        };
        match state {
            "queued" => turn.queued = true,
            "started" if !turn.confirmed => self.confirm_turn(out),
            // The message was still queued, so no result will follow.
            "cancelled" if !turn.confirmed => {
                let ended = AgentOutcome::interrupted("interrupted");
                return Some(StreamSignal::TurnEnded(self.finish_turn(ended, out)));
            }
            "discarded" | "refused" if !turn.confirmed => {
                let text = format!("the agent did not take the message: {state}");
                let ended = AgentOutcome::failed(Failure::new(FailureKind::Agent, text));
                return Some(StreamSignal::TurnEnded(self.finish_turn(ended, out)));
            }
            _ => {}
        }
        None
    }
}
