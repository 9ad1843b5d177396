//! Approvals: the agent's own permission requests, and its requests to write a file or run a
//! program through us.
//!
//! Permission options are chosen by their kind. The agent gets a one-time permission if it offers
//! one, because it may remember a lasting one for ever; Angelia remembers session-wide permissions
//! itself, and they end with the session.

use std::{fmt::Write as _, path::Path, sync::Arc};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, Decision, EventKind, Level, Notice, RawJson, ToolClass,
        ToolId, Verdict,
    },
    ports::Emitted,
};
use angelia_wire::jsonrpc::{ErrorObject, Id, METHOD_NOT_FOUND};
use serde_json::value::RawValue;

use super::{Answer, Translator, event, native, tool::Tool};
use crate::{
    acp::{
        client::{Granted, Wish},
        protocol::{
            incoming::{Choices, Permission, ToolFields},
            outgoing::outcome,
        },
    },
    prose::{cut, first_line},
};

/// Limits the input and the description of a tool in its approval.
const WORDS: usize = 2000;

pub(crate) const PERMISSION: &str = "session/request_permission";

/// An approval without a decision.
#[derive(Debug)]
pub(super) struct Asked {
    key: Arc<str>,
    id: Id<'static>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The agent asks whether this tool may run.
    Tool {
        tool: Option<ToolId>,
        choices: Choices,
        /// The files and the command that need no second approval once the tool is allowed.
        grants: Grant,
    },
    /// The agent asks us to do this.
    Wish(Wish),
}

/// The files and the command that are allowed with a tool call, until the end of the turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) paths: Vec<Box<str>>,
    pub(super) command: Option<String>,
}

impl Grant {
    fn as_granted(&self) -> Granted<'_> {
        Granted { paths: &self.paths, command: self.command.as_deref() }
    }
}

impl Asked {
    /// Withdraws the approval and returns the answer for the agent.
    fn over(self, out: &mut Vec<Emitted>) -> Decided {
        out.push(Emitted::Withdraw(self.key));
        match self.what {
            What::Tool { .. } => Decided::Reply(self.id, outcome(None)),
            What::Wish(_) => Decided::Refuse(self.id, "the turn was interrupted".into()),
        }
    }

    pub(super) fn key(self) -> Arc<str> {
        self.key
    }
}

/// The next step for a request of the agent after a decision.
#[derive(Debug)]
pub enum Decided {
    Reply(Id<'static>, Box<RawValue>),
    Refuse(Id<'static>, Box<str>),
    Do(Id<'static>, Wish),
}

impl Translator {
    pub(super) fn permission(
        &mut self,
        id: &Id<'_>,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Answer {
        let over = || Answer::Now(outcome(None));
        let Ok(permission) = serde_json::from_str::<Permission<'_>>(params.get()) else {
            native(PERMISSION, params, out);
            return over();
        };
        let key: Arc<str> = key(id);
        // A request with an id that is in use, between turns, or after a cancel cannot be decided,
        // so it is answered as cancelled.
        let is_asked = self.asked.iter().any(|asked| asked.key == key);
        let Some(turn) = self.turn.as_mut().filter(|_| !is_asked && !self.stopping) else {
            return over();
        };
        turn.texts.close(out);
        let fields = permission.tool_call.and_then(ToolFields::parse);
        let named = fields.as_ref().and_then(|fields| fields.tool_call_id.as_str());
        turn.tools.go_on(named, out);
        let choices = permission.choices();
        let cwd = self.context.cwd();
        let (request, tool, grants) = match (&fields, named) {
            (Some(fields), Some(named)) => {
                let tool = turn.tools.asked(named, fields, out);
                let grants = Grant {
                    paths: match tool.class() {
                        ToolClass::Edit => tool.paths.clone(),
                        _ => Vec::new(),
                    },
                    command: tool.command(),
                };
                (about(tool, &key, cwd), Some(tool.id.clone()), grants)
            }
            _ => (unknown(params, &key, cwd), None, Grant::default()),
        };
        out.push(Emitted::Ask(request));
        self.asked.push(Asked {
            key,
            id: id.clone().into_owned(),
            what: What::Tool { tool, choices, grants },
        });
        Answer::Asked
    }

    /// Handles a request to act for the agent: it is carried out at once, needs an approval, or is
    /// refused.
    pub(super) fn wish(&mut self, id: &Id<'_>, wish: Wish, out: &mut Vec<Emitted>) -> Answer {
        let Some(turn) = self.turn.as_mut().filter(|_| !self.stopping) else {
            return Answer::refuse("no turn is running");
        };
        let Some(question) = wish.question(self.context.cwd()) else {
            return match self.context.forbids(&wish) {
                Some(why) => Answer::refuse(why),
                None => Answer::Do(wish),
            };
        };
        // Allowed with its tool call: no second approval, but the deny rules still apply.
        if turn.granted.iter().any(|grant| wish.is_within(grant.as_granted(), &self.context.roots))
        {
            return match self.context.forbids(&wish) {
                Some(why) => Answer::refuse(why),
                None => Answer::Do(wish),
            };
        }
        let key = key(id);
        if self.asked.iter().any(|asked| asked.key == key) {
            return Answer::refuse("a request with this id is already waiting");
        }
        turn.texts.close(out);
        turn.tools.go_on(None, out);
        let request = ApprovalRequest { key: Arc::clone(&key), ..question };
        out.push(Emitted::Ask(request));
        self.asked.push(Asked { key, id: id.clone().into_owned(), what: What::Wish(wish) });
        Answer::Asked
    }

    /// Applies a decision. `None`: the approval is no longer open.
    pub fn decide(
        &mut self,
        key: &str,
        decision: &Decision,
        out: &mut Vec<Emitted>,
    ) -> Option<Decided> {
        let at = self.asked.iter().position(|asked| *asked.key == *key)?;
        let Asked { id, what, .. } = self.asked.remove(at);
        Some(match what {
            What::Wish(wish) if decision.verdict.allows() => Decided::Do(id, wish),
            What::Wish(_) => {
                let why = decision.note.as_deref().unwrap_or("it was declined");
                Decided::Refuse(id, why.into())
            }
            What::Tool { tool, choices, grants } => {
                let option = choices.of(decision.verdict);
                let allowed = decision.verdict.allows();
                if allowed && option.is_none() {
                    let text = "the agent offers no way to allow this only once, and a lasting \
                                permission is not given; it was declined";
                    let notice = Notice::new(Level::Warning, "declined", text);
                    event(EventKind::Notice(notice), out);
                }
                let option = option.or_else(|| choices.of(Verdict::Deny).filter(|_| allowed));
                if let Some(turn) = &mut self.turn {
                    if allowed && option == choices.of(decision.verdict) {
                        turn.granted.push(grants);
                    } else if let Some(tool) = tool {
                        turn.tools.declined(&tool);
                    }
                }
                Decided::Reply(id, outcome(option))
            }
        })
    }

    /// Handles the agent's `$/cancel_request`. `None`: no approval with this id is open.
    pub fn taken_back(
        &mut self,
        params: Option<&RawValue>,
        out: &mut Vec<Emitted>,
    ) -> Option<Decided> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow)]
            request_id: Id<'a>,
        }
        let cancelled: Cancelled<'_> = serde_json::from_str(params?.get()).ok()?;
        let key = key(&cancelled.request_id);
        let at = self.asked.iter().position(|asked| asked.key == key)?;
        Some(self.asked.remove(at).over(out))
    }

    /// Marks the turn as being cancelled and withdraws every approval.
    pub fn stop(&mut self, out: &mut Vec<Emitted>) -> Vec<Decided> {
        self.stopping = true;
        self.withdraw(out)
    }

    /// Withdraws every approval and returns the answers for the agent.
    pub fn withdraw(&mut self, out: &mut Vec<Emitted>) -> Vec<Decided> {
        let asked = std::mem::take(&mut self.asked).into_iter();
        asked.map(|asked| asked.over(out)).collect()
    }
}

