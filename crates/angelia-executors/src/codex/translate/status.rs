//! Handles retries, limits, usage, warnings and other notifications that accompany the actual work.

use angelia_core::{
    model::{EventKind, NoticeLevel, QuotaReport},
    ports::{Activity, AgentEvent},
};
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::{CodexTranslator, MessageOwner, emit_event, emit_native, emit_notice, silent::IGNORED};
use crate::{
    codex::{
        failure::ReportedError,
        protocol::{
            message::RequestId,
            notification::{
                ErrorParams, McpServerStatusParams, NotificationParams, RateLimitParams,
                RateLimitWindow, ReroutedParams, ThreadParams, UsageParams,
            },
            response::ConfigWarning,
        },
        usage::context_window,
    },
    truncation::truncate_chars,
};

/// How many characters of another program's error text are shown.
const MAX_REASON_CHARS: usize = 500;

/// Names a window by its length, using other vendors' names for the same lengths.
fn window_name(minutes: Option<u64>, place: &str) -> String {
    match minutes {
        Some(300) => "five_hour".to_owned(),
        Some(10_080) => "seven_day".to_owned(),
        Some(minutes) if minutes % 1440 == 0 => format!("{}_day", minutes / 1440),
        Some(minutes) if minutes % 60 == 0 => format!("{}_hour", minutes / 60),
        Some(minutes) => format!("{minutes}_minute"),
        None => place.to_owned(),
    }
}

fn quota_report((place, window): (&str, RateLimitWindow)) -> AgentEvent {
    let used = window.used_percent.get().map(|percent| percent / 100.0);
    AgentEvent::Quota(QuotaReport {
        window: window_name(window.window_duration_mins.get(), place).into(),
        used,
        is_exhausted: used.is_some_and(|used| used >= 1.0),
        resets_at: window.resets_at.get().and_then(|at| Timestamp::from_second(at).ok()),
    })
}

impl CodexTranslator {
    pub(super) fn on_status(&mut self, method: &str, params: &RawValue, out: &mut Vec<AgentEvent>) {
        match method {
            "error" => self.on_error(params, out),
            "thread/tokenUsage/updated" => self.on_token_usage(params, out),
            "account/rateLimits/updated" => self.on_rate_limits(params, out),
            "thread/status/changed" => self.on_thread_status(params, out),
            "thread/settings/updated" => self.on_settings_updated(params),
            "thread/compacted" => self.on_compacted(params, out),
            "mcpServer/startupStatus/updated" => self.on_mcp_server_status(params, out),
            "model/rerouted" => self.on_model_rerouted(params, out),
            "warning" | "guardianWarning" => self.on_warning(method, params, out),
            "configWarning" => match ConfigWarning::of(params) {
                Some(warning) => {
                    let details = warning.details.map(|details| format!(": {details}"));
                    let text = warning.summary + &details.unwrap_or_default();
                    self.notify(NoticeLevel::Warning, "config", text, out);
                }
                None => emit_native(method, params, out),
            },
            _ if IGNORED.contains(&method) => {}
            _ => emit_native(method, params, out),
        }
    }

    /// Handles a failed attempt. While Codex retries, the error is a status and not a failure.
    fn on_error(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: Option<ErrorParams<'_>> = serde_json::from_str(params.get()).ok();
        let with_error = parsed.as_ref().and_then(|all| Some((all, all.error.0.as_ref()?)));
        let Some((parsed, error)) = with_error else {
            return emit_native("error", params, out);
        };
        if self.owner_of(&parsed.thread_id, &parsed.turn_id) != MessageOwner::OurTurn {
            return emit_native("error", params, out);
        }
        let reported = ReportedError::from_turn_error(error);
        let hint = reported.is_unauthorized().then(|| self.failure_context(None).login_hint());
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        if parsed.will_retry.get() != Some(true) {
            turn.error = Some(reported);
            return;
        }
        // The next attempt replaces the text of the broken stream.
        turn.texts.abandon();
        let words = [error.message.as_str(), error.additional_details.as_str()];
        let mut text = words.into_iter().flatten().collect::<Vec<_>>().join(": ");
        if text.is_empty() {
            "the model's API failed; trying again".clone_into(&mut text);
        }
        if let Some(hint) = hint
            && !std::mem::replace(&mut turn.login_hint_given, true)
        {
            text = format!("{text}; {hint}");
        }
        emit_notice(NoticeLevel::Warning, "retrying", text, out);
        turn.set_activity(Activity::Retrying, out);
    }

    fn on_token_usage(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: Option<UsageParams<'_>> = serde_json::from_str(params.get()).ok();
        let with_usage = parsed.as_ref().and_then(|all| Some((all, all.token_usage.0.as_ref()?)));
        let Some((parsed, usage)) = with_usage else {
            return emit_native("thread/tokenUsage/updated", params, out);
        };
        let whose = self.owner_of(&parsed.thread_id, &parsed.turn_id);
        let thread = parsed.thread_id.as_str().unwrap_or_default();
        let ledger = match self.sub_agents.ledger(thread) {
            Some(ledger) => ledger,
            None if whose == MessageOwner::Unknown && thread != self.context.thread.as_str() => {
                return;
            }
            None => &mut self.ledger,
        };
        let spent = ledger.advance(usage);
        if let (MessageOwner::OurTurn | MessageOwner::SubAgent, Some(turn)) =
            (whose, self.turn.as_mut())
        {
            turn.usage.add(spent);
            if whose == MessageOwner::OurTurn {
                turn.context_window = context_window(usage);
            }
            // The engine ends the turn after the response that takes its cost over the limit.
            if self.price().is_some()
                && let Some(turn) = &self.turn
            {
                emit_event(EventKind::Usage(self.usage_of(turn)), out);
            }
        }
    }

