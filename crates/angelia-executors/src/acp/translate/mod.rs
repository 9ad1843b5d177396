//! Translates the messages of an agent into events. Pure and total: unknown messages become
//! [`EventKind::Native`], and only the answer to its prompt ends a turn.
//!
//! - `text`: text blocks. `tool`: tool calls. `approvals`: approvals. `usage`: tokens and cost.
//!   `end`: the end of a turn.

mod ask;
mod end;
mod text;
mod tool;
mod usage;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{
        EventKind, Level, NativeSessionId, Notice, Permissions, Plan, PlanItem, PlanStatus,
        RuleAnswer, Started, TextChannel, Usage,
    },
    ports::Emitted,
};
use angelia_wire::jsonrpc::{ErrorObject, Id};
use serde_json::value::RawValue;

pub use self::ask::Decided;
use self::{
    ask::{Asked, Grant, PERMISSION},
    text::Texts,
    tool::Tools,
    usage::Spent,
};
use super::{
    client::{self, Wish},
    protocol::{
        incoming::{Chunk, Head, PlanFields, ToolFields, Updated, UsageFields},
        opened::Greeting,
    },
};

const UPDATE: &str = "session/update";

/// Updates that produce no event, and why.
pub const SILENT: &[(&str, &str)] = &[
    ("user_message_chunk", "our own words, repeated"),
    ("usage_update", "told with the end of the turn"),
];

/// The settings of a translator, which do not change while the agent lives.
#[derive(Clone, Debug)]
pub struct Context {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    pub session: NativeSessionId,
    pub model: Option<Arc<str>>,
    pub resumed: bool,
    pub warm: bool,
    pub prefix_sha256: Option<Arc<str>>,
    /// The working directory, first as configured, then without symbolic links.
    pub roots: Vec<PathBuf>,
    pub permissions: Permissions,
    pub greeting: Greeting,
    /// Whether the cost is reported during the turn, because a budget limits it.
    pub tells_cost: bool,
}

impl Context {
    fn cwd(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Returns why the permission rules forbid a request that needs no approval.
    fn forbids(&self, wish: &Wish) -> Option<String> {
        let request = wish.request(self.cwd());
        match self.permissions.answer(&request, self.cwd()) {
            RuleAnswer::Deny(why) => Some(why),
            RuleAnswer::Allow | RuleAnswer::Ask => None,
        }
    }
}

/// The next step for a request of the agent.
#[derive(Debug)]
pub enum Answer {
    Now(Box<RawValue>),
    Error(ErrorObject<'static>),
    /// Wait for an approval.
    Asked,
    /// Carry the request out and answer with its result.
    Do(Wish),
}

/// Translates the messages of one conversation into events.
#[derive(Debug)]
pub struct Translator {
    context: Context,
    turn: Option<Turn>,
    asked: Vec<Asked>,
    /// The turn is being cancelled: new permission requests are answered as cancelled.
    stopping: bool,
    spent: Spent,
    /// Ids of the previous turn's tool calls, to recognise late updates about them.
    past: HashSet<Box<str>>,
}

/// The state of the running turn.
#[derive(Debug, Default)]
struct Turn {
    texts: Texts,
    tools: Tools,
    granted: Vec<Grant>,
    usage: Usage,
}

impl Translator {
    pub fn new(context: Context) -> Self {
        Self {
            spent: Spent::new(!context.resumed),
            context,
            turn: None,
            asked: Vec::new(),
            stopping: false,
            past: HashSet::new(),
        }
    }

    pub fn session(&self) -> &NativeSessionId {
        &self.context.session
    }

    pub fn greeting(&self) -> &Greeting {
        &self.context.greeting
    }

    pub fn in_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Begins a turn when its prompt is sent. The protocol does not confirm that the prompt has
    /// arrived.
    pub fn begin_turn(&mut self, out: &mut Vec<Emitted>) {
        let context = &self.context;
        let started = Started {
            profile: Arc::clone(&context.profile),
            executor: Arc::clone(&context.executor),
            model: context.model.clone(),
            native_session_id: Some(context.session.clone()),
            resumed: context.resumed,
            warm: context.warm,
        };
        event(EventKind::Started(started), out);
        self.stopping = false;
        self.spent.begin_turn();
        self.turn = Some(Turn {
            usage: Usage { prefix_sha256: context.prefix_sha256.clone(), ..Usage::default() },
            ..Turn::default()
        });
    }

    /// Translates a notification.
    pub fn notification(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        out: &mut Vec<Emitted>,
    ) {
        let params = params.unwrap_or(RawValue::NULL);
        let parsed: Option<Updated<'_>> = match method {
            UPDATE => serde_json::from_str(params.get()).ok(),
            _ => None,
        };
        let ours = |updated: &Updated<'_>| {
            let of = updated.session_id.as_str();
            of.is_none_or(|session| session == self.context.session.as_str())
        };
        match parsed.filter(ours).and_then(|updated| updated.update) {
            Some(update) => self.update(update, out),
            None if self.turn.is_some() => native(method, params, out),
            None => {}
        }
    }

    fn update(&mut self, raw: &RawValue, out: &mut Vec<Emitted>) {
        let head: Option<Head<'_>> = serde_json::from_str(raw.get()).ok();
        let kind = head.as_ref().and_then(|head| head.kind.as_str());
        let kind = kind.unwrap_or(UPDATE);
        if kind == "usage_update" {
            return self.usage_update(raw, out);
        }
        // Updates between turns have no viewer.
        if self.turn.is_none() {
            return;
        }
        let understood = match kind {
            "agent_message_chunk" => self.words(TextChannel::Answer, raw, out),
            "agent_thought_chunk" => self.words(TextChannel::Reasoning, raw, out),
            "user_message_chunk" => true,
            "tool_call" => self.tool(raw, true, out),
            "tool_call_update" => self.tool(raw, false, out),
            "plan" => plan(raw, out),
            _ => false,
        };
        if !understood {
            native(kind, raw, out);
        }
    }

