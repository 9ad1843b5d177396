//! Turns the outcome of a turn into the answer to its prompt. Pure.

use agent_client_protocol_schema::v1;
use angelia_core::model::{FailureKind, Outcome, TurnStatus, Usage};
use serde::Serialize;

use super::errors::AcpError;

/// The answer to `session/prompt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptResponse {
    stop_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<v1::Usage>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<ResponseMeta>,
}

/// Returns the tokens of this turn alone. Like existing ACP agents, counts tokens read from a cache
/// separately from the input.
pub(super) fn turn_tokens(usage: &Usage) -> v1::Usage {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } = *usage;
    let all = [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens];
    let total = all.into_iter().fold(0, u64::saturating_add);
    v1::Usage::new(total, input_tokens, output_tokens)
        .cached_read_tokens(cache_read_tokens)
        .cached_write_tokens(cache_write_tokens)
}

#[derive(Debug, Serialize)]
struct ResponseMeta {
    angelia: OutcomeDetails,
}

/// Details that the protocol has no fields for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutcomeDetails {
    status: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

impl PromptResponse {
    /// Returns the answer to a prompt that was cancelled before it had an outcome.
    pub(super) const fn cancelled() -> Self {
        Self { stop_reason: "cancelled", usage: None, meta: None }
    }
}

/// Returns the answer to a prompt, or an error if the turn failed. A cancelled prompt is never an
/// error.
pub(super) fn build_response(
    outcome: &Outcome,
    cancelled: bool,
) -> Result<PromptResponse, AcpError> {
    let stop_reason = match &outcome.status {
        TurnStatus::Completed => match &*outcome.reason {
            "max_tokens" => "max_tokens",
            _ => "end_turn",
        },
        // A budget stopped the agent; its answer so far is usable.
        TurnStatus::Partial => "max_turn_requests",
        TurnStatus::Interrupted => "cancelled",
        TurnStatus::Failed(_) if cancelled => "cancelled",
        TurnStatus::Failed(failure) if failure.kind == FailureKind::Refused => "refusal",
        TurnStatus::Failed(failure) => return Err(AcpError::turn_failed(failure, &outcome.usage)),
        TurnStatus::Parked { .. } => "end_turn",
    };
    Ok(PromptResponse {
        stop_reason,
        usage: Some(turn_tokens(&outcome.usage)),
        meta: Some(ResponseMeta {
            angelia: OutcomeDetails {
                status: outcome.status.as_str(),
                reason: outcome.reason.to_string(),
                cost_usd: outcome.usage.cost_usd,
            },
        }),
    })
}

#[cfg(test)]
mod tests {
    use angelia_core::model::Failure;

    use super::*;

    fn reason(status: TurnStatus, reason: &str, cancelled: bool) -> Result<&'static str, i64> {
        let outcome =
            Outcome { status, text: "".into(), reason: reason.into(), usage: Usage::default() };
        build_response(&outcome, cancelled)
            .map(|answer| answer.stop_reason)
            .map_err(|refusal| refusal.code)
    }

    #[test]
    fn every_end_has_its_reason_or_its_error() {
        let failed = |kind| TurnStatus::Failed(Failure::new(kind, "m"));
        assert_eq!(reason(TurnStatus::Completed, "end_turn", false), Ok("end_turn"));
        assert_eq!(reason(TurnStatus::Completed, "max_tokens", false), Ok("max_tokens"));
        assert_eq!(reason(TurnStatus::Partial, "budget_seconds", false), Ok("max_turn_requests"));
        assert_eq!(reason(TurnStatus::Interrupted, "", false), Ok("cancelled"));
        assert_eq!(reason(failed(FailureKind::Refused), "", false), Ok("refusal"));
        assert_eq!(reason(failed(FailureKind::Auth), "", false), Err(-32000));
        assert_eq!(reason(failed(FailureKind::Invalid), "", false), Err(-32602));
        assert_eq!(reason(failed(FailureKind::Timeout), "", false), Err(-32603));
        assert_eq!(reason(failed(FailureKind::Agent), "", true), Ok("cancelled"));
    }

    #[test]
    fn what_was_used_is_told_however_it_ended() {
        let used = Usage {
            input_tokens: 1,
            output_tokens: 20,
            cache_read_tokens: 300,
            cache_write_tokens: 4000,
            cost_usd: Some(0.5),
            ..Usage::default()
        };
        let tokens = serde_json::json!({"totalTokens": 4321, "inputTokens": 1, "outputTokens": 20,
            "cachedReadTokens": 300, "cachedWriteTokens": 4000});
        let ended = |status, usage: &Usage| {
            let outcome =
                Outcome { status, text: "".into(), reason: "".into(), usage: usage.clone() };
            build_response(&outcome, false)
        };
        let done = serde_json::to_value(ended(TurnStatus::Completed, &used).unwrap()).unwrap();
        assert_eq!(done["usage"], tokens);
        assert_eq!(done["_meta"]["angelia"]["costUsd"], 0.5);

        let failed = |usage| {
            let failure = Failure::new(FailureKind::Agent, "m");
            let refusal = ended(TurnStatus::Failed(failure), usage).unwrap_err();
            serde_json::to_value(refusal.to_error_object().data).unwrap()
        };
        let data = failed(&used);
        assert_eq!((&data["usage"], &data["costUsd"]), (&tokens, &0.5.into()));
        let data = failed(&Usage::default());
        assert!(data.get("usage").is_none(), "{data}");
    }
}
