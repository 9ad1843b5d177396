//! Handles retries, limits, usage, warnings and other notifications beside the actual work.

use angelia_core::{
    model::Level,
    ports::{Activity, Emitted},
};
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::{Translator, Whose, native, notice, silent::IGNORED};
use crate::{
    codex::{
        failure::Reported,
        protocol::{
            message::RequestId,
            notification::{
                Common, ErrorParams, LimitParams, ReroutedParams, ServerParams, ThreadParams,
                UsageParams, Window,
            },
            opened::ConfigWarning,
        },
        usage::context,
    },
    prose::cut,
};

/// How much of another program's error text is shown, in characters.
const REASON: usize = 500;

impl Translator {
    pub(super) fn status(&mut self, method: &str, params: &RawValue, out: &mut Vec<Emitted>) {
        match method {
            "error" => self.error(params, out),
            "thread/tokenUsage/updated" => self.token_usage(params, out),
            "account/rateLimits/updated" => self.rate_limits(params, out),
            "thread/status/changed" => self.thread_status(params, out),
            "thread/settings/updated" => self.settings(params),
            "thread/compacted" => self.compacted(params, out),
            "mcpServer/startupStatus/updated" => self.mcp_server(params, out),
            "model/rerouted" => self.rerouted(params, out),
            "warning" | "guardianWarning" => self.warning(method, params, out),
            "configWarning" => match ConfigWarning::of(params) {
                Some(warning) => {
                    let details = warning.details.map(|details| format!(": {details}"));
                    let text = warning.summary + &details.unwrap_or_default();
                    self.news(Level::Warning, "config", text, out);
                }
                None => native(method, params, out),
            },
            _ if IGNORED.contains(&method) => {}
            _ => native(method, params, out),
        }
    }

    /// Handles a failed attempt. While Codex retries, the error is a status and not a failure.
    fn error(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: Option<ErrorParams<'_>> = serde_json::from_str(params.get()).ok();
        let told = parsed.as_ref().and_then(|all| Some((all, all.error.0.as_ref()?)));
        let Some((parsed, error)) = told else {
            return native("error", params, out);
        };
        if self.whose(&parsed.thread_id, &parsed.turn_id) != Whose::Ours {
            return native("error", params, out);
        }
        let reported = Reported::of(error);
        let hint = reported.is_unauthorized().then(|| self.around(None).login_hint());
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
            && !std::mem::replace(&mut turn.login_hinted, true)
        {
            text = format!("{text}; {hint}");
        }
        notice(Level::Warning, "retrying", text, out);
        turn.set_activity(Activity::Retrying, out);
    }

    fn token_usage(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: Option<UsageParams<'_>> = serde_json::from_str(params.get()).ok();
        let told = parsed.as_ref().and_then(|all| Some((all, all.token_usage.0.as_ref()?)));
        let Some((parsed, usage)) = told else {
            return native("thread/tokenUsage/updated", params, out);
        };
        let whose = self.whose(&parsed.thread_id, &parsed.turn_id);
        let thread = parsed.thread_id.as_str().unwrap_or_default();
        let ledger = match self.agents.ledger(thread) {
            Some(ledger) => ledger,
            None if whose == Whose::Nobodys && thread != self.context.thread.as_str() => return,
            None => &mut self.ledger,
        };
        let spent = ledger.advance(usage);
        if let (Whose::Ours | Whose::SubAgents, Some(turn)) = (whose, self.turn.as_mut()) {
            turn.usage.add(spent);
            if whose == Whose::Ours {
                turn.filled = context(usage);
            }
        }
    }

    /// Remembers when an exhausted rate limit resets, and reports it.
    fn rate_limits(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: LimitParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let Some(limits) = parsed.rate_limits.0 else {
            return native("account/rateLimits/updated", params, out);
        };
        if limits.plan_type.as_str().is_some() && self.context.lane.is_none() {
            self.context.lane = Some("subscription".into());
        }
        let windows = [limits.primary.get(), limits.secondary.get()];
        let known = || windows.into_iter().flatten();
        let resets = |window: Window| Timestamp::from_second(window.resets_at.get()?).ok();
        let full = |window: &Window| window.used_percent.get().is_some_and(|used| used >= 100.0);
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
            let text = format!("a limit of the account is used up until {until}");
            self.news(Level::Warning, "rate_limited", text, out);
        }
    }

    fn thread_status(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: ThreadParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let Some(status) = parsed.status.0 else {
            return native("thread/status/changed", params, out);
        };
        let ours = parsed.thread_id.as_str() == Some(self.context.thread.as_str());
        // An idle thread runs no turn, even if the end of the last one was never reported.
        if ours && self.turn.is_none() && status.kind.as_str() == Some("idle") {
            self.active = None;
        }
    }

    fn settings(&mut self, params: &RawValue) {
        let parsed: ThreadParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let ours = parsed.thread_id.as_str() == Some(self.context.thread.as_str());
        let settings = parsed.thread_settings.0.filter(|_| ours);
        if let Some(model) = settings.as_ref().and_then(|settings| settings.model.as_str()) {
            self.model = Some(model.into());
        }
    }

    fn compacted(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let common = Common::parse(params);
        let ours = self.whose(&common.thread_id, &common.turn_id) == Whose::Ours;
        if let Some(turn) = self.turn.as_mut().filter(|_| ours)
            && !std::mem::replace(&mut turn.compacted, true)
        {
            turn.back_to_work(out);
            notice(Level::Info, "compacted", "the agent has shortened its history", out);
        }
    }

    fn mcp_server(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: ServerParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        if parsed.status.as_str() != Some("failed") {
            return;
        }
        let name = parsed.name.as_str().unwrap_or("unknown");
        let error = parsed.error.as_str().unwrap_or("no reason was given");
        let error = cut(error, REASON);
        let text = format!("the MCP server `{name}` did not start: {error}");
        self.news(Level::Warning, "mcp_failed", text, out);
    }

    fn rerouted(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let parsed: ReroutedParams<'_> = serde_json::from_str(params.get()).unwrap_or_default();
        let Some(to) = parsed.to_model.as_str() else {
            return native("model/rerouted", params, out);
        };
        self.model = Some(to.into());
        let from = parsed.from_model.as_str().unwrap_or("the chosen model");
        let reason = parsed.reason.as_str().unwrap_or("no reason was given");
        let text = format!("{to} answers instead of {from}: {reason}");
        self.news(Level::Warning, "model_changed", text, out);
    }

    fn warning(&mut self, method: &str, params: &RawValue, out: &mut Vec<Emitted>) {
        match Common::parse(params).message.as_str() {
            Some(text) => self.news(Level::Warning, "warning", text, out),
            None => native(method, params, out),
        }
    }

    /// Withdraws an approval that the app-server no longer waits for.
    pub(super) fn resolved(&mut self, params: &RawValue, out: &mut Vec<Emitted>) {
        let common = Common::parse(params);
        let Some(id) = common.request_id.and_then(RequestId::of) else {
            return native("serverRequest/resolved", params, out);
        };
        if let Some(key) = self.pending.withdraw(&id) {
            out.push(Emitted::Withdraw(key));
        }
    }
}
