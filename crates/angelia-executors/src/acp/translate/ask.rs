//! Questions that wait for somebody's decision: those the agent asks, and those that are asked
//! because it wants to write a file or run a program through us.
//!
//! Permission options are chosen by their kind. A lasting yes is never given to the agent, because
//! it may keep it for ever; a session-wide one is kept by us and ends with the session.

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

/// What is shown of a tool's own words.
const WORDS: usize = 2000;

pub(crate) const PERMISSION: &str = "session/request_permission";

/// One that has been asked and not answered.
#[derive(Debug)]
pub(super) struct Asked {
    key: Arc<str>,
    id: Id<'static>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// May this tool run?
    Tool {
        tool: Option<ToolId>,
        choices: Choices,
        /// What it may do then without being asked again.
        grants: Grant,
    },
    /// May this be done for the agent?
    Wish(Wish),
}

/// What was allowed together with a tool, for as long as the turn lasts.
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
    /// Nobody is asked any more, and the agent is told so.
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

/// What the agent is told, or what is done for it, after a decision.
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

    /// Something the agent wants us to do: at once, after somebody has allowed it, or not at all.
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
        if turn.granted.iter().any(|grant| wish.is_within(grant.as_granted(), &self.context.roots))
        {
            return match self.context.forbids(&wish) {
                Some(why) => Answer::refuse(why),
                None => Answer::Do(wish),
            };
        }
        let key = key(id);
        if self.asked.iter().any(|asked| asked.key == key) {
            return Answer::refuse("a request of this id is waiting");
        }
        turn.texts.close(out);
        turn.tools.go_on(None, out);
        let request = ApprovalRequest { key: Arc::clone(&key), ..question };
        out.push(Emitted::Ask(request));
        self.asked.push(Asked { key, id: id.clone().into_owned(), what: What::Wish(wish) });
        Answer::Asked
    }

    /// Somebody has decided. `None`: nobody waits for that any more.
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
                    let text = "the agent offers no way to allow this once, and what it would \
                                remember is not given; it was declined";
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

    /// The agent takes one of its own questions back.
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

    /// The turn is told to end: every question is taken back.
    pub fn stop(&mut self, out: &mut Vec<Emitted>) -> Vec<Decided> {
        self.stopping = true;
        self.withdraw(out)
    }

    /// Takes every question back; the agent is told that it is over.
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
        let message = format!("angelia does not have {method}");
        Self::Error(ErrorObject::new(METHOD_NOT_FOUND, message))
    }
}

impl Choices {
    /// `None`: there is no such choice, and the agent is told that it is over.
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
    // A text and a number may look alike.
    match id {
        Id::Number(number) => number.to_string().into(),
        Id::Text(text) => format!("{text:?}").into(),
    }
}

/// What people read before they decide: never empty.
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

/// A question that does not say what it is about.
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
