//! An agent that acts at random: everything an agent can do, in any order, obedient or not.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, EventKind, Failure, FailureKind, Notice,
        NoticeLevel, RawJson, SessionId, ToolAccess, ToolCall, ToolClass, ToolId, ToolResult,
        TurnId, TurnStatus, Usage,
    },
    ports::{Activity, AgentEvent, AgentOutcome, TurnControl},
};
use angelia_testkit::manual_executor::ManualTurn;

use crate::rng::SeededRng;

/// One running turn of an agent, and the blocks, tools and questions it has opened.
pub(crate) struct RandomAgent {
    pub(crate) turn: TurnId,
    pub(crate) session: SessionId,
    run: Option<ManualTurn>,
    blocks: u32,
    tools: Vec<ToolId>,
    pending_approvals: Vec<Arc<str>>,
    caller_calls: Vec<ToolId>,
    count: u32,
}

/// The result of a random step.
pub(crate) enum StepResult {
    Continued,
    Ended,
    RateLimited,
}

fn raw() -> RawJson {
    serde_json::value::RawValue::from_string("{}".to_owned()).unwrap().into()
}

impl RandomAgent {
    pub(crate) fn new(run: ManualTurn) -> Self {
        Self {
            turn: run.turn.id,
            session: run.turn.session,
            run: Some(run),
            blocks: 0,
            tools: Vec::new(),
            pending_approvals: Vec::new(),
            caller_calls: Vec::new(),
            count: 0,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.run.as_ref().is_none_or(ManualTurn::is_abandoned)
    }

    /// Returns a call of a caller's tool that waits for its result.
    pub(crate) fn waiting_call(&self) -> Option<&ToolId> {
        self.caller_calls.first()
    }

    pub(crate) async fn step(&mut self, dice: &mut SeededRng) -> StepResult {
        self.handle_controls();
        let Some(run) = &self.run else {
            return StepResult::Ended;
        };
        if run.io.cancel.is_cancelled() && !dice.one_in(4) {
            return self.end(interrupted());
        }
        match dice.below(24) {
            0 => run.emit_started().await,
            1..=5 => {
                run.emit_answer(self.blocks, "words").await;
                self.blocks += 1;
            }
            6..=8 => self.call_tool().await,
            9..=11 => self.finish_tool().await,
            12 | 13 => self.ask().await,
            14 => {
                if let Some(key) = self.pending_approvals.pop() {
                    run.emit(vec![AgentEvent::ApprovalWithdrawn(key)]).await;
                }
            }
            15 => {
                let activity = [
                    Activity::WaitingForModel,
                    Activity::Retrying,
                    Activity::Compacting,
                    Activity::Background,
                ];
                let activity = *dice.pick(&activity).unwrap();
                run.emit(vec![AgentEvent::Activity(activity)]).await;
            }
            16 => self.call_caller_tool().await,
            17 => {
                let usage = Usage { cost_usd: Some(0.1), ..Usage::default() };
                run.emit(vec![AgentEvent::Event(EventKind::Usage(usage))]).await;
            }
            18 => {
                let notice = EventKind::Notice(Notice::new(NoticeLevel::Info, "any", "any"));
                run.emit(vec![AgentEvent::Event(notice)]).await;
            }
            19 | 20 => return self.end(completed()),
            21 => return self.fail(dice),
            22 => return self.hit_quota(dice),
            _ => return self.crash(dice),
        }
        StepResult::Continued
    }

    pub(crate) fn complete(&mut self) {
        self.end(completed());
    }

    fn end(&mut self, ended: AgentOutcome) -> StepResult {
        if let Some(run) = self.run.take() {
            run.end(ended);
        }
        StepResult::Ended
    }

    fn fail(&mut self, dice: &mut SeededRng) -> StepResult {
        let kind = *dice.pick(&FailureKind::ALL).unwrap();
        self.end(AgentOutcome::failed(Failure::new(kind, "by chance")))
    }

    fn hit_quota(&mut self, dice: &mut SeededRng) -> StepResult {
        let mut failure = Failure::new(FailureKind::RateLimited, "no quota");
        let hours = u64::try_from(dice.below(20)).unwrap();
        failure.retry_after = Some(Duration::from_mins(1 + 60 * hours));
        self.end(AgentOutcome::failed(failure));
        StepResult::RateLimited
    }

    fn crash(&mut self, dice: &mut SeededRng) -> StepResult {
        if let Some(run) = self.run.take() {
            match dice.below(3) {
                // Rarely, because every panic prints its message.
                0 if dice.one_in(8) => run.panic(),
                1 => drop(run),
                _ => run.retire(completed()),
            }
        }
        StepResult::Ended
    }

    fn fresh(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}-{}", self.count)
    }

    async fn call_tool(&mut self) {
        let id = ToolId::new(self.fresh("tool"));
        self.tools.push(id.clone());
        let call = ToolCall {
            id,
            name: "Bash".into(),
            class: ToolClass::Execute,
            input: raw(),
            title: "ls".into(),
            parent: None,
        };
        self.emit(AgentEvent::Event(EventKind::ToolCall(call))).await;
    }

    async fn finish_tool(&mut self) {
        if let Some(id) = self.tools.pop() {
            let result = ToolResult::new(id, true, "done");
            self.emit(AgentEvent::Event(EventKind::ToolResult(result))).await;
        }
    }

    async fn ask(&mut self) {
        let key: Arc<str> = self.fresh("ask").into();
        self.pending_approvals.push(Arc::clone(&key));
        let request = ApprovalRequest {
            key,
            stage: ApprovalStage::Request,
            access: ToolAccess::default(),
            suggestions: Vec::new(),
            edits: Vec::new(),
            kind: ApprovalKind::Tool,
            tool_id: None,
            tool_name: "Bash".into(),
            class: ToolClass::Execute,
            subject: Some("ls".into()),
            title: "ls".into(),
            detail: "in /project".into(),
            input: raw(),
        };
        self.emit(AgentEvent::ApprovalRequest(request)).await;
    }

    /// Calls one of the caller's tools; the agent waits for its result.
    async fn call_caller_tool(&mut self) {
        self.call_tool().await;
        if let Some(id) = self.tools.pop() {
            self.caller_calls.push(id);
            self.emit(AgentEvent::Activity(Activity::AwaitingToolResult)).await;
        }
    }

    async fn emit(&self, emitted: AgentEvent) {
        if let Some(run) = &self.run {
            run.emit(vec![emitted]).await;
        }
    }

    /// Handles the controls that the engine has sent.
    fn handle_controls(&mut self) {
        let Some(run) = &mut self.run else { return };
        while let Ok(control) = run.io.control.try_recv() {
            match control {
                TurnControl::Decide { key, .. } => {
                    self.pending_approvals.retain(|asked| *asked != key);
                }
                TurnControl::Steer(_) | TurnControl::Proceed { .. } => {}
                TurnControl::ToolResult { id, .. } => {
                    self.caller_calls.retain(|called| *called != id);
                    self.tools.push(id);
                }
            }
        }
    }
}

fn completed() -> AgentOutcome {
    AgentOutcome { status: TurnStatus::Completed, text: None, reason: "end_turn".into() }
}

fn interrupted() -> AgentOutcome {
    AgentOutcome { status: TurnStatus::Interrupted, text: None, reason: "interrupted".into() }
}
