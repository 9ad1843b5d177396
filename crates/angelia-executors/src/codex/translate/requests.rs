//! Handles the app-server's requests: approvals and questions for people, and calls to the caller's
//! tools. Requests that cannot be decided are declined at once.

use std::sync::Arc;

use angelia_core::{
    model::{ApprovalRequest, ApprovalStage, Mode, NoticeLevel, ToolCall, ToolClass, ToolId},
    ports::{Activity, AgentEvent},
};
use serde_json::{Map, value::RawValue};

use super::{
    CodexTranslator, MessageOwner, RequestOutcome, emit_native, emit_notice,
    turn::{ItemKey, RunningToolCall, ToolCallDetail},
};
use crate::codex::{
    approval::{ApprovalRequestBuilder, ServerRequestKind, find_tool_call, parse_form},
    protocol::{
        message::RequestId,
        request_result::{
            self, COMMAND_APPROVAL, ELICITATION, PATCH_APPROVAL, PERMISSIONS_APPROVAL, TOOL_CALL,
            USER_INPUT,
        },
        server_request::{
            DynamicToolCallParams, ElicitationMeta, ElicitationParams, ItemRequestParams,
        },
    },
};

impl CodexTranslator {
    pub(super) fn handle_request(
        &mut self,
        id: &RequestId,
        method: &str,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> RequestOutcome {
        let parsed: ItemRequestParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let whose = self.owner_of(&parsed.thread_id, &parsed.turn_id);
        if !matches!(whose, MessageOwner::OurTurn | MessageOwner::SubAgent) {
            return decline(method, params, "it belongs to no running turn", out);
        }
        // Codex reused the id of a pending request, so a decision would be ambiguous. Withdraw the
        // first request and decline the second.
        if let Some(key) = self.pending.withdraw(id) {
            out.push(AgentEvent::ApprovalWithdrawn(key));
            return decline(method, params, "it was asked twice", out);
        }
        if method == TOOL_CALL {
            return self.handle_tool_call(id, params, out);
        }
        if self.context.mode == Mode::Model {
            return decline(method, params, "in model mode nothing is allowed", out);
        }
        let Some((request, what)) = self.describe_request(method, &parsed, params, whose) else {
            return decline(method, params, "it does not say what it is about", out);
        };
        match self.pending.add_approval(id, what) {
            Some(key) => {
                let request = ApprovalRequest { key: Arc::clone(&key), ..request };
                out.push(AgentEvent::ApprovalRequest(request));
                RequestOutcome::Approval(key)
            }
            None => decline(method, params, "it was asked twice", out),
        }
    }

    /// Describes a request for people. Returns `None` if it lacks what is needed to decide it.
    fn describe_request(
        &self,
        method: &str,
        parsed: &ItemRequestParams<'_>,
        params: &RawValue,
        whose: MessageOwner,
    ) -> Option<(ApprovalRequest, ServerRequestKind)> {
        let open = self.find_subject_call(parsed, whose);
        let asker = self.request_builder(whose, open.map(|open| open.call.id.clone()));
        match method {
            COMMAND_APPROVAL => {
                let known = match open.map(|open| (&open.call, &open.detail)) {
                    Some((call, ToolCallDetail::Command { cwd })) => (Some(call), cwd.as_deref()),
                    _ => (None, None),
                };
                let command = known.0.and_then(reported_command);
                let known = (command.as_deref(), known.1);
                Some((asker.command(parsed, params, known)?, ServerRequestKind::Action))
            }
            PATCH_APPROVAL => match open.map(|open| (&open.call, &open.detail)) {
                Some((call, ToolCallDetail::Patch(changes))) if !changes.is_empty() => {
                    let request = asker.patch(parsed, changes, Arc::clone(&call.input));
                    Some((request, ServerRequestKind::Action))
                }
                _ => None,
            },
            PERMISSIONS_APPROVAL => {
                let wanted = parsed.permissions?;
                let what = ServerRequestKind::Permissions(wanted.to_owned().into());
                Some((asker.permissions(parsed, wanted), what))
            }
            USER_INPUT => {
                let (request, ids) = asker.user_input(params)?;
                Some((request, ServerRequestKind::Input(ids)))
            }
            ELICITATION => self.describe_elicitation(params, whose),
            _ => None,
        }
    }

    fn request_builder(
        &self,
        whose: MessageOwner,
        tool_id: Option<ToolId>,
    ) -> ApprovalRequestBuilder<'_> {
        ApprovalRequestBuilder {
            cwd: &self.context.cwd,
            by_sub_agent: whose == MessageOwner::SubAgent,
            tool_id,
        }
    }

