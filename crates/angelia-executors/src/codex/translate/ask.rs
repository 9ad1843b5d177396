//! Handles requests of the app-server: approvals and questions for people, and calls of the
//! caller's tools. Requests that nobody can decide are declined at once.

use std::sync::Arc;

use angelia_core::{
    model::{ApprovalRequest, Level, Mode, ToolCall, ToolClass, ToolId},
    ports::{Activity, Emitted},
};
use serde_json::{Map, value::RawValue};

use super::{
    Answer, Translator, Whose, native, notice,
    turn::{About, ItemKey, Open},
};
use crate::codex::{
    approval::{Asker, What, form, tool_of},
    protocol::{
        answer::{self, COMMAND, ELICITATION, PATCH, PERMISSIONS, TOOL_CALL, USER_INPUT},
        asked::{AskParams, CallParams, ElicitMeta, ElicitParams},
        message::RequestId,
    },
};

impl Translator {
    pub(super) fn ask(
        &mut self,
        id: &RequestId,
        method: &str,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Answer {
        let parsed: AskParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let whose = self.whose(&parsed.thread_id, &parsed.turn_id);
        if !matches!(whose, Whose::Ours | Whose::SubAgents) {
            return decline(method, params, "it belongs to no running turn", out);
        }
        // Codex reused the id of a pending request, so a decision would be ambiguous: withdraw the
        // first request and decline the second.
        if let Some(key) = self.pending.withdraw(id) {
            out.push(Emitted::Withdraw(key));
            return decline(method, params, "it was asked twice", out);
        }
        if method == TOOL_CALL {
            return self.call(id, params, out);
        }
        if self.context.mode == Mode::Model {
            return decline(method, params, "in model mode nothing is allowed", out);
        }
        if method == ELICITATION
            && let Some(answer) = self.own_server(params)
        {
            return answer;
        }
        let Some((request, what)) = self.wording(method, &parsed, params, whose) else {
            return decline(method, params, "it does not say what it is about", out);
        };
        match self.pending.ask(id, what) {
            Some(key) => {
                let request = ApprovalRequest { key: Arc::clone(&key), ..request };
                out.push(Emitted::Ask(request));
                Answer::Asked(key)
            }
            None => decline(method, params, "it was asked twice", out),
        }
    }

    /// Describes a request for people. Returns `None` if it lacks the facts to decide it.
    fn wording(
        &self,
        method: &str,
        parsed: &AskParams<'_>,
        params: &RawValue,
        whose: Whose,
    ) -> Option<(ApprovalRequest, What)> {
        let open = self.asked_about(parsed, whose);
        let asker = self.asker(whose, open.map(|open| open.call.id.clone()));
        match method {
            COMMAND => {
                let known = match open.map(|open| (&open.call, &open.about)) {
                    Some((call, About::Command { cwd })) => (Some(call), cwd.as_deref()),
                    _ => (None, None),
                };
                let command = known.0.and_then(command_of);
                let known = (command.as_deref(), known.1);
                Some((asker.command(parsed, params, known)?, What::Action))
            }
            PATCH => match open.map(|open| (&open.call, &open.about)) {
                Some((call, About::Patch(changes))) if !changes.is_empty() => {
                    let request = asker.patch(parsed, changes, Arc::clone(&call.input));
                    Some((request, What::Action))
                }
                _ => None,
            },
            PERMISSIONS => {
                let wanted = parsed.permissions?;
                let what = What::Permissions(wanted.to_owned().into());
                Some((asker.permissions(parsed, wanted), what))
            }
            USER_INPUT => {
                let (request, ids) = asker.input(params)?;
                Some((request, What::Input(ids)))
            }
            ELICITATION => self.elicitation(params, whose),
            _ => None,
        }
    }

    fn asker(&self, whose: Whose, tool_id: Option<ToolId>) -> Asker<'_> {
        Asker {
            cwd: &self.context.cwd,
            permissions: &self.context.permissions,
            by_sub_agent: whose == Whose::SubAgents,
            tool_id,
        }
    }

