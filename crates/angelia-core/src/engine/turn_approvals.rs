//! The approvals of a running turn: checks the agent's requests and reports, stores the rules that
//! people grant, and passes decisions to the agent.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout};

use super::{
    approvals::{ApprovalCheck, ApprovalContext, resolution_event},
    facade::EngineError,
    quota::time_after,
    segment_runner::SegmentRun,
    session_actor::SessionActor,
};
use crate::{
    model::{
        ApprovalId, ApprovalRequest, Decision, EventKind, FileEdit, GrantRule, Mode, StoredRule,
        ToolId, TurnState, Verdict,
    },
    permission::{AccessCheck, AccessPlan, Authority},
    ports::TurnControl,
};

/// How long a question waits for its diff.
const MAX_DIFF_TIME: Duration = Duration::from_secs(3);

/// How long an edit that needs no approval waits for its diff. The wait is short, because the diff
/// only reports the change; but it must be made before the edit.
const MAX_UNASKED_DIFF_TIME: Duration = Duration::from_millis(500);

/// The changes that a call makes, as stated by the agent.
struct StatedEdits {
    tool: Option<ToolId>,
    edits: Vec<FileEdit>,
    /// The call's own directory.
    cwd: Option<PathBuf>,
}

impl SessionActor {
    /// Returns the event to record for an approval request, and whether a person must decide it.
    pub(super) async fn request_approval(
        &mut self,
        drive: &mut SegmentRun<'_>,
        mut request: ApprovalRequest,
    ) -> (Option<EventKind>, bool) {
        let id = ApprovalId::from_uuid(self.shared.clock.fresh_uuid());
        let (check, rules) = self.check_access(&request).await;
        let spec = &self.record.spec;
        let context = ApprovalContext {
            check,
            rules,
            level: spec.permissions.level,
            can_ask: drive.turn.options.can_ask,
            expires_at: time_after(self.shared.clock.now(), spec.timeouts.approval),
        };
        let key = Arc::clone(&request.key);
        let call = StatedEdits {
            tool: request.tool_id.clone(),
            edits: std::mem::take(&mut request.edits),
            cwd: request.access.cwd.clone(),
        };
        match drive.approvals.request(id, request, context) {
            ApprovalCheck::Proceed => {
                self.show_unasked(drive, call).await;
                drive.send_control(TurnControl::Proceed { key });
                (None, false)
            }
            ApprovalCheck::Decided { decision, notice } => {
                if decision.verdict.allows() {
                    self.show_unasked(drive, call).await;
                }
                drive.send_control(TurnControl::Decide { key, decision });
                (notice.map(EventKind::Notice), false)
            }
            ApprovalCheck::Pending(mut approval) => {
                if let Some(tool) = &call.tool {
                    drive.unasked_edits.set_asked(tool.clone());
                }
                approval.diff = self.diff_edits(call, MAX_DIFF_TIME).await;
                self.shared.pending_approvals().insert(id, self.record.id);
                (Some(EventKind::Approval(approval)), true)
            }
        }
    }

    /// Creates the diff of a call that needs no approval, and keeps it for the call's result.
    async fn show_unasked(&mut self, drive: &mut SegmentRun<'_>, call: StatedEdits) {
        let Some(tool) = call.tool.clone() else { return };
        let is_shown = !call.edits.is_empty() && self.record.spec.mode == Mode::Agent;
        if !is_shown || !drive.unasked_edits.is_new(&tool) {
            return;
        }
        if drive.unasked_edits.has_room() {
            let diff = self.diff_edits(call, MAX_UNASKED_DIFF_TIME).await;
            drive.unasked_edits.insert(tool, diff);
        } else {
            drive.unasked_edits.leave_out(tool);
        }
    }

    /// Returns a diff of the edits for people to read.
    async fn diff_edits(&mut self, call: StatedEdits, patience: Duration) -> Option<Arc<str>> {
        if call.edits.is_empty() {
            return None;
        }
        let cwd = &self.record.spec.cwd;
        let cwd = call.cwd.map_or_else(|| cwd.clone(), |own| cwd.join(own));
        // A file system that hangs must not block the person or the agent.
        timeout(patience, self.shared.edits.diff(call.edits, cwd)).await.ok().flatten()
    }

