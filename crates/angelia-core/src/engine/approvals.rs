//! The pending approvals of one turn. Checks each request against the rules, keeps the requests
//! that wait for a person, and denies those that are still pending when the turn ends.

use jiff::Timestamp;
use tokio::time::Instant;

use super::facade::EngineError;
use crate::{
    model::{
        Approval, ApprovalId, ApprovalRequest, ApprovalStage, Decision, EventKind, GrantRule,
        Notice, NoticeLevel, PermissionLevel, Resolution, ToolAccess, ToolId, Verdict,
    },
    permission::{AccessCheck, ProtectedTouch},
};

/// The undecided approvals of one turn, oldest first.
#[derive(Default)]
pub(super) struct PendingApprovals {
    pending: Vec<PendingApproval>,
    /// Reported calls that a person allowed. The agent may still request permission for them later.
    allowed_reports: Vec<(ToolId, ToolAccess)>,
}

struct PendingApproval {
    id: ApprovalId,
    request: ApprovalRequest,
    /// The rules that the person can grant with the decision.
    rules: Vec<GrantRule>,
    requested_at: Instant,
}

/// Result of [`PendingApprovals::request`].
pub(super) enum ApprovalCheck {
    /// The rules decided at once. The notice, if any, is shown to viewers.
    Decided { decision: Decision, notice: Option<Notice> },
    /// The agent only reported the call, and its own rules decide.
    Proceed,
    /// A person has to decide.
    Pending(Approval),
}

/// The verdict of the rules on a request, and whether a person can be asked.
pub(super) struct ApprovalContext {
    pub(super) check: AccessCheck,
    /// The rules that a person can grant with the decision.
    pub(super) rules: Vec<GrantRule>,
    pub(super) level: PermissionLevel,
    pub(super) can_ask: bool,
    /// When an approval requested now expires.
    pub(super) expires_at: Timestamp,
}

impl PendingApprovals {
    pub(super) fn request(
        &mut self,
        id: ApprovalId,
        request: ApprovalRequest,
        context: ApprovalContext,
    ) -> ApprovalCheck {
        let allow = |by: &str| ApprovalCheck::Decided {
            decision: Decision::new(Verdict::Once, by),
            notice: None,
        };
        let protected = match context.check {
            AccessCheck::Proceed => return ApprovalCheck::Proceed,
            AccessCheck::Allow => return allow("rule"),
            AccessCheck::Deny(why) => return decline(&request, "rule", &why),
            AccessCheck::Ask { protected } => protected,
        };
        if self.was_allowed(&request) {
            return allow("owner");
        }
        if !context.can_ask || context.level == PermissionLevel::Unattended {
            let why = match (&protected, &request.access.must_ask) {
                (Some(touch), _) => protected_reason(touch),
                (None, Some(reason)) => format!("a person must approve it: {reason}"),
                (None, None) => "nobody is there to approve it; allow it with allowed_tools or \
                         permissions in the profile, or run it from a terminal"
                    .to_owned(),
            };
            return decline(&request, "nobody", &why);
        }
        let approval = Approval {
            id,
            kind: request.kind.clone(),
            tool_id: request.tool_id.clone(),
            tool_name: request.tool_name.clone(),
            title: request.title.clone(),
            detail: match &protected {
                Some(touch) => {
                    format!("{}\nprotected: {}", request.detail, touch.path.display()).into()
                }
                None => request.detail.clone(),
            },
            diff: None,
            rules: context.rules.iter().map(|rule| rule.to_string().into()).collect(),
            expires_at: context.expires_at,
        };
        let requested_at = Instant::now();
        self.pending.push(PendingApproval { id, request, rules: context.rules, requested_at });
        ApprovalCheck::Pending(approval)
    }

    /// Returns whether a person already allowed this call when the agent reported it.
    fn was_allowed(&self, request: &ApprovalRequest) -> bool {
        request.tool_id.as_ref().is_some_and(|tool| {
            let mut allowed = self.allowed_reports.iter();
            allowed.any(|(id, access)| id == tool && is_same_call(access, &request.access))
        })
    }

    /// Returns the rule that the decision grants, if any.
    pub(super) fn granted_rule(
        &self,
        id: ApprovalId,
        decision: &Decision,
    ) -> Result<Option<GrantRule>, EngineError> {
        if !matches!(decision.verdict, Verdict::Session | Verdict::Always) {
            return Ok(None);
        }
        let open = self.pending.iter().find(|open| open.id == id);
        let rules = &open.ok_or(EngineError::NotPending)?.rules;
        let Some(chosen) = &decision.rule else {
            return Ok(rules.first().cloned());
        };
        let rule = rules.iter().find(|rule| *rule.to_string() == **chosen);
        rule.cloned().map(Some).ok_or_else(|| EngineError::NotOffered(chosen.to_string()))
    }

    /// Removes a pending approval because it has been decided.
    pub(super) fn take(&mut self, id: ApprovalId, decision: &Decision) -> Option<ApprovalRequest> {
        let index = self.pending.iter().position(|open| open.id == id)?;
        let request = self.pending.remove(index).request;
        if request.stage == ApprovalStage::Report && decision.verdict.allows() {
            let call = request.tool_id.clone().map(|tool| (tool, request.access.clone()));
            self.allowed_reports.extend(call);
        }
        Some(request)
    }

    /// Removes the pending approval with the agent's `key` because the agent withdrew the request.
    pub(super) fn withdraw(&mut self, key: &str) -> Option<ApprovalId> {
        let index = self.pending.iter().position(|open| *open.request.key == *key)?;
        Some(self.pending.remove(index).id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns when the oldest pending approval was requested.
    pub(super) fn oldest_requested_at(&self) -> Option<Instant> {
        self.pending.first().map(|open| open.requested_at)
    }

    /// Returns the approvals that were requested at or before `then`.
    pub(super) fn requested_by(&self, then: Instant) -> Vec<ApprovalId> {
        self.pending.iter().filter(|open| open.requested_at <= then).map(|open| open.id).collect()
    }

    /// Denies every approval that is still pending when the turn ends.
    pub(super) fn deny_all(&mut self) -> Vec<(ApprovalId, EventKind)> {
        self.pending
            .drain(..)
            .map(|open| (open.id, resolution_event(open.id, Verdict::Deny, TURN_ENDED)))
            .collect()
    }
}

/// The decider of an approval that was still pending when its turn ended.
pub(super) const TURN_ENDED: &str = "turn ended";

pub(super) fn resolution_event(id: ApprovalId, verdict: Verdict, by: &str) -> EventKind {
    EventKind::Resolved(Resolution { id, verdict, by: by.into() })
}

/// Returns whether both requests are about the same call. Ignores the agent's objection, which may
/// arrive only with the second request.
fn is_same_call(one: &ToolAccess, other: &ToolAccess) -> bool {
    let without_objection =
        |access: &ToolAccess| ToolAccess { vendor_objection: None, ..access.clone() };
    without_objection(one) == without_objection(other)
}

fn protected_reason(touch: &ProtectedTouch) -> String {
    let path = touch.path.display();
    let tool = if touch.is_read { "Read" } else { "Edit" };
    format!(
        "{path} is protected and nobody is there to approve it; name the path in allowed_tools, for \
         example `{tool}({path})`"
    )
}

fn decline(request: &ApprovalRequest, by: &str, why: &str) -> ApprovalCheck {
    let text = format!("declined: {}: {why}", request.title);
    ApprovalCheck::Decided {
        decision: Decision::new(Verdict::Deny, by).with_note(why),
        notice: Some(Notice::new(NoticeLevel::Warning, "declined", text)),
    }
}
