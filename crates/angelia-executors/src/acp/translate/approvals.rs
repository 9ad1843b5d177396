//! Approvals: the agent's own permission requests, and its requests to write a file or run a
//! program through us.
//!
//! Permission options are chosen by their kind. The agent gets a one-time permission or none,
//! because it might remember a lasting permission forever. The engine remembers the grants instead.

use std::{fmt::Write as _, path::Path, sync::Arc};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, Decision, EventKind, Notice, NoticeLevel,
        RawJson, ToolAccess, ToolClass, ToolId, Verdict,
    },
    ports::AgentEvent,
};
use angelia_wire::jsonrpc::{ErrorObject, METHOD_NOT_FOUND, RpcId};
use serde_json::value::RawValue;

use super::{AcpRequestOutcome, AcpTranslator, emit_event, emit_native, tool::AcpToolCall};
use crate::{
    acp::{
        client::{ClientRequest, ToolGrantRef},
        protocol::{
            incoming::{PermissionOptions, PermissionRequestParams, ToolCallFields},
            outgoing::permission_outcome,
        },
    },
    truncation::{first_line, truncate_chars},
};

/// Limits the length of a tool's input and description in its approval.
const MAX_DETAIL_CHARS: usize = 2000;

pub(crate) const REQUEST_PERMISSION: &str = "session/request_permission";

/// An approval that awaits a decision.
#[derive(Debug)]
pub(super) struct AcpPendingApproval {
    key: Arc<str>,
    id: RpcId<'static>,
    target: ApprovalTarget,
}

#[derive(Debug)]
enum ApprovalTarget {
    /// The agent asks whether this tool may run.
    Tool {
        tool: Option<ToolId>,
        choices: PermissionOptions,
        /// The files and the command that need no second approval once the tool is allowed.
        grant: ToolGrant,
    },
    /// The agent asks us to do this.
    Request(ClientRequest),
}

/// The files and the command that are allowed together with a tool call, until the end of the turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolGrant {
    pub(super) paths: Vec<Box<str>>,
    pub(super) command: Option<String>,
}

impl ToolGrant {
    fn as_grant_ref(&self) -> ToolGrantRef<'_> {
        ToolGrantRef { paths: &self.paths, command: self.command.as_deref() }
    }
}

impl AcpPendingApproval {
    /// Withdraws the approval and returns the answer to the agent.
    fn cancel(self, out: &mut Vec<AgentEvent>) -> DecisionEffect {
        out.push(AgentEvent::ApprovalWithdrawn(self.key));
        match self.target {
            ApprovalTarget::Tool { .. } => DecisionEffect::Reply(self.id, permission_outcome(None)),
            ApprovalTarget::Request(_) => {
                DecisionEffect::Refuse(self.id, "the turn was interrupted".into())
            }
        }
    }

    pub(super) fn into_key(self) -> Arc<str> {
        self.key
    }
}

