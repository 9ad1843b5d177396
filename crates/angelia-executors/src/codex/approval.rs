//! The app-server's requests that await a decision or a tool's result, and the responses to them.
//!
//! Codex offers to remember a decision, either for the thread or permanently in the user's own
//! rules. Angelia never accepts that offer: the engine keeps the grants, and Codex asks again.

mod elicitation;
mod request_builder;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use angelia_core::model::{Decision, RawJson, ToolId, Verdict};
use serde_json::{Map, value::RawValue};

pub(crate) use self::{
    elicitation::{FormField, find_tool_call, parse_form},
    request_builder::ApprovalRequestBuilder,
};
use super::{
    protocol::{message::RequestId, request_result},
    translate::DeferredReply,
};

/// All pending requests, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct PendingServerRequests {
    approvals: Vec<(Arc<str>, RequestId, ServerRequestKind)>,
    /// Requests to run the caller's tools.
    tool_calls: Vec<(ToolId, RequestId)>,
    /// Tool results that arrived before the app-server's request for them.
    early_results: HashMap<ToolId, Box<RawValue>>,
}

/// The id of a question, and its text.
pub(crate) type QuestionWithId = (Box<str>, Arc<str>);

/// The kind of a pending request, to the extent that the response depends on it.
#[derive(Debug)]
pub(crate) enum ServerRequestKind {
    /// A command, a patch, or access to a network host.
    Action,
    Permissions(RawJson),
    Input(Vec<QuestionWithId>),
    /// A call to an MCP server's tool, or a URL to open.
    Consent,
    Form(Vec<FormField>),
}

impl PendingServerRequests {
    /// Adds an approval whose key is the app-server's request id. Returns `None` if a request with
    /// this id is already pending.
    pub(crate) fn add_approval(
        &mut self,
        id: &RequestId,
        what: ServerRequestKind,
    ) -> Option<Arc<str>> {
        let key: Arc<str> = id.to_string().into();
        if self.is_pending(id) {
            return None;
        }
        self.approvals.push((Arc::clone(&key), id.clone(), what));
        Some(key)
    }

    pub(crate) fn is_pending(&self, id: &RequestId) -> bool {
        let asked = self.approvals.iter().any(|(_, known, _)| known == id);
        asked || self.tool_calls.iter().any(|(_, known)| known == id)
    }

    pub(crate) fn approval_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.approvals.iter().map(|(key, ..)| key)
    }

    /// Removes a request that the app-server no longer waits for. Returns the key of an approval.
    pub(crate) fn withdraw(&mut self, id: &RequestId) -> Option<Arc<str>> {
        self.tool_calls.retain(|(_, known)| known != id);
        let at = self.approvals.iter().position(|(_, known, _)| known == id)?;
        Some(self.approvals.remove(at).0)
    }

    pub(crate) fn withdraw_all(&mut self) -> Vec<Arc<str>> {
        let asked = std::mem::take(self).approvals;
        asked.into_iter().map(|(key, ..)| key).collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a request to run a caller's tool. Returns the result if it has already arrived.
    pub(crate) fn add_tool_call(&mut self, tool: &ToolId, id: &RequestId) -> Option<Box<RawValue>> {
        let early = self.early_results.remove(tool);
        if early.is_none() {
            self.tool_calls.push((tool.clone(), id.clone()));
        }
        early
    }

    /// Takes the result of a caller's tool. If the app-server has not requested it yet, keeps it as
    /// long as the tool `is_running`.
    pub(crate) fn resolve_tool_call(
        &mut self,
        tool: &ToolId,
        result: Box<RawValue>,
        is_running: bool,
    ) -> Option<DeferredReply> {
        if let Some(at) = self.tool_calls.iter().position(|(known, _)| known == tool) {
            let (_, id) = self.tool_calls.remove(at);
            return Some(DeferredReply { id, result, then_interrupt: false, then_steer: None });
        }
        if is_running {
            self.early_results.insert(tool.clone(), result);
        }
        None
    }

    /// Removes an approval and returns the response for `decision`.
    pub(crate) fn decide(&mut self, key: &str, decision: &Decision) -> Option<DeferredReply> {
        let at = self.approvals.iter().position(|(known, ..)| **known == *key)?;
        let (_, id, what) = self.approvals.remove(at);
        let verdict = decision.verdict;
        let result = what.response(decision);
        // Only for commands and patches does "cancel" make Codex end the turn.
        let then_interrupt = verdict == Verdict::Stop && !matches!(what, ServerRequestKind::Action);
        // The response has no field for a note, so send the note as steering input.
        let then_tell = match verdict {
            Verdict::Deny => decision.note.clone(),
            _ => None,
        };
        Some(DeferredReply { id, result, then_interrupt, then_steer: then_tell })
    }
}

impl ServerRequestKind {
    fn response(&self, decision: &Decision) -> Box<RawValue> {
        let verdict = decision.verdict;
        match self {
            Self::Action => request_result::decision(verdict),
            Self::Permissions(wanted) => request_result::permissions(wanted, verdict),
            Self::Input(_) if !verdict.allows() => request_result::user_input(&BTreeMap::new()),
            Self::Input(questions) => {
                let answers = decision.answers.iter().filter_map(|given| {
                    let (id, _) = questions.iter().find(|(_, text)| *text == given.question)?;
                    Some((&**id, &*given.answer))
                });
                request_result::user_input(&answers.collect())
            }
            _ if !verdict.allows() => request_result::decline_elicitation(verdict),
            Self::Consent => request_result::accept_elicitation(&Map::new()),
            // Decline a form without the required answers.
            Self::Form(fields) => match elicitation::form_content(fields, &decision.answers) {
                Some(content) => request_result::accept_elicitation(&content),
                None => request_result::decline_elicitation(Verdict::Deny),
            },
        }
    }
}

#[cfg(test)]
mod tests;
