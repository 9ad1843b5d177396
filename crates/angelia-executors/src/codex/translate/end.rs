//! Handles the start and the end of a turn, and its plan and diff.

use std::sync::Arc;

use angelia_core::{
    model::{EventKind, Failure, FailureKind, Plan, PlanItem, PlanStatus, Status, Usage},
    ports::{Emitted, Ended},
};
use jiff::Timestamp;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{Signal, Translator, Whose, event, native};
use crate::codex::{
    failure::{Around, Reported},
    protocol::{
        item::Item,
        notification::{Common, PlanParams, Turn as ToldTurn, TurnParams},
    },
};

impl Translator {
    pub(super) fn turn_started(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: Option<TurnParams<'_>> = serde_json::from_str(params.get()).ok();
        let Some((parsed, turn)) =
            parsed.as_ref().and_then(|all| Some((all, all.turn.0.as_ref()?)))
        else {
            return native("turn/started", params, out);
        };
        let whose = self.whose_turn(&parsed.thread_id, &turn.id, out);
        let own_thread =
            parsed.thread_id.as_str().is_none_or(|id| id == self.context.thread.as_str());
        if own_thread && let Some(id) = turn.id.as_str() {
            self.active = Some(id.into());
        }
        if whose != Whose::Ours {
            native("turn/started", params, out);
        }
    }

    pub(super) fn turn_completed(
        &mut self,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Option<Signal> {
        let parsed: Option<TurnParams<'_>> = serde_json::from_str(params.get()).ok();
        let told = parsed.as_ref().and_then(|all| Some((all, all.turn.0.as_ref()?)));
        // Without an id it is unknown which turn has ended.
        let Some((parsed, turn, id)) =
            told.and_then(|(all, turn)| Some((all, turn, turn.id.as_str()?)))
        else {
            native("turn/completed", params, out);
            return None;
        };
        let whose = self.whose_turn(&parsed.thread_id, &turn.id, out);
        if whose != Whose::SubAgents && self.active.as_deref() == Some(id) {
            self.active = None;
        }
        if whose != Whose::Ours {
            native("turn/completed", params, out);
            return None;
        }
        self.active = None;
        let ended = self.outcome(turn);
        Some(Signal::Ended(self.finish(ended, out)))
    }

    fn outcome(&self, turn: &ToldTurn<'_>) -> Ended {
        match turn.status.as_str() {
            Some("completed") => Ended {
                status: Status::Completed,
                text: self.answer(turn),
                reason: "end_turn".into(),
            },
            Some("interrupted") => interrupted("interrupted"),
            Some("failed") => self.failed(turn),
            // An unknown status with an error counts as failed.
            _ if turn.error.0.is_some() => self.failed(turn),
            status => {
                let status = status.unwrap_or("something unknown");
                let text = format!("the agent ended the turn as {status}");
                Ended::failed(Failure::new(FailureKind::Agent, text))
            }
        }
    }

    /// Returns the last message, preceded by the questions that were asked during the turn.
    fn answer(&self, turn: &ToldTurn<'_>) -> Option<Arc<str>> {
        let ours = self.turn.as_ref()?;
        let told = turn.items.0.iter().flatten().rev().find_map(|raw| {
            let item = Item::parse(raw);
            let text = item.text.as_str().filter(|text| !text.trim().is_empty())?;
            (item.kind() == "agentMessage").then(|| Arc::from(text))
        });
        let last = told.or_else(|| ours.answer.clone());
        if ours.questions.is_empty() {
            return last;
        }
        let questions = ours.questions.iter().filter(|asked| Some(*asked) != last.as_ref());
        let all: Vec<&str> = questions.chain(&last).map(|text| &**text).collect();
        Some(all.join("\n\n").into())
    }

    fn failed(&self, turn: &ToldTurn<'_>) -> Ended {
        let reported = match (&turn.error.0, &self.turn) {
            (Some(error), _) => Reported::of(error),
            (None, Some(ours)) => ours.error.clone().unwrap_or_default(),
            (None, None) => Reported::default(),
        };
        let at = (turn.completed_at.get()).and_then(|at| Timestamp::from_second(at).ok());
        Ended::failed(reported.failure(&self.around(at)))
    }

    pub(super) fn around(&self, at: Option<Timestamp>) -> Around<'_> {
        Around {
            provider: self.context.provider.as_deref(),
            resets_at: self.resets_at,
            at,
            zone: &self.context.zone,
        }
    }

