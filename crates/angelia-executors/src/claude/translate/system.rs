//! `system` and `rate_limit_event` lines: the start of a turn, and notices for people.

use std::fmt::Write as _;

use angelia_core::{
    model::{AgentStart, EventKind, NativeSessionId, NoticeLevel, QuotaReport},
    ports::{Activity, AgentEvent},
};
use jiff::Timestamp;

use super::{StreamSignal, StreamTranslator, TurnOwner, emit_event, emit_native_line, emit_notice};
use crate::claude::protocol::incoming::{
    LineHead, RateLimitInfo, RateLimitLine, SystemLine, TaskLine,
};

impl StreamTranslator {
    pub(super) fn on_system(
        &mut self,
        head: &LineHead<'_>,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let subtype = head.subtype.as_deref().unwrap_or("unknown");
        let name = || super::name("system", Some(subtype));
        match subtype {
            "task_started" | "task_updated" | "task_notification" | "background_tasks_changed" => {
                emit_native_line(&name(), line, out);
                return self.on_task(subtype, line, out);
            }
            "init"
            | "status"
            | "api_retry"
            | "compact_boundary"
            | "model_fallback"
            | "model_refusal_no_fallback"
            | "permission_denied"
            | "informational" => {}
            _ => {
                emit_native_line(&name(), line, out);
                return None;
            }
        }
        let Ok(mut parsed) = serde_json::from_str::<SystemLine<'_>>(line) else {
            emit_native_line(&name(), line, out);
            return None;
        };
        match subtype {
            "init" => self.on_init(&mut parsed, out),
            "status" => self.on_status(&mut parsed, line, out),
            "api_retry" => return self.on_retry(&parsed, out),
            "compact_boundary" => {
                let data = parsed.compact_metadata.0.as_ref();
                let left = data.and_then(|data| data.post_tokens.get());
                self.stream.context_usage.set_compacted(left);
                emit_notice(NoticeLevel::Info, "compacted", compaction_text(&parsed), out);
                self.resume_activity(out);
            }
            "model_refusal_no_fallback" => {
                if let Some(turn) = self.our_turn() {
                    turn.refused = true;
                }
                emit_native_line(&name(), line, out);
            }
            _ => emit_system_notice(subtype, &parsed, out),
        }
        None
    }

    fn on_task(
        &mut self,
        subtype: &str,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let line: TaskLine<'_> = serde_json::from_str(line).ok()?;
        match subtype {
            "task_started" => self.tasks.record_start(&line),
            // Only the `task_notification` that follows shows whether a report is owed.
            "task_updated" => self.tasks.apply_update(&line),
            "task_notification" => {
                self.tasks.record_end(&line, self.turn.as_ref());
                return self.end_if_idle(out);
            }
            _ => {
                self.tasks.apply_list(&line);
                return self.end_if_idle(out);
            }
        }
        None
    }

    /// Handles the start of a CLI turn: ours, the CLI's own, or the report of a background task.
    fn on_init(&mut self, parsed: &mut SystemLine<'_>, out: &mut Vec<AgentEvent>) {
        let session = parsed.session_id.as_str().map(NativeSessionId::new);
        self.native_session = session.or(self.native_session.take());
        self.model = parsed.model.as_str().map(Into::into).or(self.model.take());
        self.lane.set_api_key_source(parsed.api_key_source.as_str());
        self.tasks.record_turn_start();

        let uuids = parsed.take_uuids();
        self.turn_owner = match &mut self.turn {
            None => TurnOwner::Foreign,
            Some(turn) if turn.is_named_in(&uuids) => {
                turn.confirmed = true;
                TurnOwner::Ours
            }
            Some(_) if !uuids.is_empty() => TurnOwner::Foreign,
            // Our message is queued; a line about it would name its uuid.
            Some(turn) if turn.queued && !turn.confirmed => TurnOwner::Foreign,
            Some(_) => TurnOwner::Ours,
        };
        if self.turn_owner == TurnOwner::Ours {
            self.emit_started(out);
        }
    }

    /// Emits `Started`, once per turn.
    pub(super) fn emit_started(&mut self, out: &mut Vec<AgentEvent>) {
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        if std::mem::replace(&mut turn.started, true) {
            return;
        }
        let started = AgentStart {
            profile: self.context.profile.clone(),
            executor: self.context.executor.clone(),
            model: self.model.clone(),
            native_session_id: self.native_session.clone(),
            resumed: self.context.resumed,
            warm: self.context.warm,
        };
        emit_event(EventKind::Started(started), out);
    }

    fn on_status(&mut self, parsed: &mut SystemLine<'_>, line: &str, out: &mut Vec<AgentEvent>) {
        match (parsed.status.as_str(), parsed.compact_result.as_str()) {
            (Some("requesting"), _) => {
                self.tasks.record_request();
                self.confirm_if_named(&parsed.take_uuids(), out);
            }
            (Some("compacting"), _) => {
                emit_notice(NoticeLevel::Info, "compacting", "the agent shortens its history", out);
                if let Some(turn) = self.our_turn() {
                    turn.set_activity(Activity::Compacting, out);
                }
            }
            (None, Some("success")) => self.resume_activity(out),
            (None, Some(_)) => {
                let why = parsed.compact_error.as_str().unwrap_or("no reason given");
                let text = format!("the agent could not shorten its history: {why}");
                emit_notice(NoticeLevel::Warning, "compaction_failed", text, out);
                self.resume_activity(out);
            }
            _ => emit_native_line("system/status", line, out),
        }
    }

    fn resume_activity(&mut self, out: &mut Vec<AgentEvent>) {
        if let Some(turn) = self.our_turn() {
            turn.resume_activity(out);
        }
    }

    fn on_retry(
        &mut self,
        parsed: &SystemLine<'_>,
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let mut text = "the model's API failed".to_owned();
        let reason = [
            parsed.error_status.get().map(|status| status.to_string()),
            parsed.error.as_str().filter(|error| *error != "unknown").map(str::to_owned),
        ];
        let reason: Vec<String> = reason.into_iter().flatten().collect();
        if !reason.is_empty() {
            let _infallible = write!(text, " ({})", reason.join(" "));
        }
        if let (Some(attempt), Some(max)) = (parsed.attempt.get(), parsed.max_retries.get()) {
            let _infallible = write!(text, "; retry {attempt} of {max}");
        }
        if let Some(delay) = parsed.retry_delay_ms.get() {
            let _infallible = write!(text, " in {:.1} s", delay / 1000.0);
        }
        emit_notice(NoticeLevel::Warning, "retrying", text, out);
        let in_vain = self.is_futile_retry(parsed);
        let turn = self.our_turn()?;
        turn.set_activity(Activity::Retrying, out);
        (in_vain && !std::mem::replace(&mut turn.retries_stopped, true))
            .then_some(StreamSignal::FutileRetry)
    }

    /// Reports whether a retry is bound to fail. The first retry may work with a refreshed login or
    /// a newly fetched key. A key that is refused twice stays wrong, but the CLI would retry it for
    /// three minutes.
    fn is_futile_retry(&self, parsed: &SystemLine<'_>) -> bool {
        parsed.error.as_str() == Some("authentication_failed")
            && self.lane.uses_api_key()
            && parsed.attempt.get() >= Some(2)
    }

    pub(super) fn on_rate_limit(&mut self, line: &str, out: &mut Vec<AgentEvent>) {
        self.lane.mark_rate_limited();
        let parsed = serde_json::from_str::<RateLimitLine<'_>>(line).ok();
        let Some(info) = parsed.and_then(|parsed| parsed.rate_limit_info.0) else {
            return emit_native_line("rate_limit_event", line, out);
        };
        let resets_at = info.resets_at.get().and_then(|at| Timestamp::from_second(at).ok());
        out.extend(quota_reports(&info));
        let rejected = match info.status.as_str() {
            Some("rejected") => true,
            Some("allowed_warning") => false,
            _ => {
                self.resets_at = None;
                return emit_native_line("rate_limit_event", line, out);
            }
        };
        let mut text = match info.kind.as_str() {
            Some(kind) => format!("the {} limit ", kind.replace('_', "-")),
            None => "a usage limit ".to_owned(),
        };
        text.push_str(if rejected { "is reached" } else { "is near" });
        if let Some(used) = info.utilization.get() {
            let _infallible = write!(text, " ({:.0} % used)", used * 100.0);
        }
        if let Some(at) = resets_at {
            let _infallible = write!(text, "; it resets at {at}");
        }
        let code = if rejected {
            self.resets_at = resets_at;
            "rate_limited"
        } else {
            "rate_limit_warning"
        };
        emit_notice(NoticeLevel::Warning, code, text, out);
    }
}