/// What to do with a request from the agent after a decision.
#[derive(Debug)]
pub enum DecisionEffect {
    Reply(RpcId<'static>, Box<RawValue>),
    Refuse(RpcId<'static>, Box<str>),
    Execute(RpcId<'static>, ClientRequest),
}

impl AcpTranslator {
    pub(super) fn on_permission_request(
        &mut self,
        id: &RpcId<'_>,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> AcpRequestOutcome {
        let over = || AcpRequestOutcome::Now(permission_outcome(None));
        let Ok(permission) = serde_json::from_str::<PermissionRequestParams<'_>>(params.get())
        else {
            emit_native(REQUEST_PERMISSION, params, out);
            return over();
        };
        let key: Arc<str> = approval_key(id);
        // A request cannot be decided if its id is already in use, between turns, or after a
        // cancel. Answer it as cancelled.
        let is_asked = self.pending_approvals.iter().any(|asked| asked.key == key);
        let Some(turn) = self.turn.as_mut().filter(|_| !is_asked && !self.stopping) else {
            return over();
        };
        turn.texts.close(out);
        let fields = permission.tool_call.and_then(ToolCallFields::parse);
        let named = fields.as_ref().and_then(|fields| fields.tool_call_id.as_str());
        turn.tools.advance_others(named, out);
        let choices = permission.options_by_kind();
        let cwd = self.context.cwd();
        let (request, tool, grants) = match (&fields, named) {
            (Some(fields), Some(named)) => {
                let tool = turn.tools.apply_permission_request(named, fields, out);
                let grants = ToolGrant {
                    paths: match tool.class() {
                        ToolClass::Edit => tool.paths.clone(),
                        _ => Vec::new(),
                    },
                    command: tool.command(),
                };
                (tool_approval(tool, &key, cwd), Some(tool.id.clone()), grants)
            }
            _ => (unknown_approval(params, &key, cwd), None, ToolGrant::default()),
        };
        out.push(AgentEvent::ApprovalRequest(request));
        self.pending_approvals.push(AcpPendingApproval {
            key,
            id: id.clone().into_owned(),
            target: ApprovalTarget::Tool { tool, choices, grant: grants },
        });
        AcpRequestOutcome::Approval
    }

    /// Handles a request to do something for the agent. The engine decides on it; only a request
    /// about a running terminal is executed at once.
    pub(super) fn on_client_request(
        &mut self,
        id: &RpcId<'_>,
        wish: ClientRequest,
        out: &mut Vec<AgentEvent>,
    ) -> AcpRequestOutcome {
        let Some(turn) = self.turn.as_mut().filter(|_| !self.stopping) else {
            return AcpRequestOutcome::refuse("no turn is running");
        };
        let Some(mut request) = wish.to_approval(self.context.cwd()) else {
            return AcpRequestOutcome::Execute(wish);
        };
        // The request was allowed with its tool call, so nobody is asked again, but deny rules
        // still apply.
        let is_granted =
            |grant: &ToolGrant| wish.is_covered_by(grant.as_grant_ref(), &self.context.roots);
        if turn.grants.iter().any(is_granted) {
            request.stage = ApprovalStage::Report;
        }
        let key = approval_key(id);
        if self.pending_approvals.iter().any(|asked| asked.key == key) {
            return AcpRequestOutcome::refuse("a request with this id is already waiting");
        }
        turn.texts.close(out);
        turn.tools.advance_others(None, out);
        request.key = Arc::clone(&key);
        out.push(AgentEvent::ApprovalRequest(request));
        self.pending_approvals.push(AcpPendingApproval {
            key,
            id: id.clone().into_owned(),
            target: ApprovalTarget::Request(wish),
        });
        AcpRequestOutcome::Approval
    }

    /// Applies a decision. Returns `None` if the approval is no longer open.
    pub fn decide(
        &mut self,
        key: &str,
        decision: &Decision,
        out: &mut Vec<AgentEvent>,
    ) -> Option<DecisionEffect> {
        let at = self.pending_approvals.iter().position(|asked| *asked.key == *key)?;
        let AcpPendingApproval { id, target: what, .. } = self.pending_approvals.remove(at);
        Some(match what {
            ApprovalTarget::Request(wish) if decision.verdict.allows() => {
                DecisionEffect::Execute(id, wish)
            }
            ApprovalTarget::Request(_) => {
                let why = decision.note.as_deref().unwrap_or("it was declined");
                DecisionEffect::Refuse(id, why.into())
            }
            ApprovalTarget::Tool { tool, choices, grant: grants } => {
                let option = choices.option_for(decision.verdict);
                let allowed = decision.verdict.allows();
                if allowed && option.is_none() {
                    let text = "the agent offers no way to allow this only once, and Angelia gives \
                                no lasting permission; it was declined";
                    let notice = Notice::new(NoticeLevel::Warning, "declined", text);
                    emit_event(EventKind::Notice(notice), out);
                }
                let option =
                    option.or_else(|| choices.option_for(Verdict::Deny).filter(|_| allowed));
                if let Some(turn) = &mut self.turn {
                    if allowed && option == choices.option_for(decision.verdict) {
                        turn.grants.push(grants);
                    } else if let Some(tool) = tool {
                        turn.tools.mark_declined(&tool);
                    }
                }
                DecisionEffect::Reply(id, permission_outcome(option))
            }
        })
    }

    /// Executes a request without objection from the engine. Returns `None` if it is no longer
    /// open.
    pub fn proceed(&mut self, key: &str, out: &mut Vec<AgentEvent>) -> Option<DecisionEffect> {
        self.decide(key, &Decision::new(Verdict::Once, "rule"), out)
    }

    /// Handles the agent's `$/cancel_request`. Returns `None` if no approval with this id is open.
    pub fn on_cancel_request(
        &mut self,
        params: Option<&RawValue>,
        out: &mut Vec<AgentEvent>,
    ) -> Option<DecisionEffect> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow)]
            request_id: RpcId<'a>,
        }
        let cancelled: Cancelled<'_> = serde_json::from_str(params?.get()).ok()?;
        let key = approval_key(&cancelled.request_id);
        let at = self.pending_approvals.iter().position(|asked| asked.key == key)?;
        Some(self.pending_approvals.remove(at).cancel(out))
    }

    /// Marks the turn as being cancelled and withdraws every approval.
    pub fn begin_stop(&mut self, out: &mut Vec<AgentEvent>) -> Vec<DecisionEffect> {
        self.stopping = true;
        self.withdraw_approvals(out)
    }

    /// Withdraws every approval and returns the answers to the agent.
    pub fn withdraw_approvals(&mut self, out: &mut Vec<AgentEvent>) -> Vec<DecisionEffect> {
        let asked = std::mem::take(&mut self.pending_approvals).into_iter();
        asked.map(|asked| asked.cancel(out)).collect()
    }
}