    /// Applies the permission rules to a request. Also returns the rules that a person can grant.
    async fn check_access(&mut self, request: &ApprovalRequest) -> (AccessCheck, Vec<GrantRule>) {
        let record = Arc::clone(&self.record);
        let spec = &record.spec;
        let paths = Arc::clone(&self.shared.paths);
        let plan = AccessPlan::new(request, &spec.cwd, paths.places());
        let real = paths.resolve(plan.paths().to_vec()).await;
        let resolved = plan.resolved(real);
        let authority = Authority {
            permissions: &spec.permissions,
            session: self.record.id,
            profile: &spec.profile,
            places: paths.places(),
        };
        let mut check = authority.check(&resolved, &self.session_grants);
        if matches!(check, AccessCheck::Ask { .. }) {
            let stored = self.stored_grants().await;
            if !stored.is_empty() {
                let grants = [&*self.session_grants, &*stored].concat();
                check = authority.check(&resolved, &grants);
            }
        }
        (check, resolved.offered_rules())
    }

    /// Reads the rules that people have granted permanently. They are read each time, because
    /// another process may have removed one; that is rare enough, since it happens only before
    /// asking a person.
    async fn stored_grants(&mut self) -> Vec<GrantRule> {
        let spec = &self.record.spec;
        let (profile, cwd) = (Arc::clone(&spec.profile), spec.cwd.clone());
        match self.shared.store.rules().await {
            Ok(rules) => rules
                .into_iter()
                .filter(|stored| stored.profile == profile && stored.cwd == cwd)
                .map(|stored| stored.rule)
                .collect(),
            Err(error) => {
                tracing::warn!(session = %self.record.id, %error, "stored rules cannot be read");
                Vec::new()
            }
        }
    }

    /// Stores a rule for later sessions of this profile in this directory.
    async fn store_rule(&mut self, rule: GrantRule, by: &Arc<str>) -> Result<(), EngineError> {
        let stored = StoredRule {
            id: self.shared.clock.fresh_uuid(),
            profile: Arc::clone(&self.record.spec.profile),
            cwd: self.record.spec.cwd.clone(),
            rule,
            created_at: self.shared.clock.now(),
            by: Arc::clone(by),
        };
        Ok(self.shared.store.add_rule(&stored).await?)
    }

    pub(super) async fn decide(
        &mut self,
        drive: &mut SegmentRun<'_>,
        id: ApprovalId,
        decision: Decision,
    ) -> Result<(), EngineError> {
        let granted = drive.approvals.granted_rule(id, &decision)?;
        // Store the rule first: a person who chose `always` must not find out later that it was
        // lost.
        if decision.verdict == Verdict::Always
            && let Some(rule) = &granted
        {
            self.store_rule(rule.clone(), &decision.by).await?;
        }
        let request = drive.approvals.take(id, &decision).ok_or(EngineError::NotPending)?;
        self.shared.pending_approvals().remove(&id);
        self.session_grants.extend(granted);
        self.record_events(drive, vec![resolution_event(id, decision.verdict, &decision.by)]).await;
        if let Some(error) = &drive.store_error {
            // The agent is being stopped; it must not act on a decision that is not recorded.
            return Err(error.clone().into());
        }
        // The engine keeps the grant itself, because the agent might remember more than was
        // granted.
        let verdict = if decision.verdict.allows() { Verdict::Once } else { decision.verdict };
        let decision = Decision { verdict, ..decision };
        drive.send_control(TurnControl::Decide { key: request.key, decision });
        drive.update_oldest_approval(Instant::now());
        if drive.approvals.is_empty() {
            self.store_turn_state(drive, &TurnState::Running).await;
        }
        Ok(())
    }

    pub(super) async fn deny_pending_approvals(&mut self, drive: &mut SegmentRun<'_>) {
        let mut kinds = Vec::new();
        for (id, kind) in drive.approvals.deny_all() {
            self.shared.pending_approvals().remove(&id);
            kinds.push(kind);
        }
        self.record_events(drive, kinds).await;
    }
}
