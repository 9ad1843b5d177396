//! `result` lines and the end of a turn.
//!
//! Success is decided by `is_error`, never by `subtype`: failures of the API and of the login have
//! the subtype `success`.

use std::{borrow::Cow, sync::Arc};

use angelia_core::{
    model::{EventKind, Failure, FailureKind, Level, Status, Usage},
    ports::{Activity, Emitted, Ended},
};

use sha2::{Digest as _, Sha256};

use super::{Running, Signal, Translator, event, native, notice, turn::Turn};
use crate::claude::{
    failure::Evidence,
    protocol::incoming::{ResultLine, Uuids},
};

/// `origin.kind` of turns the CLI runs because a background task has ended.
const TASK_NOTIFICATION: &str = "task-notification";

/// The start of an error text that is meant for the CLI's own developers.
const DIAGNOSTIC: &str = "[ede_diagnostic]";

impl Translator {
    pub(super) fn result(&mut self, line: &str, out: &mut Vec<Emitted>) -> Option<Signal> {
        let Ok(mut result) = serde_json::from_str::<ResultLine<'_>>(line) else {
            native("result", line, out);
            return None;
        };
        let spent = self.ledger.advance(&result);
        // Every result ends the CLI's turn, whether it is ours or not.
        let running = std::mem::replace(&mut self.running, Running::Nothing);
        let uuids = result.uuids();
        let bound =
            (self.turn.as_ref()).is_some_and(|turn| is_bound(turn, &result, &uuids, running));
        let Some(turn) = self.turn.as_mut().filter(|_| bound) else {
            self.not_ours(line, out);
            return None;
        };
        turn.see_time(result.timestamp.as_str());
        turn.usage = turn.usage.plus(&spent);
        let windows = result.model_usage.0.as_ref();
        turn.usage.context =
            windows.and_then(|windows| self.stream.filling.within(windows, self.model.as_deref()));
        turn.see_result(&uuids);
        let awaits_steer = turn.awaits_steer();
        let answer = turn.answer.take();
        let ended = self.outcome(&result);
        let ended = match answer {
            None => ended,
            Some(answer) => follow_up(answer, ended, out),
        };
        if ended.status == Status::Completed && (awaits_steer || self.tasks.unfinished()) {
            self.go_on(ended, out);
            return None;
        }
        Some(Signal::Ended(self.finish(ended, out)))
    }

    /// Handles the result of another message. If we took its blocks for ours, withdraws them.
    fn not_ours(&mut self, line: &str, out: &mut Vec<Emitted>) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.confirmed && !turn.has_answer())
        {
            self.stream.keep(&mut Vec::new());
            turn.withdraw_all(out);
        }
        native("result", line, out);
    }

    /// Stores the answer, because the turn is not over yet.
    fn go_on(&mut self, ended: Ended, out: &mut Vec<Emitted>) {
        let running = self.tasks.running().count();
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.answer = Some(ended);
        if turn.awaits_steer() {
            return;
        }
        turn.set_activity(Activity::Background, out);
        let text = match running {
            0 => "a background task has ended and is being reported".to_owned(),
            1 => "1 background task is still running".to_owned(),
            more => format!("{more} background tasks are still running"),
        };
        notice(Level::Info, "background", text, out);
    }

    /// Ends the turn if the background work it waited for is gone without a follow-up turn.
    pub(super) fn nothing_left(&mut self, out: &mut Vec<Emitted>) -> Option<Signal> {
        let waiting = self.in_background() && self.running == Running::Nothing;
        (waiting && !self.tasks.unfinished()).then(|| Signal::Ended(self.give_stored(out)))
    }

    pub(super) fn give_stored(&mut self, out: &mut Vec<Emitted>) -> Ended {
        let ended = self.turn.as_mut().and_then(|turn| turn.answer.take());
        let ended = ended.unwrap_or_else(|| {
            let text = "the agent's turn ended before there was an answer";
            Ended::failed(Failure::new(FailureKind::Agent, text))
        });
        self.finish(ended, out)
    }

    /// Ends a turn during which the output ended.
    pub(super) fn broken_off(&mut self, out: &mut Vec<Emitted>) -> Option<Ended> {
        let turn = self.turn.as_ref()?;
        if turn.has_answer() {
            let text = "the agent exited while background tasks were running";
            notice(Level::Warning, "background_failed", text, out);
            return Some(self.give_stored(out));
        }
        let text = "the agent exited before it finished the turn";
        let ended = Ended::failed(Failure::new(FailureKind::Agent, text));
        Some(self.finish(ended, out))
    }

    /// Closes open blocks and tool calls, emits the usage, and drops the turn.
    pub(super) fn finish(&mut self, ended: Ended, out: &mut Vec<Emitted>) -> Ended {
        self.stream.keep(out);
        let Some(mut turn) = self.turn.take() else {
            return ended;
        };
        let open = match ended.status {
            Status::Interrupted => "interrupted",
            _ => "no result",
        };
        turn.close_tools(open, out);
        self.emit_usage(turn.usage, out);
        self.last_uuid = Some(turn.uuid);
        ended
    }

    /// Applies a response to our usage request, during a turn or before one.
    pub fn totals(&mut self, answer: &str, out: &mut Vec<Emitted>) {
        let Some(spent) = self.ledger.look(answer) else {
            return;
        };
        if let Some(turn) = self.ours() {
            let usage = turn.usage.plus(&spent);
            self.emit_usage(usage, out);
        }
    }

    pub(super) fn emit_usage(&self, mut usage: Usage, out: &mut Vec<Emitted>) {
        usage.lane = self.lane.name();
        usage.prefix_sha256 = self.prefix_sha256();
        event(EventKind::Usage(usage), out);
    }

    /// Reports whether the totals have a baseline. Without one they may include earlier processes.
    pub fn knows_totals(&self) -> bool {
        self.ledger.is_grounded()
    }

    /// Returns the hash of the prompt prefix. It uses the actual model, so it is the same whether
    /// the model was configured or chosen by the program.
    fn prefix_sha256(&self) -> Option<Arc<str>> {
        let launch = self.context.prefix_sha256.as_ref()?;
        let mut hash = Sha256::new();
        hash.update(launch.as_bytes());
        hash.update(self.model.as_deref().unwrap_or_default());
        Some(format!("{:x}", hash.finalize()).into())
    }

    fn outcome(&self, result: &ResultLine<'_>) -> Ended {
        let subtype = result.subtype.as_str();
        let terminal = result.terminal_reason.as_str();
        let is_error = result.is_error.get();
        if !is_error.unwrap_or_else(|| subtype.is_some_and(|name| name.starts_with("error"))) {
            return Ended {
                status: Status::Completed,
                text: text(result),
                reason: result.stop_reason.as_str().unwrap_or("end_turn").into(),
            };
        }
        let without_failure =
            |status, reason: &str| Ended { status, text: None, reason: reason.into() };
        match (subtype, terminal) {
            (_, Some("aborted_streaming" | "aborted_tools"))
                if self.turn.as_ref().is_some_and(|turn| turn.in_vain) =>
            {
                self.key_refused()
            }
            (_, Some("aborted_streaming" | "aborted_tools")) => {
                without_failure(Status::Interrupted, "interrupted")
            }
            (Some("error_max_turns"), _) => without_failure(Status::Partial, "max_turns"),
            (Some("error_max_budget_usd"), _) => without_failure(Status::Partial, "max_cost_usd"),
            _ => self.failed(result),
        }
    }

    /// Returns the failure of a turn that we interrupted because its API key is refused.
    fn key_refused(&self) -> Ended {
        let evidence = Evidence {
            error: Some("authentication_failed"),
            status: Some(401),
            text: "the model's API refuses the API key (401)".into(),
            uses_api_key: self.lane.uses_api_key(),
            ..Evidence::default()
        };
        Ended::failed(evidence.failure())
    }

    fn failed(&self, result: &ResultLine<'_>) -> Ended {
        let turn = self.turn.as_ref();
        let error = turn.and_then(|turn| turn.error.as_ref());
        let errors: Vec<&str> = (result.errors.0.iter().flatten())
            .map(|text| &**text)
            .filter(|text| !text.starts_with(DIAGNOSTIC))
            .collect();
        let words = match result.result.as_str() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(errors.join("; ")),
        };
        if words.starts_with("No conversation found") {
            return no_conversation(&words);
        }
        let api_error = result.api_error.as_str();
        let evidence = Evidence {
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
            at: turn.and_then(|turn| turn.at),
        };
        Ended::failed(evidence.failure())
    }
}

