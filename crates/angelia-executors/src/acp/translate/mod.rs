//! Translates an agent's messages into events. Pure and total: unknown messages become
//! [`EventKind::Native`], and only the answer to its prompt ends a turn.
//!
//! - `text`: text blocks. `tool`: tool calls. `approvals`: approvals. `usage`: tokens and cost.
//!   `end`: the end of a turn.

mod approvals;
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
        AgentStart, EventKind, NativeSessionId, Notice, NoticeLevel, Plan, PlanItem, PlanStatus,
        TextChannel, Usage,
    },
    ports::AgentEvent,
};
use angelia_wire::jsonrpc::{ErrorObject, RpcId};
use serde_json::value::RawValue;

pub use self::approvals::DecisionEffect;
use self::{
    approvals::{AcpPendingApproval, REQUEST_PERMISSION, ToolGrant},
    text::BlockStream,
    tool::AcpToolCalls,
    usage::ConversationCost,
};
use super::{
    client::{self, ClientRequest},
    protocol::{
        handshake::AgentDescription,
        incoming::{
            PlanFields, SessionUpdateParams, ToolCallFields, UpdateChunk, UpdateHeader, UsageFields,
        },
    },
};
use crate::emit::{emit_event, emit_native};

const SESSION_UPDATE: &str = "session/update";

/// Updates that produce no event, and why.
pub const SILENT: &[(&str, &str)] = &[
    ("user_message_chunk", "our own words, repeated"),
    ("usage_update", "reported at the end of the turn"),
];

/// The settings of a translator, which do not change during the agent's life.
#[derive(Clone, Debug)]
pub struct AcpContext {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    pub session: NativeSessionId,
    pub model: Option<Arc<str>>,
    pub resumed: bool,
    pub warm: bool,
    pub prefix_sha256: Option<Arc<str>>,
    /// The working directory, first as configured, then without symbolic links.
    pub roots: Vec<PathBuf>,
    pub agent: AgentDescription,
    /// Whether to report the cost during the turn, because a budget limits it.
    pub reports_cost: bool,
}

impl AcpContext {
    fn cwd(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }
}

/// What to do with a request from the agent.
#[derive(Debug)]
pub enum AcpRequestOutcome {
    Now(Box<RawValue>),
    Error(ErrorObject),
    /// Wait for an approval.
    Approval,
    /// Execute the request and answer with its result.
    Execute(ClientRequest),
}

/// Translates the messages of one conversation into events.
#[derive(Debug)]
pub struct AcpTranslator {
    context: AcpContext,
    turn: Option<AcpTurn>,
    pending_approvals: Vec<AcpPendingApproval>,
    /// Set while the turn is being cancelled; new permission requests are answered as cancelled.
    stopping: bool,
    cost: ConversationCost,
    /// The ids of the previous turn's tool calls, for recognising late updates about them.
    past_tool_calls: HashSet<Box<str>>,
}

/// The state of the running turn.
#[derive(Debug, Default)]
struct AcpTurn {
    texts: BlockStream,
    tools: AcpToolCalls,
    grants: Vec<ToolGrant>,
    usage: Usage,
}

impl AcpTranslator {
    pub fn new(context: AcpContext) -> Self {
        Self {
            cost: ConversationCost::new(!context.resumed),
            context,
            turn: None,
            pending_approvals: Vec::new(),
            stopping: false,
            past_tool_calls: HashSet::new(),
        }
    }

    pub fn session(&self) -> &NativeSessionId {
        &self.context.session
    }

    pub fn agent(&self) -> &AgentDescription {
        &self.context.agent
    }

    pub fn in_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Begins a turn when its prompt is sent, because the protocol does not confirm that a prompt
    /// has arrived.
    pub fn begin_turn(&mut self, out: &mut Vec<AgentEvent>) {
        let context = &self.context;
        let started = AgentStart {
            profile: Arc::clone(&context.profile),
            executor: Arc::clone(&context.executor),
            model: context.model.clone(),
            native_session_id: Some(context.session.clone()),
            resumed: context.resumed,
            warm: context.warm,
        };
        emit_event(EventKind::Started(started), out);
        self.stopping = false;
        self.cost.begin_turn();
        self.turn = Some(AcpTurn {
            usage: Usage { prefix_sha256: context.prefix_sha256.clone(), ..Usage::default() },
            ..AcpTurn::default()
        });
    }