    /// Ends a turn that the app-server refused to start.
    pub(super) fn refused(&mut self, message: &str, out: &mut Vec<Emitted>) -> Ended {
        let failure = Reported::words(message).failure(&self.around(None));
        self.finish(Ended::failed(failure), out)
    }

    /// Ends a turn when a message says that it was aborted; the app-server may never report its
    /// end.
    pub(super) fn aborted(&mut self, out: &mut Vec<Emitted>) -> Option<Signal> {
        self.turn.as_ref()?;
        Some(Signal::Ended(self.finish(interrupted("aborted by the agent"), out)))
    }

    pub(super) fn thread_closed(
        &mut self,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Option<Signal> {
        let common = Common::parse(params);
        native("thread/closed", params, out);
        match common.thread_id.as_str() {
            Some(thread) if thread == self.context.thread.as_str() => {
                self.active = None;
                self.broken_off("the agent closed the conversation within a turn", out)
            }
            Some(thread) => {
                self.agents.forget(thread);
                None
            }
            None => None,
        }
    }

    pub(super) fn broken_off(&mut self, why: &str, out: &mut Vec<Emitted>) -> Option<Signal> {
        self.turn.as_ref()?;
        let ended = Ended::failed(Failure::new(FailureKind::Agent, why));
        Some(Signal::Ended(self.finish(ended, out)))
    }

    /// Closes everything that is open, emits the usage, and forgets the turn.
    fn finish(&mut self, ended: Ended, out: &mut Vec<Emitted>) -> Ended {
        for key in self.pending.withdraw_all() {
            out.push(Emitted::Withdraw(key));
        }
        let Some(mut turn) = self.turn.take() else {
            return ended;
        };
        turn.texts.keep(out);
        // A command may outlive a completed turn, but not an interrupted or a failed one.
        let (why, ran_on) = match ended.status {
            Status::Completed => ("no result", true),
            Status::Interrupted => ("interrupted", false),
            _ => ("no result", false),
        };
        turn.tools.close_all(why, ran_on, out);
        if let Some(diff) = turn.diff {
            native("turn/diff/updated", &diff, out);
        }
        let usage = turn.usage.usage(self.context.lane.clone(), self.prefix_sha256());
        let context = turn.filled;
        event(EventKind::Usage(Usage { context, ..usage }), out);
        if let Some(id) = turn.id {
            self.late.ended(&id);
        }
        ended
    }

    /// Hashes the launch prefix together with the model, so that the hash is the same whether the
    /// profile names the model or Codex chose it.
    fn prefix_sha256(&self) -> Option<Arc<str>> {
        let launch = self.context.prefix_sha256.as_ref()?;
        let mut hash = Sha256::new();
        hash.update(launch.as_bytes());
        hash.update(self.model.as_deref().unwrap_or_default());
        Some(format!("{:x}", hash.finalize()).into())
    }

    pub(super) fn plan(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: Option<PlanParams<'_>> = serde_json::from_str(params.get()).ok();
        let ours = parsed.filter(|plan| self.whose(&plan.thread_id, &plan.turn_id) == Whose::Ours);
        let Some(steps) = ours.and_then(|plan| plan.plan.0) else {
            return native("turn/plan/updated", params, out);
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
        event(EventKind::Plan(Plan { items }), out);
    }

    pub(super) fn diff(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let common = Common::parse(params);
        let ours = self.whose(&common.thread_id, &common.turn_id) == Whose::Ours;
        match self.turn.as_mut() {
            Some(turn) if ours => turn.diff = Some(params.to_owned().into()),
            _ => native("turn/diff/updated", params, out),
        }
    }
}

fn interrupted(reason: &str) -> Ended {
    Ended { status: Status::Interrupted, text: None, reason: reason.into() }
}
