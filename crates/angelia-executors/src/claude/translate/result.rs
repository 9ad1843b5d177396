//! `result` lines and the end of a turn.
//!
//! Success is decided by `is_error`, never by `subtype`: API and login failures have the subtype
//! `success`.

use std::{borrow::Cow, sync::Arc};

use angelia_core::{
    model::{EventKind, Failure, FailureKind, NoticeLevel, TurnStatus, Usage},
    ports::{Activity, AgentEvent, AgentOutcome},
};

use super::{
    StreamSignal, StreamTranslator, TurnOwner, emit_event, emit_native_line, emit_notice,
    turn::ClaudeTurn,
};
use crate::{
    claude::{
        failure::FailureEvidence,
        protocol::incoming::{MessageUuids, ResultLine},
    },
    prompt_prefix::hash_with_model,
};

/// `origin.kind` of turns that the CLI runs because a background task has ended.
const TASK_NOTIFICATION: &str = "task-notification";

/// The start of an error text that is meant for the CLI's own developers.
const DIAGNOSTIC_PREFIX: &str = "[ede_diagnostic]";

impl StreamTranslator {
    pub(super) fn on_result(
        &mut self,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let Ok(mut result) = serde_json::from_str::<ResultLine<'_>>(line) else {
            emit_native_line("result", line, out);
            return None;
        };
        let spent = self.ledger.record_result(&result);
        // Every result ends the CLI's turn, whether it is ours or not.
        let running = std::mem::replace(&mut self.turn_owner, TurnOwner::Nobody);
        let uuids = result.take_uuids();
        let bound = (self.turn.as_ref())
            .is_some_and(|turn| belongs_to_turn(turn, &result, &uuids, running));
        let Some(turn) = self.turn.as_mut().filter(|_| bound) else {
            self.on_foreign_result(line, out);
            return None;
        };
        turn.record_time(result.timestamp.as_str());
        turn.usage = turn.usage.plus(&spent);
        let windows = result.model_usage.0.as_ref();
        turn.usage.context = windows.and_then(|windows| {
            self.stream.context_usage.context_window(windows, self.model.as_deref())
        });
        turn.record_result(&uuids);
        let awaits_steer = turn.awaits_steer();
        let answer = turn.stored_outcome.take();
        let ended = self.outcome(&result);
        let ended = match answer {
            None => ended,
            Some(answer) => merge_follow_up(answer, ended, out),
        };
        if ended.status == TurnStatus::Completed && (awaits_steer || self.tasks.has_unfinished()) {
            self.continue_in_background(ended, out);
            return None;
        }
        Some(StreamSignal::TurnEnded(self.finish_turn(ended, out)))
    }

    /// Handles the result of another message. Withdraws its blocks if we took them for ours.
    fn on_foreign_result(&mut self, line: &str, out: &mut Vec<AgentEvent>) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.confirmed && !turn.has_answer())
        {
            self.stream.flush_unsettled(&mut Vec::new());
            turn.withdraw_all(out);
        }
        emit_native_line("result", line, out);
    }

    /// Stores the answer, because the turn is not over yet.
    fn continue_in_background(&mut self, ended: AgentOutcome, out: &mut Vec<AgentEvent>) {
        let running = self.tasks.running_ids().count();
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.stored_outcome = Some(ended);
        if turn.awaits_steer() {
            return;
        }
        turn.set_activity(Activity::Background, out);
        let text = match running {
            0 => "a background task has ended and is being reported".to_owned(),
            1 => "1 background task is still running".to_owned(),
            more => format!("{more} background tasks are still running"),
        };
        emit_notice(NoticeLevel::Info, "background", text, out);
    }

    /// Ends the turn if the background work that it waited for is gone without a follow-up turn.
    pub(super) fn end_if_idle(&mut self, out: &mut Vec<AgentEvent>) -> Option<StreamSignal> {
        let waiting = self.in_background() && self.turn_owner == TurnOwner::Nobody;
        (waiting && !self.tasks.has_unfinished())
            .then(|| StreamSignal::TurnEnded(self.end_with_answer(out)))
    }

    pub(super) fn end_with_answer(&mut self, out: &mut Vec<AgentEvent>) -> AgentOutcome {
        let ended = self.turn.as_mut().and_then(|turn| turn.stored_outcome.take());
        let ended = ended.unwrap_or_else(|| {
            let text = "the agent's turn ended before there was an answer";
            AgentOutcome::failed(Failure::new(FailureKind::Agent, text))
        });
        self.finish_turn(ended, out)
    }

    /// Ends a turn during which the output ended.
    pub(super) fn end_at_eof(&mut self, out: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        let turn = self.turn.as_ref()?;
        if turn.has_answer() {
            let text = "the agent exited while background tasks were running";
            emit_notice(NoticeLevel::Warning, "background_failed", text, out);
            return Some(self.end_with_answer(out));
        }
        let text = "the agent exited before it finished the turn";
        let ended = AgentOutcome::failed(Failure::new(FailureKind::Agent, text));
        Some(self.finish_turn(ended, out))
    }

    /// Closes open blocks and tool calls, emits the usage, and drops the turn.
    pub(super) fn finish_turn(
        &mut self,
        ended: AgentOutcome,
        out: &mut Vec<AgentEvent>,
    ) -> AgentOutcome {
        self.stream.flush_unsettled(out);
        let Some(mut turn) = self.turn.take() else {
            return ended;
        };
        let open = match ended.status {
            TurnStatus::Interrupted => "interrupted",
            _ => "no result",
        };
        turn.close_tools(open, out);
        self.emit_usage(turn.usage, out);
        self.last_uuid = Some(turn.uuid);
        ended
    }

    /// Applies a response to our usage request, during a turn or before one.
    pub fn apply_totals(&mut self, answer: &str, out: &mut Vec<AgentEvent>) {
        let Some(spent) = self.ledger.read_totals(answer) else {
            return;
        };
        if let Some(turn) = self.our_turn() {
            let usage = turn.usage.plus(&spent);
            self.emit_usage(usage, out);
        }
    }

    pub(super) fn emit_usage(&self, mut usage: Usage, out: &mut Vec<AgentEvent>) {
        usage.lane = self.lane.name();
        usage.prefix_sha256 = self.prefix_sha256();
        emit_event(EventKind::Usage(usage), out);
    }

    /// Reports whether the totals have a baseline. Without one, they may include earlier processes.
    pub fn has_usage_baseline(&self) -> bool {
        self.ledger.has_baseline()
    }

    fn prefix_sha256(&self) -> Option<Arc<str>> {
        let launch = self.context.prefix_sha256.as_ref()?;
        Some(hash_with_model(launch, self.model.as_deref()).into())
    }

    fn outcome(&self, result: &ResultLine<'_>) -> AgentOutcome {
        let subtype = result.subtype.as_str();
        let terminal = result.terminal_reason.as_str();
        let is_error = result.is_error.get();
        if !is_error.unwrap_or_else(|| subtype.is_some_and(|name| name.starts_with("error"))) {
            return AgentOutcome {
                status: TurnStatus::Completed,
                text: answer_text(result),
                reason: result.stop_reason.as_str().unwrap_or("end_turn").into(),
            };
        }
        let without_failure =
            |status, reason: &str| AgentOutcome { status, text: None, reason: reason.into() };
        match (subtype, terminal) {
            (_, Some("aborted_streaming" | "aborted_tools"))
                if self.turn.as_ref().is_some_and(|turn| turn.retries_stopped) =>
            {
                self.refused_key_outcome()
            }
            (_, Some("aborted_streaming" | "aborted_tools")) => {
                without_failure(TurnStatus::Interrupted, "interrupted")
            }
            (Some("error_max_turns"), _) => without_failure(TurnStatus::Partial, "max_turns"),
            (Some("error_max_budget_usd"), _) => {
                without_failure(TurnStatus::Partial, "max_cost_usd")
            }
            _ => self.failed_outcome(result),
        }
    }

    /// Returns the failure of a turn that we interrupted because its API key was refused.
    fn refused_key_outcome(&self) -> AgentOutcome {
        let evidence = FailureEvidence {
            error: Some("authentication_failed"),
            status: Some(401),
            text: "the model's API refuses the API key (401)".into(),
            uses_api_key: self.lane.uses_api_key(),
            ..FailureEvidence::default()
        };
        AgentOutcome::failed(evidence.to_failure())
    }

    fn failed_outcome(&self, result: &ResultLine<'_>) -> AgentOutcome {
        let turn = self.turn.as_ref();
        let error = turn.and_then(|turn| turn.error.as_ref());
        let errors: Vec<&str> = (result.errors.0.iter().flatten())
            .map(|text| &**text)
            .filter(|text| !text.starts_with(DIAGNOSTIC_PREFIX))
            .collect();
        let words = match result.result.as_str() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(errors.join("; ")),
        };
        if words.starts_with("No conversation found") {
            return no_conversation(&words);
        }
        let api_error = result.api_error.as_str();
        let evidence = FailureEvidence {
            error: error.map(|error| &*error.error),
            status: (result.api_error_status.get())
                .or_else(|| error.and_then(|error| error.status)),
            api_error: api_error.or_else(|| error.and_then(|error| error.code.as_deref())),
            terminal_reason: result.terminal_reason.as_str(),
            subtype: result.subtype.as_str(),
            text: words,
            refused: turn.is_some_and(|turn| turn.refused)
                || result.stop_reason.as_str() == Some("refusal"),
            uses_api_key: self.lane.uses_api_key(),
            resets_at: self.resets_at,
            last_seen_at: turn.and_then(|turn| turn.last_seen_at),
        };
        evidence.to_outcome()
    }
}

