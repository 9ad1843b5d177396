//! Handles the start and end of a turn, and its plan and diff.

use std::sync::Arc;

use angelia_core::{
    model::{
        EventKind, Failure, FailureKind, Plan, PlanItem, PlanStatus, TokenPrice, TurnStatus, Usage,
    },
    ports::{AgentEvent, AgentOutcome},
};
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::{CodexTranslator, MessageOwner, emit_event, emit_native, turn::CodexTurn};
use crate::{
    codex::{
        failure::{CodexFailureContext, ReportedError},
        protocol::{
            item::ThreadItem,
            notification::{NotificationParams, PlanParams, TurnParams, WireTurn as ToldTurn},
        },
    },
    prompt_prefix::hash_with_model,
};

impl CodexTranslator {
    pub(super) fn on_turn_started(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: Option<TurnParams<'_>> = serde_json::from_str(params.get()).ok();
        let Some((parsed, turn)) =
            parsed.as_ref().and_then(|all| Some((all, all.turn.0.as_ref()?)))
        else {
            return emit_native("turn/started", params, out);
        };
        let whose = self.owner_of_turn(&parsed.thread_id, &turn.id, out);
        let own_thread =
            parsed.thread_id.as_str().is_none_or(|id| id == self.context.thread.as_str());
        if own_thread && let Some(id) = turn.id.as_str() {
            self.active_turn = Some(id.into());
        }
        if whose != MessageOwner::OurTurn {
            emit_native("turn/started", params, out);
        }
    }

    pub(super) fn on_turn_completed(
        &mut self,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let parsed: Option<TurnParams<'_>> = serde_json::from_str(params.get()).ok();
        let with_turn = parsed.as_ref().and_then(|all| Some((all, all.turn.0.as_ref()?)));
        // Without an id, we cannot tell which turn has ended.
        let Some((parsed, turn, id)) =
            with_turn.and_then(|(all, turn)| Some((all, turn, turn.id.as_str()?)))
        else {
            emit_native("turn/completed", params, out);
            return None;
        };
        let whose = self.owner_of_turn(&parsed.thread_id, &turn.id, out);
        if whose != MessageOwner::SubAgent && self.active_turn.as_deref() == Some(id) {
            self.active_turn = None;
        }
        if whose != MessageOwner::OurTurn {
            emit_native("turn/completed", params, out);
            return None;
        }
        self.active_turn = None;
        let ended = self.turn_outcome(turn);
        Some(self.finish_turn(ended, out))
    }

    fn turn_outcome(&self, turn: &ToldTurn<'_>) -> AgentOutcome {
        match turn.status.as_str() {
            Some("completed") => AgentOutcome {
                status: TurnStatus::Completed,
                text: self.final_answer(turn),
                reason: "end_turn".into(),
            },
            Some("interrupted") => AgentOutcome::interrupted("interrupted"),
            Some("failed") => self.failed_outcome(turn),
            // An unknown status with an error counts as failed.
            _ if turn.error.0.is_some() => self.failed_outcome(turn),
            status => {
                let status = status.unwrap_or("something unknown");
                let text = format!("the agent ended the turn as {status}");
                AgentOutcome::failed(Failure::new(FailureKind::Agent, text))
            }
        }
    }

    /// Returns the last message, preceded by the questions that were asked during the turn.
    fn final_answer(&self, turn: &ToldTurn<'_>) -> Option<Arc<str>> {
        let ours = self.turn.as_ref()?;
        let last_message = turn.items.0.iter().flatten().rev().find_map(|raw| {
            let item = ThreadItem::parse(raw);
            let text = item.text.as_str().filter(|text| !text.trim().is_empty())?;
            (item.kind() == "agentMessage").then(|| Arc::from(text))
        });
        let last = last_message.or_else(|| ours.answer.clone());
        if ours.questions.is_empty() {
            return last;
        }
        let questions = ours.questions.iter().filter(|asked| Some(*asked) != last.as_ref());
        let all: Vec<&str> = questions.chain(&last).map(|text| &**text).collect();
        Some(all.join("\n\n").into())
    }

    fn failed_outcome(&self, turn: &ToldTurn<'_>) -> AgentOutcome {
        let reported = match (&turn.error.0, &self.turn) {
            (Some(error), _) => ReportedError::from_turn_error(error),
            (None, Some(ours)) => ours.error.clone().unwrap_or_default(),
            (None, None) => ReportedError::default(),
        };
        let at = (turn.completed_at.get()).and_then(|at| Timestamp::from_second(at).ok());
        reported.to_outcome(&self.failure_context(at))
    }