/// Returns the line's report on each quota. Older versions report only one.
fn quota_reports(info: &RateLimitInfo<'_>) -> Vec<AgentEvent> {
    let report = |window: &str, used: Option<f64>, resets_at: Option<i64>, status: Option<&str>| {
        AgentEvent::Quota(QuotaReport {
            window: window.into(),
            used,
            is_exhausted: status == Some("rejected"),
            resets_at: resets_at.and_then(|at| Timestamp::from_second(at).ok()),
        })
    };
    match &info.windows.0 {
        Some(windows) if !windows.is_empty() => windows
            .iter()
            .map(|(name, window)| {
                let status = window.status.as_str();
                report(name, window.utilization.get(), window.resets_at.get(), status)
            })
            .collect(),
        _ => {
            let Some(name) = info.kind.as_str() else {
                return Vec::new();
            };
            let status = info.status.as_str();
            vec![report(name, info.utilization.get(), info.resets_at.get(), status)]
        }
    }
}

/// Emits a notice for a line that is only a message to people.
fn emit_system_notice(subtype: &str, parsed: &SystemLine<'_>, out: &mut Vec<AgentEvent>) {
    let said = parsed.content.as_str().or(parsed.message.as_str());
    let said = said.map(str::trim).filter(|text| !text.is_empty());
    let (level, text) = match subtype {
        "model_fallback" => {
            let model = |name: Option<&str>| name.unwrap_or("another model").to_owned();
            let (from, to) = (&parsed.original_model, &parsed.fallback_model);
            let text = format!("{} instead of {}", model(to.as_str()), model(from.as_str()));
            (NoticeLevel::Warning, text)
        }
        "permission_denied" => {
            let tool = parsed.tool_name.as_str().unwrap_or("a tool");
            (NoticeLevel::Warning, format!("{tool} was declined by the agent's own rules"))
        }
        _ => (NoticeLevel::Info, "a message without text".to_owned()),
    };
    let level = match parsed.level.as_str() {
        Some("warning" | "error") => NoticeLevel::Warning,
        _ => level,
    };
    // The message of a refusal is long and meant for the model, not for people.
    let text = match said {
        Some(said) if subtype != "permission_denied" => said.to_owned(),
        _ => text,
    };
    emit_notice(level, subtype, text, out);
}

fn compaction_text(parsed: &SystemLine<'_>) -> String {
    let tokens = parsed.compact_metadata.0.as_ref();
    let tokens = tokens.and_then(|data| Some((data.pre_tokens.get()?, data.post_tokens.get()?)));
    match tokens {
        Some((before, after)) => {
            format!("the agent has shortened its history from {before} to {after} tokens")
        }
        None => "the agent has shortened its history".to_owned(),
    }
}