    fn words(&mut self, channel: TextChannel, raw: &RawValue, out: &mut Vec<Emitted>) -> bool {
        let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(raw.get()) else {
            return false;
        };
        let text = chunk.content.0.as_ref().and_then(|block| block.text());
        let (Some(text), Some(turn)) = (text, &mut self.turn) else {
            return false;
        };
        if !text.is_empty() {
            turn.tools.go_on(None, out);
            let message = chunk.message_id.as_str();
            turn.texts.piece(channel, message, text, out);
        }
        true
    }

    fn tool(&mut self, raw: &RawValue, is_new: bool, out: &mut Vec<Emitted>) -> bool {
        let Some(fields) = ToolFields::parse(raw) else {
            return false;
        };
        let (Some(native), Some(turn)) = (fields.tool_call_id.as_str(), &mut self.turn) else {
            return false;
        };
        if !is_new && self.past.contains(native) && !turn.tools.knows(native) {
            // A late update: the call ended with its turn.
            return true;
        }
        turn.texts.close(out);
        turn.tools.go_on(Some(native), out);
        turn.tools.told(native, &fields, is_new, out);
        true
    }

    fn usage_update(&mut self, raw: &RawValue, out: &mut Vec<Emitted>) {
        let fields: Option<UsageFields<'_>> = serde_json::from_str(raw.get()).ok();
        let Some(fields) = fields else { return };
        if let (Some(turn), Some(context)) = (&mut self.turn, fields.context()) {
            turn.usage.context = Some(context);
        }
        let Some(dollars) = fields.dollars() else {
            return;
        };
        let is_more = self.spent.total(dollars);
        if let (true, true, Some(turn)) = (is_more, self.context.tells_cost, &mut self.turn) {
            turn.usage.cost_usd = self.spent.of_turn();
            event(EventKind::Usage(turn.usage.clone()), out);
        }
    }

    /// Translates a request of the agent and returns what to do with it.
    pub fn request(
        &mut self,
        id: &Id<'_>,
        method: &str,
        params: Option<&RawValue>,
        out: &mut Vec<Emitted>,
    ) -> Answer {
        let params = params.unwrap_or(RawValue::NULL);
        if method == PERMISSION {
            return self.permission(id, params, out);
        }
        match client::wish(method, params, &self.context.roots) {
            Some(Ok(wish)) => self.wish(id, wish, out),
            Some(Err(error)) => Answer::Error(error),
            None => {
                if self.turn.is_some() {
                    native(method, params, out);
                }
                Answer::unknown(method)
            }
        }
    }

    /// Returns whether a tool call was announced and is not shown yet.
    pub fn holds_back(&self) -> bool {
        (self.turn.as_ref()).is_some_and(|turn| turn.tools.has_announced())
    }

    /// Shows the announced tool calls with what is known of them.
    pub fn show_announced(&mut self, out: &mut Vec<Emitted>) {
        if let Some(turn) = &mut self.turn {
            turn.tools.go_on(None, out);
        }
    }

    pub fn terminal_said(&mut self, terminal: &str, text: &str) {
        if let Some(turn) = &mut self.turn {
            turn.tools.terminal_said(terminal, text);
        }
    }

    /// Reports a line over the size limit.
    pub fn too_long(&mut self, bytes: usize, out: &mut Vec<Emitted>) {
        if self.turn.is_some() {
            let text = format!("a message of {bytes} bytes was too long and is left out");
            let notice = Notice::new(Level::Warning, "line_too_long", text);
            event(EventKind::Notice(notice), out);
        }
    }

    /// Passes on a line that is not a JSON-RPC message.
    pub fn no_message(&mut self, line: &[u8], out: &mut Vec<Emitted>) {
        if self.turn.is_some() && !line.trim_ascii().is_empty() {
            let text = String::from_utf8_lossy(line);
            let text = crate::prose::cut(&text, 2000);
            let raw = serde_json::value::to_raw_value(&text).unwrap_or_default();
            native("no_message", &raw, out);
        }
    }
}

fn plan(raw: &RawValue, out: &mut Vec<Emitted>) -> bool {
    let fields: Option<PlanFields<'_>> = serde_json::from_str(raw.get()).ok();
    let Some(entries) = fields.and_then(|fields| fields.entries.0) else {
        return false;
    };
    let items = entries.iter().filter_map(|entry| {
        let entry = entry.0.as_ref()?;
        let status = match entry.status.as_str() {
            Some("in_progress") => PlanStatus::InProgress,
            Some("completed") => PlanStatus::Completed,
            _ => PlanStatus::Pending,
        };
        let text = entry.content.as_str()?.into();
        Some(PlanItem { text, status })
    });
    let items = items.collect();
    event(EventKind::Plan(Plan { items }), out);
    true
}

fn event(kind: EventKind, out: &mut Vec<Emitted>) {
    out.push(Emitted::Event(kind));
}

fn native(name: &str, raw: &RawValue, out: &mut Vec<Emitted>) {
    let kind = EventKind::Native { name: name.into(), raw: raw.to_owned().into() };
    event(kind, out);
}
