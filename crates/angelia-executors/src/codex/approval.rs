//! Requests of the app-server that wait for a decision or a tool's result, and the responses to
//! them.
//!
//! Codex offers to remember a command permanently in the user's own rules. Angelia never accepts
//! that offer: an approval for the session ends with the session.

mod elicit;
mod wording;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use angelia_core::model::{Decision, RawJson, ToolId, Verdict};
use serde_json::{Map, value::RawValue};

pub(crate) use self::{
    elicit::{Field, form, tool_of},
    wording::Asker,
};
use super::{
    protocol::{answer, message::RequestId},
    translate::Reply,
};

/// All pending requests, in the order in which they arrived.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    asked: Vec<(Arc<str>, RequestId, What)>,
    /// Requests to run the caller's tools.
    calls: Vec<(ToolId, RequestId)>,
    /// Tool results that arrived before the app-server's request for them.
    early: HashMap<ToolId, Box<RawValue>>,
}

/// The id of a question, and its text.
pub(crate) type AskedWords = (Box<str>, Arc<str>);

/// The kind of a pending request, as far as the response depends on it.
#[derive(Debug)]
pub(crate) enum What {
    /// A command, a patch, or access to a network host.
    Action,
    Permissions(RawJson),
    Input(Vec<AskedWords>),
    /// A call of an MCP server's tool, or a URL to open.
    Consent {
        for_session: bool,
    },
    Form(Vec<Field>),
}

impl Pending {
    /// Adds an approval; its key is the app-server's request id. Returns `None` if a request with
    /// this id is already pending.
    pub(crate) fn ask(&mut self, id: &RequestId, what: What) -> Option<Arc<str>> {
        let key: Arc<str> = id.to_string().into();
        if self.is_waiting(id) {
            return None;
        }
        self.asked.push((Arc::clone(&key), id.clone(), what));
        Some(key)
    }

    pub(crate) fn is_waiting(&self, id: &RequestId) -> bool {
        let asked = self.asked.iter().any(|(_, known, _)| known == id);
        asked || self.calls.iter().any(|(_, known)| known == id)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.asked.iter().map(|(key, ..)| key)
    }

    /// Removes a request that the app-server no longer waits for, and returns its key if it was an
    /// approval.
    pub(crate) fn withdraw(&mut self, id: &RequestId) -> Option<Arc<str>> {
        self.calls.retain(|(_, known)| known != id);
        let at = self.asked.iter().position(|(_, known, _)| known == id)?;
        Some(self.asked.remove(at).0)
    }

    pub(crate) fn withdraw_all(&mut self) -> Vec<Arc<str>> {
        let asked = std::mem::take(self).asked;
        asked.into_iter().map(|(key, ..)| key).collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a request to run a caller's tool. Returns the result if it has already arrived.
    pub(crate) fn call(&mut self, tool: &ToolId, id: &RequestId) -> Option<Box<RawValue>> {
        let early = self.early.remove(tool);
        if early.is_none() {
            self.calls.push((tool.clone(), id.clone()));
        }
        early
    }

    /// Takes the result of a caller's tool. `is_running`: the app-server may still request it, so
    /// it is kept.
    pub(crate) fn tool_result(
        &mut self,
        tool: &ToolId,
        result: Box<RawValue>,
        is_running: bool,
    ) -> Option<Reply> {
        if let Some(at) = self.calls.iter().position(|(known, _)| known == tool) {
            let (_, id) = self.calls.remove(at);
            return Some(Reply { id, result, then_interrupt: false, then_tell: None });
        }
        if is_running {
            self.early.insert(tool.clone(), result);
        }
        None
    }

    /// Removes an approval and returns the response for `decision`.
    pub(crate) fn decide(&mut self, key: &str, decision: &Decision) -> Option<Reply> {
        let at = self.asked.iter().position(|(known, ..)| **known == *key)?;
        let (_, id, what) = self.asked.remove(at);
        let verdict = decision.verdict;
        let result = what.answer(decision);
        // Codex ends the turn on "cancel" only for commands and patches.
        let then_interrupt = verdict == Verdict::Stop && !matches!(what, What::Action);
        // The response has no field for a note, so the note is sent as steering input.
        let then_tell = match verdict {
            Verdict::Deny => decision.note.clone(),
            _ => None,
        };
        Some(Reply { id, result, then_interrupt, then_tell })
    }
}

impl What {
    fn answer(&self, decision: &Decision) -> Box<RawValue> {
        let verdict = decision.verdict;
        match self {
            Self::Action => answer::decision(verdict),
            Self::Permissions(wanted) => answer::permissions(wanted, verdict),
            Self::Input(_) if !verdict.allows() => answer::user_input(&BTreeMap::new()),
            Self::Input(questions) => {
                let answers = decision.answers.iter().filter_map(|given| {
                    let (id, _) = questions.iter().find(|(_, text)| *text == given.question)?;
                    Some((&**id, &*given.answer))
                });
                answer::user_input(&answers.collect())
            }
            _ if !verdict.allows() => answer::not_accept(verdict),
            Self::Consent { for_session } => {
                answer::accept(&Map::new(), *for_session && verdict == Verdict::Session)
            }
            // A form without the required answers is declined.
            Self::Form(fields) => match elicit::content(fields, &decision.answers) {
                Some(content) => answer::accept(&content, false),
                None => answer::not_accept(Verdict::Deny),
            },
        }
    }
}

#[cfg(test)]
mod tests;
