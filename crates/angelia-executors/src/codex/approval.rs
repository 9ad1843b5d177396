//! Questions of the server that wait for somebody's decision, and what it is told then.
//!
//! The server's own offer to remember a command for ever, in the user's rules, is never taken up: a
//! session-wide yes ends with the session.

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

/// Everything that waits, in the order in which it was asked.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    asked: Vec<(Arc<str>, RequestId, What)>,
    /// Calls of the caller's tools.
    calls: Vec<(ToolId, RequestId)>,
    /// Results that came before the server asked for them.
    early: HashMap<ToolId, Box<RawValue>>,
}

/// The id of a question, and its words.
pub(crate) type AskedWords = (Box<str>, Arc<str>);

/// What was asked, as far as the answer depends on it.
#[derive(Debug)]
pub(crate) enum What {
    /// A command, a patch, an address on the network.
    Action,
    Permissions(RawJson),
    Input(Vec<AskedWords>),
    /// A call of an MCP server's tool, or an address to open.
    Consent {
        for_session: bool,
    },
    Form(Vec<Field>),
}

impl Pending {
    /// The server's name of the question is its key. `None`: it asks under a name that waits.
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

    /// The server needs no answer any more.
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

    /// A caller's tool is called; `Some`: its result is there already.
    pub(crate) fn call(&mut self, tool: &ToolId, id: &RequestId) -> Option<Box<RawValue>> {
        let early = self.early.remove(tool);
        if early.is_none() {
            self.calls.push((tool.clone(), id.clone()));
        }
        early
    }

    /// `is_running`: the server may still ask for it.
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

    pub(crate) fn decide(&mut self, key: &str, decision: &Decision) -> Option<Reply> {
        let at = self.asked.iter().position(|(known, ..)| **known == *key)?;
        let (_, id, what) = self.asked.remove(at);
        let verdict = decision.verdict;
        let result = what.answer(decision);
        // Only of actions the server takes "stop" as its own end.
        let then_interrupt = verdict == Verdict::Stop && !matches!(what, What::Action);
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
            // A form without its answers is not filled in.
            Self::Form(fields) => match elicit::content(fields, &decision.answers) {
                Some(content) => answer::accept(&content, false),
                None => answer::not_accept(Verdict::Deny),
            },
        }
    }
}

#[cfg(test)]
mod tests;
