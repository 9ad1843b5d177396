//! The approvals of one turn: checks each request against the permission rules, keeps the requests
//! that people must decide, and closes them.

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::model::{
    Approval, ApprovalId, ApprovalRequest, Decision, EventKind, Level, Notice, Permissions,
    Resolution, RuleAnswer, Verdict,
};

/// The approvals of one turn that nobody has decided yet, oldest first.
#[derive(Default)]
pub(super) struct Approvals {
    open: Vec<Open>,
}

struct Open {
    id: ApprovalId,
    request: ApprovalRequest,
    since: Instant,
}

/// Result of [`PendingApprovals::request`].
pub(super) enum Asked {
    /// The rules decided at once. The notice, if any, is shown to viewers.
    Decided { decision: Decision, notice: Option<Notice> },
    /// A person has to decide.
    Pending(Approval),
}

/// Everything that decides whether a request needs a person.
pub(super) struct Rules<'a> {
    pub(super) permissions: &'a Permissions,
    pub(super) cwd: &'a Path,
    pub(super) can_ask: bool,
    /// Expiry of an approval that is requested now.
    pub(super) expires_at: Timestamp,
    pub(super) granted: &'a [(Arc<str>, Option<Arc<str>>)],
}

impl Approvals {
    pub(super) fn ask(&mut self, id: ApprovalId, request: ApprovalRequest, rules: &Rules) -> Asked {
        let allow =
            |by: &str| Asked::Decided { decision: Decision::new(Verdict::Once, by), notice: None };
        match rules.permissions.answer(&request, rules.cwd) {
            RuleAnswer::Allow => allow("rule"),
            RuleAnswer::Deny(why) => declined(&request, "rule", &why),
            RuleAnswer::Ask if is_granted(&request, rules.granted) => allow("session"),
            RuleAnswer::Ask if !rules.can_ask => {
                let why = "nobody is there to approve it; allow it with allowed_tools or \
                           permissions in the profile, or run it from a terminal";
                declined(&request, "nobody", why)
            }
            RuleAnswer::Ask => {
                let approval = Approval {
                    id,
                    kind: request.kind.clone(),
                    tool_id: request.tool_id.clone(),
                    tool_name: request.tool_name.clone(),
                    title: request.title.clone(),
                    detail: request.detail.clone(),
                    expires_at: rules.expires_at,
                };
                self.open.push(Open { id, request, since: Instant::now() });
                Asked::Pending(approval)
            }
        }
    }

    /// Removes a pending approval because it has been decided.
    pub(super) fn take(&mut self, id: ApprovalId) -> Option<ApprovalRequest> {
        let index = self.open.iter().position(|open| open.id == id)?;
        Some(self.open.remove(index).request)
    }

    /// Removes the pending approval with the agent's `key` because the agent withdrew the request.
    pub(super) fn withdraw(&mut self, key: &str) -> Option<ApprovalId> {
        let index = self.open.iter().position(|open| *open.request.key == *key)?;
        Some(self.open.remove(index).id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Time at which the oldest pending approval was requested.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.open.first().map(|open| open.since)
    }

    /// Returns the approvals that were requested at or before `then`.
    pub(super) fn unanswered_since(&self, then: Instant) -> Vec<ApprovalId> {
        self.open.iter().filter(|open| open.since <= then).map(|open| open.id).collect()
    }

    /// Denies every approval that is still pending when the turn ends.
    pub(super) fn close(&mut self) -> Vec<(ApprovalId, EventKind)> {
        self.open
            .drain(..)
            .map(|open| (open.id, resolved(open.id, Verdict::Deny, "turn ended")))
            .collect()
    }
}

pub(super) fn resolved(id: ApprovalId, verdict: Verdict, by: &str) -> EventKind {
    EventKind::Resolved(Resolution { id, verdict, by: by.into() })
}

fn is_granted(request: &ApprovalRequest, granted: &[(Arc<str>, Option<Arc<str>>)]) -> bool {
    granted.iter().any(|(tool, subject)| *tool == request.tool_name && *subject == request.subject)
}

fn declined(request: &ApprovalRequest, by: &str, why: &str) -> Asked {
    let text = format!("declined: {}: {why}", request.title);
    Asked::Decided {
        decision: Decision::new(Verdict::Deny, by).with_note(why),
        notice: Some(Notice::new(Level::Warning, "declined", text)),
    }
}