    /// Returns the tool call that awaits the approval.
    fn find_subject_call(
        &self,
        parsed: &ItemRequestParams<'_>,
        whose: MessageOwner,
    ) -> Option<&RunningToolCall> {
        let item = parsed.item_id.as_str()?;
        let scope = match whose {
            MessageOwner::SubAgent => format!(
                "{}/{}",
                parsed.thread_id.as_str().unwrap_or_default(),
                parsed.turn_id.as_str().unwrap_or_default()
            ),
            _ => String::new(),
        };
        let key: ItemKey = (scope.into(), item.into());
        self.turn.as_ref()?.tools.find(&key)
    }

    fn describe_elicitation(
        &self,
        params: &RawValue,
        whose: MessageOwner,
    ) -> Option<(ApprovalRequest, ServerRequestKind)> {
        let parsed: ElicitationParams<'_> = serde_json::from_str(params.get()).ok()?;
        let server = parsed.server_name.as_str()?;
        let meta = parsed.meta.0.as_ref();
        if meta.is_some_and(ElicitationMeta::is_tool_call) {
            let mut running: Vec<(&RunningToolCall, &str, &RawValue)> = Vec::new();
            for open in self.turn.as_ref()?.tools.running() {
                if let ToolCallDetail::Mcp { server: its, tool, .. } = &open.detail
                    && **its == *server
                {
                    running.push((open, tool, &open.call.input));
                }
            }
            let open = find_tool_call(&parsed, &running);
            let tool = open.and_then(|open| match &open.detail {
                ToolCallDetail::Mcp { tool, .. } => Some(&**tool),
                _ => None,
            });
            let asker = self.request_builder(whose, open.map(|open| open.call.id.clone()));
            let mut request = asker.consent(&parsed, params, tool);
            let is_own = self.context.own_servers.iter().any(|own| **own == *server);
            let is_read_only = open.is_some_and(|open| open.detail.is_read_only());
            if is_own || is_read_only {
                // Codex asks only because we make it ask about every call.
                request.stage = ApprovalStage::Report;
            }
            return Some((request, ServerRequestKind::Consent));
        }
        let asker = self.request_builder(whose, None);
        let message = parsed.message.as_str().unwrap_or_default();
        let (fields, questions) = parse_form(message, parsed.requested_schema.0.as_ref());
        let name = crate::codex::tool::mcp_name(server, "elicitation");
        if let Some(request) = asker.questions(&name, questions, params.to_owned().into()) {
            return Some((request, ServerRequestKind::Form(fields)));
        }
        let request = asker.consent(&parsed, params, None);
        Some((request, ServerRequestKind::Consent))
    }

    /// Handles a call to one of the caller's tools.
    fn handle_tool_call(
        &mut self,
        id: &RequestId,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> RequestOutcome {
        let parsed: DynamicToolCallParams<'_> =
            serde_json::from_str(params.get()).unwrap_or_default();
        let named = (parsed.call_id.as_str(), parsed.tool.as_str(), self.turn.as_mut());
        let (Some(call), Some(tool), Some(turn)) = named else {
            return decline(TOOL_CALL, params, "it does not say what it is about", out);
        };
        let key: ItemKey = ("".into(), call.into());
        // The request may arrive before the item that describes the call.
        if turn.tools.find(&key).is_none() {
            if turn.tools.has_ended(&key) {
                return decline(TOOL_CALL, params, "its call has ended", out);
            }
            let call = ToolCall {
                id: ToolId::new(call),
                name: tool.into(),
                class: ToolClass::Other,
                input: parsed.arguments.unwrap_or(RawValue::NULL).to_owned().into(),
                title: tool.into(),
                parent: None,
            };
            turn.tools.open(key.clone(), call, ToolCallDetail::CallerTool).emit_call(out);
        }
        let Some(tool) = turn.tools.find(&key).map(|open| open.call.id.clone()) else {
            return decline(TOOL_CALL, params, "its call has ended", out);
        };
        if let Some(result) = self.pending.add_tool_call(&tool, id) {
            return RequestOutcome::Now(result);
        }
        out.push(AgentEvent::Activity(Activity::AwaitingToolResult));
        RequestOutcome::CallerTool(tool)
    }
}

/// Returns the command that the item of a call reported.
fn reported_command(call: &ToolCall) -> Option<String> {
    let input: Map<String, serde_json::Value> = serde_json::from_str(call.input.get()).ok()?;
    input.get("command")?.as_str().map(str::to_owned)
}

/// Declines a request that cannot be decided.
fn decline(
    method: &str,
    params: &RawValue,
    why: &str,
    out: &mut Vec<AgentEvent>,
) -> RequestOutcome {
    emit_native(method, params, out);
    emit_notice(NoticeLevel::Warning, "declined", format!("{method} was declined: {why}"), out);
    match request_result::decline(method) {
        Some(result) => RequestOutcome::Now(result),
        None => RequestOutcome::Now(RawValue::NULL.to_owned()),
    }
}