impl Answer {
    pub(super) fn refuse(why: impl Into<Box<str>>) -> Self {
        Self::Error(ErrorObject::new(
            angelia_wire::jsonrpc::INTERNAL_ERROR,
            String::from(why.into()),
        ))
    }

    pub(super) fn unknown(method: &str) -> Self {
        let message = format!("angelia does not support {method}");
        Self::Error(ErrorObject::new(METHOD_NOT_FOUND, message))
    }
}

impl Choices {
    /// Returns the option id for a verdict. `None`: the agent offers none, so it gets `cancelled`.
    fn of(&self, verdict: Verdict) -> Option<&str> {
        match verdict {
            Verdict::Once => self.allow_once.as_deref(),
            Verdict::Session => self.allow_once.as_deref().or(self.allow_always.as_deref()),
            Verdict::Deny => self.reject_once.as_deref().or(self.reject_always.as_deref()),
            Verdict::Stop => None,
        }
    }
}

fn key(id: &Id<'_>) -> Arc<str> {
    // The quotes keep the string "1" apart from the number 1.
    match id {
        Id::Number(number) => number.to_string().into(),
        Id::Text(text) => format!("{text:?}").into(),
    }
}

/// Builds the approval for a tool call. Its detail is never empty.
fn about(tool: &Tool, key: &Arc<str>, cwd: &Path) -> ApprovalRequest {
    let mut detail = String::new();
    let mut line = |text: &str| {
        if !text.trim().is_empty() {
            let _infallible = writeln!(detail, "{}", text.trim_end());
        }
    };
    let command = tool.command();
    let title = match &command {
        Some(command) => {
            line(command);
            first_line(command).map_or_else(|| tool.title(), Into::into)
        }
        None => tool.title(),
    };
    for path in tool.paths.iter().filter(|path| Path::new(&***path) != cwd) {
        line(path);
    }
    let input = tool.input();
    if command.is_none() && input.get() != "{}" {
        line(&cut(input.get(), WORDS));
    }
    line(&cut(tool.words().unwrap_or_default(), WORDS));
    line(&format!("in {}", cwd.display()));
    let is_inside = |path: &str| cwd.join(path).starts_with(cwd) && !path.contains("..");
    ApprovalRequest {
        key: Arc::clone(key),
        kind: ApprovalKind::Tool,
        tool_id: Some(tool.id.clone()),
        tool_name: tool.name(),
        class: tool.class(),
        subject: tool.subject(is_inside),
        title,
        detail: detail.trim_end().into(),
        input: tool.input(),
    }
}

/// Builds the approval for a permission request without a readable tool call.
fn unknown(params: &RawValue, key: &Arc<str>, cwd: &Path) -> ApprovalRequest {
    let input: RawJson = params.to_owned().into();
    ApprovalRequest {
        key: Arc::clone(key),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: "other".into(),
        class: ToolClass::Other,
        subject: None,
        title: "the agent does not say what it asks for".into(),
        detail: format!("{}\nin {}", cut(params.get(), WORDS), cwd.display()).into(),
        input,
    }
}