    /// Remembers the reset time of an exhausted rate limit, and reports it.
    fn on_rate_limits(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: RateLimitParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let Some(limits) = parsed.rate_limits.0 else {
            return emit_native("account/rateLimits/updated", params, out);
        };
        if limits.plan_type.as_str().is_some() && self.context.lane.is_none() {
            self.context.lane = Some("subscription".into());
        }
        let windows = [limits.primary.get(), limits.secondary.get()];
        let known = || windows.into_iter().flatten();
        let named = ["primary", "secondary"].into_iter().zip(windows);
        let named = named.filter_map(|(place, window)| Some((place, window?)));
        out.extend(named.map(quota_report));
        let resets = |window: RateLimitWindow| Timestamp::from_second(window.resets_at.get()?).ok();
        let full =
            |window: &RateLimitWindow| window.used_percent.get().is_some_and(|used| used >= 100.0);
        let until = known().filter(full).filter_map(resets).max();
        let reached = limits.rate_limit_reached_type.as_str();
        let until = match (until, reached) {
            (None, Some(_)) => known().filter_map(resets).min(),
            (until, _) => until,
        };
        let was = self.resets_at;
        // A message without any window says nothing about the reset time.
        if until.is_some() || known().next().is_some() {
            self.resets_at = until;
        }
        if let Some(until) = until
            && was != Some(until)
        {
            let text = format!("an account limit is used up until {until}");
            self.notify(NoticeLevel::Warning, "rate_limited", text, out);
        }
    }

    fn on_thread_status(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: ThreadParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let Some(status) = parsed.status.0 else {
            return emit_native("thread/status/changed", params, out);
        };
        let ours = parsed.thread_id.as_str() == Some(self.context.thread.as_str());
        // An idle thread is running no turn, even if the end of the last one was never reported.
        if ours && self.turn.is_none() && status.kind.as_str() == Some("idle") {
            self.active_turn = None;
        }
    }

    fn on_settings_updated(&mut self, params: &RawValue) {
        let parsed: ThreadParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let ours = parsed.thread_id.as_str() == Some(self.context.thread.as_str());
        let settings = parsed.thread_settings.0.filter(|_| ours);
        if let Some(model) = settings.as_ref().and_then(|settings| settings.model.as_str()) {
            self.model = Some(model.into());
        }
    }

    fn on_compacted(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let common = NotificationParams::parse(params);
        let ours = self.owner_of(&common.thread_id, &common.turn_id) == MessageOwner::OurTurn;
        if let Some(turn) = self.turn.as_mut().filter(|_| ours)
            && !std::mem::replace(&mut turn.compacted, true)
        {
            turn.resume_activity(out);
            emit_notice(NoticeLevel::Info, "compacted", "the agent has shortened its history", out);
        }
    }

    fn on_mcp_server_status(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: McpServerStatusParams<'_> =
            serde_json::from_str(params.get()).unwrap_or_default();
        if parsed.status.as_str() != Some("failed") {
            return;
        }
        let name = parsed.name.as_str().unwrap_or("unknown");
        let error = parsed.error.as_str().unwrap_or("no reason was given");
        let error = truncate_chars(error, MAX_REASON_CHARS);
        let text = format!("the MCP server `{name}` did not start: {error}");
        self.notify(NoticeLevel::Warning, "mcp_failed", text, out);
    }

    fn on_model_rerouted(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let parsed: ReroutedParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let Some(to) = parsed.to_model.as_str() else {
            return emit_native("model/rerouted", params, out);
        };
        self.model = Some(to.into());
        let from = parsed.from_model.as_str().unwrap_or("the chosen model");
        let reason = parsed.reason.as_str().unwrap_or("no reason was given");
        let text = format!("{to} answers instead of {from}: {reason}");
        self.notify(NoticeLevel::Warning, "model_changed", text, out);
    }

    fn on_warning(&mut self, method: &str, params: &RawValue, out: &mut Vec<AgentEvent>) {
        match NotificationParams::parse(params).message.as_str() {
            Some(text) => self.notify(NoticeLevel::Warning, "warning", text, out),
            None => emit_native(method, params, out),
        }
    }

    /// Withdraws an approval that the app-server no longer waits for.
    pub(super) fn on_request_resolved(&mut self, params: &RawValue, out: &mut Vec<AgentEvent>) {
        let common = NotificationParams::parse(params);
        let Some(id) = common.request_id.and_then(RequestId::of) else {
            return emit_native("serverRequest/resolved", params, out);
        };
        if let Some(key) = self.pending.withdraw(&id) {
            out.push(AgentEvent::ApprovalWithdrawn(key));
        }
    }
}
