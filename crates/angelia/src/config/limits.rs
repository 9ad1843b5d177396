//! Converts a profile's clocks and budgets to the engine's types.

use angelia_core::model::{Budgets, TurnTimeouts};

use super::types::{Limit, Profile};

pub(crate) fn clocks(profile: &Profile) -> TurnTimeouts {
    TurnTimeouts {
        timeout: profile.timeout.duration(),
        first_event: profile.first_event_timeout.duration(),
        silence: profile.inter_event_silence_timeout.duration(),
        post_tool_quiet: profile.post_tool_quiet_timeout.duration(),
        tool: profile.tool_timeout.duration(),
        retry: profile.retry_timeout.duration(),
        compaction: profile.compaction_timeout.duration(),
        background: profile.background_grace.duration(),
        approval: profile.approval_timeout.duration(),
        caller_tool: profile.caller_tool_timeout.duration(),
    }
}

pub(crate) fn budgets(profile: &Profile) -> Budgets {
    let resumes =
        if profile.auto_resume_budget_guard { profile.auto_resume_max_resumes.0 } else { 0 };
    Budgets {
        time: profile.budget_seconds.map(Limit::duration),
        tools: profile.budget_tool_count.map(|count| count.0),
        cost_usd: profile.max_cost_usd.map(|limit| limit.0),
        resumes,
    }
}
