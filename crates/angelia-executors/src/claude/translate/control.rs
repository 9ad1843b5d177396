//! Control requests and responses between the CLI and us, and the lifecycle of messages.

use angelia_core::{
    model::{Failure, FailureKind, TurnStatus},
    ports::{AgentEvent, AgentOutcome},
};
use serde_json::value::RawValue;

use super::{CliRequest, CliRequestKind, StreamSignal, StreamTranslator, emit_native};
use crate::claude::protocol::incoming::{
    ControlRequestBody, ControlRequestLine, ControlResponseBody, ControlResponseLine, Lenient,
    LifecycleLine,
};

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
            emit_native("control_request", line, out);
            return None;
        };
        let raw = parsed.request.unwrap_or(RawValue::NULL);
        let request: ControlRequestBody<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let subtype = request.subtype.as_str().unwrap_or("unknown");
        if subtype == "can_use_tool"
            && let Some(ask) = self.permissions.register(id, &request, &self.context.cwd)
        {
            out.push(AgentEvent::ApprovalRequest(ask));
            return None;
        }
        let ask = match (subtype, request.server_name.as_str(), request.callback_id.as_str()) {
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
        let request_id = id.into();
        Some(StreamSignal::Request(CliRequest { request_id, kind: ask }))
    }

    pub(super) fn on_control_response(
        &mut self,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let parsed = serde_json::from_str::<ControlResponseLine<'_>>(line);
        let Ok(ControlResponseLine {
            response:
                Lenient(Some(ControlResponseBody {
                    subtype,
                    request_id: Lenient(Some(request_id)),
                    payload,
                    error,
                })),
        }) = parsed
        else {
            emit_native("control_response", line, out);
            return None;
        };
        let result = if subtype.as_str() == Some("success") {
            if let Some(raw) = payload {
                self.lane.read_account(raw.get());
            }
            Ok(payload.map(|raw| raw.to_owned().into()))
        } else {
            Err(error.as_str().unwrap_or("refused without a reason").to_owned())
        };
        let request_id = (*request_id).into();
        Some(StreamSignal::Response { request_id, result })
    }

    pub(super) fn on_control_cancel(&mut self, line: &str, out: &mut Vec<AgentEvent>) {
        let parsed = serde_json::from_str::<ControlRequestLine<'_>>(line).ok();
        let id = parsed.as_ref().and_then(|parsed| parsed.request_id.as_str());
        match id.and_then(|id| self.permissions.withdraw(id)) {
            Some(key) => out.push(AgentEvent::ApprovalWithdrawn(key)),
            None => emit_native("control_cancel_request", line, out),
        }
    }

    /// Handles the lifecycle of a message that we wrote with a uuid.
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
            emit_native("command_lifecycle", line, out);
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
                emit_native("command_lifecycle", line, out);
            }
            return None;
        };
        match state {
            "queued" => turn.queued = true,
            "started" if !turn.confirmed => self.confirm_turn(out),
            // The message was still waiting, so no result will follow.
            "cancelled" if !turn.confirmed => {
                let ended = AgentOutcome {
                    status: TurnStatus::Interrupted,
                    text: None,
                    reason: "interrupted".into(),
                };
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