    pub(super) fn failure_context(&self, at: Option<Timestamp>) -> CodexFailureContext<'_> {
        CodexFailureContext {
            provider: self.context.provider.as_deref(),
            resets_at: self.resets_at,
            turn_ended_at: at,
            zone: &self.context.zone,
        }
    }

    /// Ends a turn that the app-server refused to start.
    pub(super) fn end_refused(&mut self, message: &str, out: &mut Vec<AgentEvent>) -> AgentOutcome {
        let failure = ReportedError::from_message(message).to_failure(&self.failure_context(None));
        self.finish_turn(AgentOutcome::failed(failure), out)
    }

    /// Ends a turn when a message says that it was aborted, because the app-server may never report
    /// its end.
    pub(super) fn end_aborted(&mut self, out: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.turn.as_ref()?;
        Some(self.finish_turn(AgentOutcome::interrupted("aborted by the agent"), out))
    }

    pub(super) fn on_thread_closed(
        &mut self,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let common = NotificationParams::parse(params);
        emit_native("thread/closed", params, out);
        match common.thread_id.as_str() {
            Some(thread) if thread == self.context.thread.as_str() => {
                self.active_turn = None;
                self.end_failed("the agent closed the conversation during a turn", out)
            }
            Some(thread) => {
                self.sub_agents.forget(thread);
                None
            }
            None => None,
        }
    }

    pub(super) fn end_failed(
        &mut self,
        why: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        self.turn.as_ref()?;
        let ended = AgentOutcome::failed(Failure::new(FailureKind::Agent, why));
        Some(self.finish_turn(ended, out))
    }

    /// Closes everything that is open, emits the usage, and forgets the turn.
    fn finish_turn(&mut self, ended: AgentOutcome, out: &mut Vec<AgentEvent>) -> AgentOutcome {
        for key in self.pending.withdraw_all() {
            out.push(AgentEvent::ApprovalWithdrawn(key));
        }
        let Some(mut turn) = self.turn.take() else {
            return ended;
        };
        turn.texts.finish_all(out);
        // A command may outlive a completed turn, but not an interrupted or failed one.
        let (why, ran_on) = match ended.status {
            TurnStatus::Completed => ("no result", true),
            TurnStatus::Interrupted => ("interrupted", false),
            _ => ("no result", false),
        };
        turn.tools.close_all(why, ran_on, out);
        if let Some(diff) = &turn.diff {
            emit_native("turn/diff/updated", diff, out);
        }
        emit_event(EventKind::Usage(self.usage_of(&turn)), out);
        if let Some(id) = turn.id {
            self.past_turns.add(&id);
        }
        ended
    }

    /// Returns the usage of a turn so far, including its cost if the model's price is known.
    pub(super) fn usage_of(&self, turn: &CodexTurn) -> Usage {
        let mut usage = turn.usage.to_usage(self.context.lane.clone(), self.prefix_sha256());
        usage.context = turn.context_window;
        usage.cost_usd = self.price().map(|price| price.cost_usd(&usage));
        usage
    }

    /// Returns the price of the current model, which also applies to the work of sub-agents.
    pub(super) fn price(&self) -> Option<TokenPrice> {
        self.context.prices.price_of(self.model.as_deref()?)
    }

    /// Fails if the model has no price, so that a cost limit cannot be enforced.
    pub(crate) fn ensure_priced(&self) -> Result<(), Failure> {
        self.context.prices.ensure_priced(self.model.as_deref())
    }

    fn prefix_sha256(&self) -> Option<Arc<str>> {
        let launch = self.context.prefix_sha256.as_ref()?;
        Some(hash_with_model(launch, self.model.as_deref()).into())
    }

    pub(super) fn on_plan_updated(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: Option<PlanParams<'_>> = serde_json::from_str(params.get()).ok();
        let ours = parsed
            .filter(|plan| self.owner_of(&plan.thread_id, &plan.turn_id) == MessageOwner::OurTurn);
        let Some(steps) = ours.and_then(|plan| plan.plan.0) else {
            return emit_native("turn/plan/updated", params, out);
        };
        let items = steps.iter().filter_map(|step| {
            let status = match step.status.as_str() {
                Some("completed") => PlanStatus::Completed,
                Some("inProgress") => PlanStatus::InProgress,
                _ => PlanStatus::Pending,
            };
            let text = step.step.as_str()?.into();
            Some(PlanItem { text, status })
        });
        let items = items.collect();
        emit_event(EventKind::Plan(Plan { items }), out);
    }

    pub(super) fn on_diff_updated(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let common = NotificationParams::parse(params);
        let ours = self.owner_of(&common.thread_id, &common.turn_id) == MessageOwner::OurTurn;
        match self.turn.as_mut() {
            Some(turn) if ours => turn.diff = Some(params.to_owned().into()),
            _ => emit_native("turn/diff/updated", params, out),
        }
    }
}
