//! The approvals of one turn: checks each request against the permission rules, keeps the requests
//! that people must decide, and closes them.

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::model::{
    Approval, ApprovalId, ApprovalRequest, Decision, EventKind, Notice, NoticeLevel,
    PermissionCheck, Permissions, Resolution, Verdict,
};

/// The approvals of one turn that nobody has decided yet, oldest first.
#[derive(Default)]
pub(super) struct PendingApprovals {
    pending: Vec<PendingApproval>,
}

struct PendingApproval {
    id: ApprovalId,
    request: ApprovalRequest,
    requested_at: Instant,
}

/// Result of [`PendingApprovals::request`].
pub(super) enum ApprovalCheck {
    /// The rules decided at once. The notice, if any, is shown to viewers.
    Decided { decision: Decision, notice: Option<Notice> },
    /// A person has to decide.
    Pending(Approval),
}

/// Everything that decides whether a request needs a person.
pub(super) struct ApprovalRules<'a> {
    pub(super) permissions: &'a Permissions,
    pub(super) cwd: &'a Path,
    pub(super) can_ask: bool,
    /// Expiry of an approval that is requested now.
    pub(super) expires_at: Timestamp,
    pub(super) granted: &'a [(Arc<str>, Option<Arc<str>>)],
}

impl PendingApprovals {
    pub(super) fn request(
        &mut self,
        id: ApprovalId,
        request: ApprovalRequest,
        rules: &ApprovalRules,
    ) -> ApprovalCheck {
        let allow = |by: &str| ApprovalCheck::Decided {
            decision: Decision::new(Verdict::Once, by),
            notice: None,
        };
        match rules.permissions.check(&request, rules.cwd) {
            PermissionCheck::Allow => allow("rule"),
            PermissionCheck::Deny(why) => decline(&request, "rule", &why),
            PermissionCheck::Ask if is_granted(&request, rules.granted) => allow("session"),
            PermissionCheck::Ask if !rules.can_ask => {
                let why = "nobody is there to approve it; allow it with allowed_tools or \
                           permissions in the profile, or run it from a terminal";
                decline(&request, "nobody", why)
            }
            PermissionCheck::Ask => {
                let approval = Approval {
                    id,
                    kind: request.kind.clone(),
                    tool_id: request.tool_id.clone(),
                    tool_name: request.tool_name.clone(),
                    title: request.title.clone(),
                    detail: request.detail.clone(),
                    expires_at: rules.expires_at,
                };
                self.pending.push(PendingApproval { id, request, requested_at: Instant::now() });
                ApprovalCheck::Pending(approval)
            }
        }
    }

    /// Removes a pending approval because it has been decided.
    pub(super) fn take(&mut self, id: ApprovalId) -> Option<ApprovalRequest> {
        let index = self.pending.iter().position(|open| open.id == id)?;
        Some(self.pending.remove(index).request)
    }

    /// Removes the pending approval with the agent's `key` because the agent withdrew the request.
    pub(super) fn withdraw(&mut self, key: &str) -> Option<ApprovalId> {
        let index = self.pending.iter().position(|open| *open.request.key == *key)?;
        Some(self.pending.remove(index).id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Time at which the oldest pending approval was requested.
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

/// Who denied an approval that was still pending when its turn ended.
pub(super) const TURN_ENDED: &str = "turn ended";

pub(super) fn resolution_event(id: ApprovalId, verdict: Verdict, by: &str) -> EventKind {
    EventKind::Resolved(Resolution { id, verdict, by: by.into() })
}

fn is_granted(request: &ApprovalRequest, granted: &[(Arc<str>, Option<Arc<str>>)]) -> bool {
    granted.iter().any(|(tool, subject)| *tool == request.tool_name && *subject == request.subject)
}

fn decline(request: &ApprovalRequest, by: &str, why: &str) -> ApprovalCheck {
    let text = format!("declined: {}: {why}", request.title);
    ApprovalCheck::Decided {
        decision: Decision::new(Verdict::Deny, by).with_note(why),
        notice: Some(Notice::new(NoticeLevel::Warning, "declined", text)),
    }
}
