//! Control requests and responses between the CLI and us, and the lifecycle of messages.

use angelia_core::{
    model::{Failure, FailureKind, Status},
    ports::{Emitted, Ended},
};
use serde_json::value::RawValue;

use super::{Ask, ControlAsk, Signal, Translator, native};
use crate::claude::protocol::incoming::{
    ControlRequest, ControlResponse, Lifecycle, Request, Response, Soft,
};

impl Translator {
    pub(super) fn control_request(&mut self, line: &str, out: &mut Vec<Emitted>) -> Option<Signal> {
        let parsed = serde_json::from_str::<ControlRequest<'_>>(line).ok();
        let parts = parsed.as_ref().and_then(|parsed| Some((parsed.request_id.as_str()?, parsed)));
        // A request without an id cannot be answered.
        let Some((id, parsed)) = parts else {
            native("control_request", line, out);
            return None;
        };
        let raw = parsed.request.unwrap_or(RawValue::NULL);
        let request: Request<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let subtype = request.subtype.as_str().unwrap_or("unknown");
        if subtype == "can_use_tool"
            && let Some(ask) = self.pending.ask(id, &request, &self.context.cwd)
        {
            out.push(Emitted::Ask(ask));
            return None;
        }
        let ask = match (subtype, request.server_name.as_str(), request.callback_id.as_str()) {
            ("mcp_message", Some(server), _) => Ask::Mcp {
                server: server.into(),
                message: request.message.unwrap_or(RawValue::NULL).to_owned().into(),
            },
            ("hook_callback", _, Some(callback_id)) => Ask::Hook {
                callback_id: callback_id.into(),
                input: request.input.unwrap_or(RawValue::NULL).to_owned().into(),
            },
            _ => Ask::Unknown { subtype: subtype.into(), request: raw.to_owned().into() },
        };
        let request_id = id.into();
        Some(Signal::Asked(ControlAsk { request_id, ask }))
    }

    pub(super) fn control_response(
        &mut self,
        line: &str,
        out: &mut Vec<Emitted>,
    ) -> Option<Signal> {
        let parsed = serde_json::from_str::<ControlResponse<'_>>(line);
        let Ok(ControlResponse {
            response:
                Soft(Some(Response { subtype, request_id: Soft(Some(request_id)), payload, error })),
        }) = parsed
        else {
            native("control_response", line, out);
            return None;
        };
        let result = if subtype.as_str() == Some("success") {
            if let Some(raw) = payload {
                self.lane.see_initialized(raw.get());
            }
            Ok(payload.map(|raw| raw.to_owned().into()))
        } else {
            Err(error.as_str().unwrap_or("refused without a reason").to_owned())
        };
        let request_id = (*request_id).into();
        Some(Signal::Answered { request_id, result })
    }

    pub(super) fn control_cancel(&mut self, line: &str, out: &mut Vec<Emitted>) {
        let parsed = serde_json::from_str::<ControlRequest<'_>>(line).ok();
        let id = parsed.as_ref().and_then(|parsed| parsed.request_id.as_str());
        match id.and_then(|id| self.pending.withdraw(id)) {
            Some(key) => out.push(Emitted::Withdraw(key)),
            None => native("control_cancel_request", line, out),
        }
    }

    /// Handles the lifecycle of a message that we wrote with a uuid.
    pub(super) fn lifecycle(&mut self, line: &str, out: &mut Vec<Emitted>) -> Option<Signal> {
        let parsed = serde_json::from_str::<Lifecycle<'_>>(line).ok();
        self.says_lifecycle |= parsed.is_some();
        let parts = parsed
            .as_ref()
            .and_then(|parsed| Some((parsed.command_uuid.as_str()?, parsed.state.as_str()?)));
        let Some((uuid, state)) = parts else {
            native("command_lifecycle", line, out);
            return None;
        };
        if let Some(turn) = self.turn.as_mut()
            && turn.is_steer(uuid)
        {
            turn.see_steer(uuid, state);
            return self.nothing_left(out);
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| *turn.uuid == *uuid) else {
            if self.last_uuid.as_deref() != Some(uuid) {
                native("command_lifecycle", line, out);
            }
            return None;
        };
        match state {
            "queued" => turn.queued = true,
            "started" if !turn.confirmed => self.confirm(out),
            // The message was still waiting, so no result will follow.
            "cancelled" if !turn.confirmed => {
                let ended =
                    Ended { status: Status::Interrupted, text: None, reason: "interrupted".into() };
                return Some(Signal::Ended(self.finish(ended, out)));
            }
            "discarded" | "refused" if !turn.confirmed => {
                let text = format!("the agent did not take the message: {state}");
                let ended = Ended::failed(Failure::new(FailureKind::Agent, text));
                return Some(Signal::Ended(self.finish(ended, out)));
            }
            _ => {}
        }
        None
    }
}
