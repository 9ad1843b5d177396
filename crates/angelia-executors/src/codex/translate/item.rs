//! Handles items: text goes to `text`, most others are tool calls, and some have a special meaning.

use angelia_core::{
    model::{Level, ToolCall, ToolId},
    ports::{Activity, Emitted},
};
use serde_json::value::RawValue;

use super::{
    Signal, Translator, Whose, native, notice,
    text::is_aborted,
    turn::{About, ItemKey, Open},
};
use crate::codex::{
    patch::Changes,
    protocol::{
        item::{Item, ItemParams},
        notification::Common,
    },
    tool,
};

/// Whether an item has started or completed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Started,
    Completed,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "item/started",
            Self::Completed => "item/completed",
        }
    }
}

/// A parsed item, with the facts that identify its owner.
struct Told<'a> {
    end: End,
    params: &'a RawValue,
    raw: &'a RawValue,
    item: Item<'a>,
    id: &'a str,
    key: ItemKey,
    /// The tool call of the sub-agent to which the item belongs.
    parent: Option<ToolId>,
}

impl Told<'_> {
    fn native(&self, out: &mut Vec<Emitted>) {
        let name = format!("{}/{}", self.end.as_str(), self.item.kind());
        native(&name, self.params, out);
    }
}

impl Translator {
    pub(super) fn item_started(
        &mut self,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Option<Signal> {
        self.item(End::Started, params, out)
    }

    pub(super) fn item_completed(
        &mut self,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Option<Signal> {
        self.item(End::Completed, params, out)
    }

    fn item(&mut self, end: End, params: &RawValue, out: &mut Vec<Emitted>) -> Option<Signal> {
        let Ok(parsed) = serde_json::from_str::<ItemParams<'_>>(params.get()) else {
            native(end.as_str(), params, out);
            return None;
        };
        let item = Item::parse(parsed.item);
        let whose = self.whose(&parsed.thread_id, &parsed.turn_id);
        let Some(id) = item.id.as_str().map(str::to_owned) else {
            native(&format!("{}/{}", end.as_str(), item.kind()), params, out);
            return None;
        };
        let thread = parsed.thread_id.as_str().unwrap_or_default();
        let scope = match whose {
            Whose::SubAgents => {
                format!("{thread}/{}", parsed.turn_id.as_str().unwrap_or_default())
            }
            _ => String::new(),
        };
        let told = Told {
            end,
            params,
            raw: parsed.item,
            item,
            id: &id,
            key: (scope.into(), id.as_str().into()),
            parent: self.agents.call(thread).cloned(),
        };
        match whose {
            Whose::Ours => return self.own_item(&told, out),
            Whose::SubAgents => self.sub_agents_item(&told, out),
            Whose::Late => self.late_item(&told, out),
            Whose::Nobodys => told.native(out),
        }
        None
    }

    fn own_item(&mut self, told: &Told<'_>, out: &mut Vec<Emitted>) -> Option<Signal> {
        let item = &told.item;
        match item.kind() {
            "userMessage" => return self.user_message(told, out),
            "agentMessage" | "plan" | "exitedReviewMode" => {
                if told.end == End::Started {
                    self.words_started(told.id, out);
                    return None;
                }
                if item.text.as_str().is_some_and(is_aborted) {
                    told.native(out);
                    return self.aborted(out);
                }
                if !self.words_completed(told.id, item, out) {
                    told.native(out);
                }
            }
            "reasoning" if told.end == End::Started => self.words_started(told.id, out),
            "reasoning" => {
                if !self.reasoning_completed(told.id, item, out) {
                    told.native(out);
                }
            }
            "contextCompaction" => self.compaction(told.end, out),
            "subAgentActivity" => {
                if let Some(thread) = item.agent_thread_id.as_str() {
                    self.agents.adopt(thread, None);
                }
                told.native(out);
            }
            _ => self.tool(told, out),
        }
        None
    }

    /// Ignores the echo of our own message. Any other user message may say that the turn was
    /// aborted.
    fn user_message(&mut self, told: &Told<'_>, out: &mut Vec<Emitted>) -> Option<Signal> {
        let turn = self.turn.as_mut()?;
        if told.item.client_id.as_str().is_some() || turn.is_own_message(told.id) {
            return None;
        }
        told.native(out);
        let texts = told.item.texts();
        let aborted = texts.first().is_some_and(|text| is_aborted(text));
        if aborted { self.aborted(out) } else { None }
    }

    fn compaction(&mut self, end: End, out: &mut Vec<Emitted>) {
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        match end {
            End::Started => {
                turn.set_activity(Activity::Compacting, out);
                let text = "the agent shortens its history";
                notice(Level::Info, "compacting", text, out);
            }
            End::Completed => {
                turn.back_to_work(out);
                turn.compacted = true;
                notice(Level::Info, "compacted", "the agent has shortened its history", out);
            }
        }
    }

    fn tool(&mut self, told: &Told<'_>, out: &mut Vec<Emitted>) {
        let Some(described) = tool::describe(&told.item, told.raw) else {
            return told.native(out);
        };
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.back_to_work(out);
        let parent = (told.parent.clone()).filter(|parent| turn.tools.knows(parent));
        let call = ToolCall {
            id: ToolId::new(told.id),
            name: described.name,
            class: described.class,
            input: described.input,
            title: described.title,
            parent,
        };
        let tools = &mut turn.tools;
        let is_open = tools.find(&told.key).is_some();
        match told.end {
            // `item/tool/call` for a caller's tool may arrive before its item.
            End::Started if is_open => {
                let open = tools.find(&told.key);
                if !open.is_some_and(|open| matches!(open.about, About::CallerTool)) {
                    told.native(out);
                }
                return;
            }
            End::Started => {
                turn.texts.withdraw_abandoned(out);
                let open = tools.open(told.key.clone(), call, about(&told.item));
                if !is_known_at_the_end(&told.item) {
                    open.show(out);
                }
            }
            End::Completed if !is_open && tools.has_ended(&told.key) => return told.native(out),
            End::Completed => {
                if !is_open {
                    tools.open(told.key.clone(), call.clone(), about(&told.item));
                }
                let (ok, output) = tool::outcome(&told.item);
                if let Some(open) = tools.find_mut(&told.key) {
                    open.learn(call);
                }
                tools.close(&told.key, ok, output, out);
            }
        }
        self.adopt(told);
    }

    /// Registers the sub-agent threads that a tool call has started.
    fn adopt(&mut self, told: &Told<'_>) {
        let Some(turn) = self.turn.as_ref() else {
            return;
        };
        let call = (turn.tools.find(&told.key))
            .map_or_else(|| ToolId::new(told.id), |open| open.call.id.clone());
        for thread in told.item.receiver_thread_ids.0.iter().flatten() {
            if **thread != *self.context.thread.as_str() {
                self.agents.adopt(thread, Some(call.clone()));
            }
        }
    }

    fn sub_agents_item(&mut self, told: &Told<'_>, out: &mut Vec<Emitted>) {
        match told.item.kind() {
            "agentMessage" | "userMessage" | "reasoning" | "plan" if told.end == End::Started => {}
            _ if tool::describe(&told.item, told.raw).is_some() => self.tool(told, out),
            kind => {
                let name = format!("sub-agent/{}/{kind}", told.end.as_str());
                native(&name, told.params, out);
            }
        }
    }

    /// Reports a command of an earlier turn that ran on after it.
    fn late_item(&mut self, told: &Told<'_>, out: &mut Vec<Emitted>) {
        if self.turn.is_some() {
            told.native(out);
        }
        if told.end == End::Started {
            return;
        }
        if let Some(described) = tool::describe(&told.item, told.raw) {
            let how = match (tool::outcome(&told.item).0, told.item.exit_code.get()) {
                (true, _) => "has ended".to_owned(),
                (false, Some(code)) => format!("has failed with exit code {code}"),
                (false, None) => "has failed".to_owned(),
            };
            let text = format!("what an earlier turn left running {how}: {}", described.title);
            self.news(Level::Info, "background", text, out);
        }
    }

    /// Keeps the output of a running tool, in case its end is never reported.
    pub(super) fn output_delta(&mut self, params: &RawValue) {
        let common = Common::parse(params);
        if let Some(open) = self.open_item(&common)
            && let Some(delta) = common.delta.as_str()
        {
            open.said(delta);
        }
    }

    /// Updates the patch that an approval shows.
    pub(super) fn patch_updated(&mut self, params: &RawValue) {
        let common = Common::parse(params);
        let changes = Changes::of(common.changes);
        if let Some(open) = self.open_item(&common)
            && let About::Patch(known) = &mut open.about
            && !changes.is_empty()
        {
            *known = changes;
        }
    }

    fn open_item(&mut self, common: &Common<'_>) -> Option<&mut Open> {
        let id = common.item_id.as_str()?;
        let turn = self.turn.as_mut()?;
        let ours = turn.id.as_deref() == common.turn_id.as_str();
        let key = ("".into(), id.into());
        turn.tools.find_mut(&key).filter(|_| ours)
    }
}

impl Open {
    /// Adds the details that were not known when the call started.
    fn learn(&mut self, call: ToolCall) {
        if !self.shown {
            let id = self.call.id.clone();
            self.call = ToolCall { id, ..call };
        }
    }
}

fn about(item: &Item<'_>) -> About {
    match item.kind() {
        "commandExecution" => About::Command { cwd: item.cwd.as_str().map(Into::into) },
        "fileChange" => About::Patch(Changes::of(item.changes)),
        "mcpToolCall" => About::Mcp {
            server: item.server.as_str().unwrap_or_default().into(),
            tool: item.tool.as_str().unwrap_or_default().into(),
        },
        "dynamicToolCall" => About::CallerTool,
        _ => About::Other,
    }
}

/// Returns whether the title of an item is known only when it completes, as for a web search.
fn is_known_at_the_end(item: &Item<'_>) -> bool {
    item.kind() == "webSearch" && tool::searched(item).is_none()
}