impl AcpRequestOutcome {
    pub(super) fn refuse(why: impl Into<Box<str>>) -> Self {
        Self::Error(ErrorObject::new(
            angelia_wire::jsonrpc::INTERNAL_ERROR,
            String::from(why.into()),
        ))
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        let message = format!("angelia does not support {method}");
        Self::Error(ErrorObject::new(METHOD_NOT_FOUND, message))
    }
}

impl PermissionOptions {
    /// Returns the option id for a verdict. If the agent offers none, returns `None`, which is sent
    /// as `cancelled`.
    fn option_for(&self, verdict: Verdict) -> Option<&str> {
        match verdict {
            Verdict::Once | Verdict::Session | Verdict::Always => self.allow_once.as_deref(),
            Verdict::Deny => self.reject_once.as_deref().or(self.reject_always.as_deref()),
            Verdict::Stop => None,
        }
    }
}

fn approval_key(id: &RpcId<'_>) -> Arc<str> {
    // The quotes distinguish the string "1" from the number 1.
    match id {
        RpcId::Number(number) => number.to_string().into(),
        RpcId::Text(text) => format!("{text:?}").into(),
    }
}

/// Builds the approval request for a tool call. Its detail is never empty.
fn tool_approval(tool: &AcpToolCall, key: &Arc<str>, cwd: &Path) -> ApprovalRequest {
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
    // A diff is clearer than the raw input of an edit.
    if command.is_none() && tool.edits().is_empty() && input.get() != "{}" {
        line(&truncate_chars(input.get(), MAX_DETAIL_CHARS));
    }
    line(&truncate_chars(tool.description().unwrap_or_default(), MAX_DETAIL_CHARS));
    line(&format!("in {}", cwd.display()));
    ApprovalRequest {
        key: Arc::clone(key),
        stage: ApprovalStage::Request,
        access: tool.access(),
        suggestions: Vec::new(),
        edits: tool.edits().to_vec(),
        kind: ApprovalKind::Tool,
        tool_id: Some(tool.id.clone()),
        tool_name: tool.name(),
        class: tool.class(),
        subject: tool.subject(),
        title,
        detail: detail.trim_end().into(),
        input: tool.input(),
    }
}

/// Builds the approval request for a permission request whose tool call cannot be read.
fn unknown_approval(params: &RawValue, key: &Arc<str>, cwd: &Path) -> ApprovalRequest {
    let input: RawJson = params.to_owned().into();
    ApprovalRequest {
        key: Arc::clone(key),
        stage: ApprovalStage::Request,
        access: ToolAccess::default(),
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: "other".into(),
        class: ToolClass::Other,
        subject: None,
        title: "the agent does not say what it asks for".into(),
        detail: format!("{}\nin {}", truncate_chars(params.get(), MAX_DETAIL_CHARS), cwd.display())
            .into(),
        input,
    }
}