/// Reports whether this is the result of our message or of its background work.
fn is_bound(turn: &Turn, result: &ResultLine<'_>, uuids: &Uuids<'_>, running: Running) -> bool {
    if !uuids.is_empty() {
        return turn.is_named_in(uuids);
    }
    if turn.has_answer() || turn.folded {
        return running != Running::Foreign;
    }
    let origin = result.origin.0.as_ref().and_then(|origin| origin.kind.as_str());
    running != Running::Foreign && origin != Some(TASK_NOTIFICATION)
}

fn text(result: &ResultLine<'_>) -> Option<Arc<str>> {
    // If an output schema was requested, the structured output is the answer.
    let structured = result.structured_output.map(|raw| raw.get().trim());
    let text = structured.filter(|raw| *raw != "null").or(result.result.as_str());
    text.filter(|text| !text.is_empty()).map(Into::into)
}

/// Merges the result of a follow-up turn into the answer: it may replace the text or the status.
fn follow_up(mut answer: Ended, follow_up: Ended, out: &mut Vec<Emitted>) -> Ended {
    match follow_up.status {
        Status::Completed => answer.text = follow_up.text.or(answer.text),
        Status::Interrupted => {
            answer.status = Status::Interrupted;
            answer.reason = follow_up.reason;
        }
        Status::Failed(failure) => {
            let text = format!("the report of a background task failed: {failure}");
            notice(Level::Warning, "background_failed", text, out);
        }
        Status::Partial | Status::Parked { .. } => {}
    }
    answer
}

fn no_conversation(words: &str) -> Ended {
    let failure = Failure::new(FailureKind::Invalid, words)
        .with_hint("the agent's own transcript is gone; start a new session");
    Ended { reason: "no_conversation".into(), ..Ended::failed(failure) }
}