/// Reports whether this is the result of our message or of its background work.
fn belongs_to_turn(
    turn: &ClaudeTurn,
    result: &ResultLine<'_>,
    uuids: &MessageUuids<'_>,
    running: TurnOwner,
) -> bool {
    if !uuids.is_empty() {
        return turn.is_named_in(uuids);
    }
    if turn.has_answer() || turn.folded {
        return running != TurnOwner::Foreign;
    }
    let origin = result.origin.0.as_ref().and_then(|origin| origin.kind.as_str());
    running != TurnOwner::Foreign && origin != Some(TASK_NOTIFICATION)
}

fn answer_text(result: &ResultLine<'_>) -> Option<Arc<str>> {
    // If an output schema was requested, the structured output is the answer.
    let structured = result.structured_output.map(|raw| raw.get().trim());
    let text = structured.filter(|raw| *raw != "null").or(result.result.as_str());
    text.filter(|text| !text.is_empty()).map(Into::into)
}

/// Merges the result of a follow-up turn into the answer. It may replace the text or the status.
fn merge_follow_up(
    mut answer: AgentOutcome,
    follow_up: AgentOutcome,
    out: &mut Vec<AgentEvent>,
) -> AgentOutcome {
    match follow_up.status {
        TurnStatus::Completed => answer.text = follow_up.text.or(answer.text),
        TurnStatus::Interrupted => {
            answer.status = TurnStatus::Interrupted;
            answer.reason = follow_up.reason;
        }
        TurnStatus::Failed(failure) => {
            let text = format!("the report of a background task failed: {failure}");
            emit_notice(NoticeLevel::Warning, "background_failed", text, out);
        }
        TurnStatus::Partial | TurnStatus::Parked { .. } => {}
    }
    answer
}

fn no_conversation(words: &str) -> AgentOutcome {
    let failure = Failure::new(FailureKind::Invalid, words)
        .with_hint("the agent's own transcript is gone; start a new session");
    AgentOutcome { reason: "no_conversation".into(), ..AgentOutcome::failed(failure) }
}
