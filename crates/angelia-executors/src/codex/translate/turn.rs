//! The state of the running turn.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    model::{
        BlockId, ContextWindow, EventKind, RawJson, TextChannel, ToolCall, ToolId, ToolResult,
    },
    ports::{Activity, Emitted},
};

use super::{event, text::Texts};
use crate::codex::{failure::Reported, patch::Changes, usage::Count};

/// How much of a command's output is kept, in case its end is never reported.
const OUTPUT: usize = 64 * 1024;

/// The thread and turn of an item (empty for the main ones), and the item's id.
pub(super) type ItemKey = (Box<str>, Box<str>);

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The app-server's id of the turn, once it is known.
    pub(super) id: Option<Box<str>>,
    pub(super) started: bool,
    /// How many messages of ours the app-server has yet to echo.
    own_words: usize,
    heard: HashSet<Box<str>>,
    next_block: BlockId,
    pub(super) texts: Texts,
    pub(super) tools: Tools,
    activity: Option<Activity>,
    pub(super) usage: Count,
    /// Fill level of the thread's own context, never that of a sub-agent.
    pub(super) filled: Option<ContextWindow>,
    pub(super) error: Option<Reported>,
    pub(super) login_hinted: bool,
    pub(super) compacted: bool,
    /// The latest combined diff of this turn.
    pub(super) diff: Option<RawJson>,
    /// The last message that could be the answer.
    pub(super) answer: Option<Arc<str>>,
    /// Questions that do not wait for an answer in this turn.
    pub(super) questions: Vec<Arc<str>>,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self { own_words: 1, ..Self::default() }
    }

    pub(super) fn steer(&mut self) {
        self.own_words += 1;
    }

    /// Returns whether a user message is the echo of one that we sent.
    pub(super) fn is_own_message(&mut self, item: &str) -> bool {
        if self.heard.contains(item) {
            return true;
        }
        let own = self.own_words > 0;
        if own {
            self.own_words -= 1;
            self.heard.insert(item.into());
        }
        own
    }

    pub(super) fn new_block(&mut self) -> BlockId {
        let block = self.next_block;
        self.next_block += 1;
        block
    }

    pub(super) fn set_activity(&mut self, activity: Activity, out: &mut Vec<Emitted>) {
        if self.activity != Some(activity) {
            self.activity = Some(activity);
            out.push(Emitted::Activity(activity));
        }
    }

    /// Ends the activity of a retry or a compaction: the model is at work again.
    pub(super) fn back_to_work(&mut self, out: &mut Vec<Emitted>) {
        if matches!(self.activity, Some(Activity::Retrying | Activity::Compacting)) {
            self.set_activity(Activity::WaitingForModel, out);
        }
    }
}

/// The tool calls of a turn: those that run, and the ids that are taken.
#[derive(Debug, Default)]
pub(super) struct Tools {
    open: Vec<Open>,
    /// How often an item id was used; item ids may repeat.
    used: HashMap<Box<str>, usize>,
    ids: HashSet<ToolId>,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) key: ItemKey,
    pub(super) call: ToolCall,
    /// A `ToolCall` event has been emitted.
    pub(super) shown: bool,
    pub(super) about: About,
    output: String,
}

/// The details of a tool call that its approval shows.
#[derive(Debug)]
pub(super) enum About {
    Command { cwd: Option<Box<str>> },
    Patch(Changes),
    Mcp { server: Box<str>, tool: Box<str> },
    CallerTool,
    Other,
}

impl Tools {
    /// Returns an id that no other tool call of the turn has: the item's own id, if it is free.
    fn name(&mut self, item: &str) -> ToolId {
        let count = self.used.entry(item.into()).or_insert(0);
        loop {
            *count += 1;
            let id = match *count {
                1 => ToolId::new(item),
                more => ToolId::new(format!("{item}#{more}")),
            };
            if self.ids.insert(id.clone()) {
                return id;
            }
        }
    }

    pub(super) fn knows(&self, id: &ToolId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn has_ended(&self, key: &ItemKey) -> bool {
        self.used.contains_key(&key.1) && self.find(key).is_none()
    }

    pub(super) fn open(&mut self, key: ItemKey, mut call: ToolCall, about: About) -> &mut Open {
        call.id = self.name(&key.1);
        self.open.push_mut(Open { key, call, shown: false, about, output: String::new() })
    }

    pub(super) fn find(&self, key: &ItemKey) -> Option<&Open> {
        self.open.iter().find(|open| open.key == *key)
    }

    pub(super) fn find_mut(&mut self, key: &ItemKey) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.key == *key)
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Open> {
        self.open.iter()
    }

    pub(super) fn close(
        &mut self,
        key: &ItemKey,
        ok: bool,
        output: String,
        out: &mut Vec<Emitted>,
    ) {
        if let Some(at) = self.open.iter().position(|open| open.key == *key) {
            let mut open = self.open.remove(at);
            open.show(out);
            finished(open.call.id, ok, output, out);
        }
    }

    /// Closes all calls at the end of the turn. `ran_on`: commands may run on in the background.
    pub(super) fn close_all(&mut self, why: &str, ran_on: bool, out: &mut Vec<Emitted>) {
        for mut open in self.open.drain(..) {
            open.show(out);
            let goes_on = ran_on && matches!(open.about, About::Command { .. });
            let why = if goes_on { "still running in the background" } else { why };
            let output = if open.output.is_empty() {
                why.to_owned()
            } else {
                let line = if open.output.ends_with('\n') { "" } else { "\n" };
                format!("{}{line}[{why}]", open.output)
            };
            finished(open.call.id, goes_on, output, out);
        }
    }
}

impl Open {
    pub(super) fn show(&mut self, out: &mut Vec<Emitted>) {
        if !std::mem::replace(&mut self.shown, true) {
            event(EventKind::ToolCall(self.call.clone()), out);
        }
    }

    pub(super) fn said(&mut self, more: &str) {
        let room = OUTPUT.saturating_sub(self.output.len());
        self.output.push_str(&more[..more.floor_char_boundary(room)]);
    }
}

fn finished(id: ToolId, ok: bool, output: String, out: &mut Vec<Emitted>) {
    let output = output.into();
    event(EventKind::ToolResult(ToolResult { id, ok, output }), out);
}

pub(super) fn emit_block(
    block: BlockId,
    channel: TextChannel,
    text: Arc<str>,
    out: &mut Vec<Emitted>,
) {
    event(EventKind::Block { block, channel, text }, out);
}