    /// Translates a notification.
    pub fn on_notification(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        out: &mut Vec<AgentEvent>,
    ) {
        let params = params.unwrap_or(RawValue::NULL);
        let parsed: Option<SessionUpdateParams<'_>> = match method {
            SESSION_UPDATE => serde_json::from_str(params.get()).ok(),
            _ => None,
        };
        let ours = |updated: &SessionUpdateParams<'_>| {
            let of = updated.session_id.as_str();
            of.is_none_or(|session| session == self.context.session.as_str())
        };
        match parsed.filter(ours).and_then(|updated| updated.update) {
            Some(update) => self.on_update(update, out),
            None if self.turn.is_some() => emit_native(method, params, out),
            None => {}
        }
    }

    fn on_update(&mut self, raw: &RawValue, out: &mut Vec<AgentEvent>) {
        let head: Option<UpdateHeader<'_>> = serde_json::from_str(raw.get()).ok();
        let kind = head.as_ref().and_then(|head| head.kind.as_str());
        let kind = kind.unwrap_or(SESSION_UPDATE);
        if kind == "usage_update" {
            return self.on_usage_update(raw, out);
        }
        // Nobody sees updates between turns.
        if self.turn.is_none() {
            return;
        }
        let understood = match kind {
            "agent_message_chunk" => self.on_text_chunk(TextChannel::Answer, raw, out),
            "agent_thought_chunk" => self.on_text_chunk(TextChannel::Reasoning, raw, out),
            "user_message_chunk" => true,
            "tool_call" => self.on_tool_call(raw, true, out),
            "tool_call_update" => self.on_tool_call(raw, false, out),
            "plan" => emit_plan(raw, out),
            _ => false,
        };
        if !understood {
            emit_native(kind, raw, out);
        }
    }

    fn on_text_chunk(
        &mut self,
        channel: TextChannel,
        raw: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> bool {
        let Ok(chunk) = serde_json::from_str::<UpdateChunk<'_>>(raw.get()) else {
            return false;
        };
        let text = chunk.content.0.as_ref().and_then(|block| block.text());
        let (Some(text), Some(turn)) = (text, &mut self.turn) else {
            return false;
        };
        if !text.is_empty() {
            turn.tools.advance_others(None, out);
            let message = chunk.message_id.as_str();
            turn.texts.add_chunk(channel, message, text, out);
        }
        true
    }

    fn on_tool_call(&mut self, raw: &RawValue, is_new: bool, out: &mut Vec<AgentEvent>) -> bool {
        let Some(fields) = ToolCallFields::parse(raw) else {
            return false;
        };
        let (Some(native), Some(turn)) = (fields.tool_call_id.as_str(), &mut self.turn) else {
            return false;
        };
        if !is_new && self.past_tool_calls.contains(native) && !turn.tools.contains(native) {
            // A late update about a call that ended with its turn.
            return true;
        }
        turn.texts.close(out);
        turn.tools.advance_others(Some(native), out);
        turn.tools.apply_update(native, &fields, is_new, out);
        true
    }

    fn on_usage_update(&mut self, raw: &RawValue, out: &mut Vec<AgentEvent>) {
        let fields: Option<UsageFields<'_>> = serde_json::from_str(raw.get()).ok();
        let Some(fields) = fields else { return };
        if let (Some(turn), Some(context)) = (&mut self.turn, fields.context()) {
            turn.usage.context = Some(context);
        }
        let Some(dollars) = fields.total_cost_usd() else {
            return;
        };
        let is_more = self.cost.record_total(dollars);
        if let (true, true, Some(turn)) = (is_more, self.context.reports_cost, &mut self.turn) {
            turn.usage.cost_usd = self.cost.turn_cost();
            emit_event(EventKind::Usage(turn.usage.clone()), out);
        }
    }

    /// Translates a request from the agent and returns what to do with it.
    pub fn on_request(
        &mut self,
        id: &RpcId<'_>,
        method: &str,
        params: Option<&RawValue>,
        out: &mut Vec<AgentEvent>,
    ) -> AcpRequestOutcome {
        let params = params.unwrap_or(RawValue::NULL);
        if method == REQUEST_PERMISSION {
            return self.on_permission_request(id, params, out);
        }
        match client::parse_request(method, params, &self.context.roots) {
            Some(Ok(wish)) => self.on_client_request(id, wish, out),
            Some(Err(error)) => AcpRequestOutcome::Error(error),
            None => {
                if self.turn.is_some() {
                    emit_native(method, params, out);
                }
                AcpRequestOutcome::unknown_method(method)
            }
        }
    }

    /// Reports whether a tool call was announced but is not shown yet.
    pub fn has_announced_calls(&self) -> bool {
        (self.turn.as_ref()).is_some_and(|turn| turn.tools.has_announced())
    }

    /// Shows the announced tool calls with the details known so far.
    pub fn show_announced(&mut self, out: &mut Vec<AgentEvent>) {
        if let Some(turn) = &mut self.turn {
            turn.tools.advance_others(None, out);
        }
    }

    pub fn on_terminal_output(&mut self, terminal: &str, text: &str) {
        if let Some(turn) = &mut self.turn {
            turn.tools.set_terminal_output(terminal, text);
        }
    }

    /// Reports a line over the size limit.
    pub fn on_too_long(&mut self, bytes: usize, out: &mut Vec<AgentEvent>) {
        if self.turn.is_some() {
            let text = format!("a message of {bytes} bytes was too long and was skipped");
            let notice = Notice::new(NoticeLevel::Warning, "line_too_long", text);
            emit_event(EventKind::Notice(notice), out);
        }
    }

    /// Passes on a line that is not a JSON-RPC message.
    pub fn on_invalid_line(&mut self, line: &[u8], out: &mut Vec<AgentEvent>) {
        if self.turn.is_some() && !line.trim_ascii().is_empty() {
            let text = String::from_utf8_lossy(line);
            let text = crate::truncation::truncate_chars(&text, 2000);
            let raw = serde_json::value::to_raw_value(&text).unwrap_or_default();
            emit_native("no_message", &raw, out);
        }
    }
}

fn emit_plan(raw: &RawValue, out: &mut Vec<AgentEvent>) -> bool {
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
    emit_event(EventKind::Plan(Plan { items }), out);
    true
}