    /// Returns the tool call that waits for the approval.
    fn asked_about(&self, parsed: &AskParams<'_>, whose: Whose) -> Option<&Open> {
        let item = parsed.item_id.as_str()?;
        let scope = match whose {
            Whose::SubAgents => format!(
                "{}/{}",
                parsed.thread_id.as_str().unwrap_or_default(),
                parsed.turn_id.as_str().unwrap_or_default()
            ),
            _ => String::new(),
        };
        let key: ItemKey = (scope.into(), item.into());
        self.turn.as_ref()?.tools.find(&key)
    }

    /// Accepts requests of Angelia's own MCP server: what it asks for has been decided elsewhere.
    fn own_server(&self, params: &RawValue) -> Option<Answer> {
        let parsed: ElicitParams<'_> = serde_json::from_str(params.get()).ok()?;
        let server = parsed.server_name.as_str()?;
        if !self.context.own_servers.iter().any(|own| **own == *server) {
            return None;
        }
        let meta = parsed.meta.0.unwrap_or_default();
        let result = answer::accept(&Map::new(), meta.offers_session());
        Some(Answer::Now(result))
    }

    fn elicitation(&self, params: &RawValue, whose: Whose) -> Option<(ApprovalRequest, What)> {
        let parsed: ElicitParams<'_> = serde_json::from_str(params.get()).ok()?;
        let server = parsed.server_name.as_str()?;
        let meta = parsed.meta.0.as_ref();
        if meta.is_some_and(ElicitMeta::is_tool_call) {
            let mut running: Vec<(&Open, &str, &RawValue)> = Vec::new();
            for open in self.turn.as_ref()?.tools.running() {
                if let About::Mcp { server: its, tool } = &open.about
                    && **its == *server
                {
                    running.push((open, tool, &open.call.input));
                }
            }
            let open = tool_of(&parsed, &running);
            let tool = open.and_then(|open| match &open.about {
                About::Mcp { tool, .. } => Some(&**tool),
                _ => None,
            });
            let asker = self.asker(whose, open.map(|open| open.call.id.clone()));
            let for_session = meta.is_some_and(ElicitMeta::offers_session);
            let request = asker.consent(&parsed, params, tool);
            return Some((request, What::Consent { for_session }));
        }
        let asker = self.asker(whose, None);
        let message = parsed.message.as_str().unwrap_or_default();
        let (fields, questions) = form(message, parsed.requested_schema.0.as_ref());
        let name = crate::codex::tool::mcp_name(server, "elicitation");
        if let Some(request) = asker.questions(&name, questions, params.to_owned().into()) {
            return Some((request, What::Form(fields)));
        }
        let request = asker.consent(&parsed, params, None);
        Some((request, What::Consent { for_session: false }))
    }

    /// Handles a call of one of the caller's tools.
    fn call(&mut self, id: &RequestId, params: &RawValue, out: &mut Vec<Emitted>) -> Answer {
        let parsed: CallParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
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
            turn.tools.open(key.clone(), call, About::CallerTool).show(out);
        }
        let Some(tool) = turn.tools.find(&key).map(|open| open.call.id.clone()) else {
            return decline(TOOL_CALL, params, "its call has ended", out);
        };
        if let Some(result) = self.pending.call(&tool, id) {
            return Answer::Now(result);
        }
        out.push(Emitted::Activity(Activity::AwaitingToolResult));
        Answer::Tool(tool)
    }
}

/// Returns the command that the item of a call reported.
fn command_of(call: &ToolCall) -> Option<String> {
    let input: Map<String, serde_json::Value> = serde_json::from_str(call.input.get()).ok()?;
    input.get("command")?.as_str().map(str::to_owned)
}

/// Declines a request, because nobody can decide it.
fn decline(method: &str, params: &RawValue, why: &str, out: &mut Vec<Emitted>) -> Answer {
    native(method, params, out);
    notice(Level::Warning, "declined", format!("{method} was declined: {why}"), out);
    match answer::declined(method) {
        Some(result) => Answer::Now(result),
        None => Answer::Now(RawValue::NULL.to_owned()),
    }
}
