//! A `tracing` span for each running turn, for people who collect traces. It contains ids, names
//! and numbers, but no text of the conversation.

use std::time::Duration;

use tracing::{Span, field::Empty};

use crate::model::{Outcome, SessionRecord, TurnId, TurnStatus};

/// The target of the spans. Their level is `trace`, so logs omit them by default.
pub const TURN_SPAN_TARGET: &str = "angelia::turn";

/// The span of one turn, from its start in this process to its end. Usage and model are named
/// according to OpenTelemetry's conventions for generative AI.
pub(super) struct TurnSpan(Span);

impl TurnSpan {
    pub(super) fn begin(turn: TurnId, session: &SessionRecord) -> Self {
        Self(tracing::trace_span!(
            target: TURN_SPAN_TARGET,
            parent: None,
            "turn",
            angelia.session = %session.id,
            angelia.turn = %turn,
            angelia.executor = Empty,
            angelia.outcome = Empty,
            angelia.first_word_seconds = Empty,
            angelia.cost_usd = Empty,
            gen_ai.request.model = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        ))
    }

    /// Ends the span of a finished turn. `first_word` is the time from the submission to the first
    /// text of the answer.
    pub(super) fn end(
        self,
        session: &SessionRecord,
        outcome: &Outcome,
        first_word: Option<Duration>,
    ) {
        let span = self.0;
        if span.is_disabled() {
            return;
        }
        // A fallback may have replaced the agent during the turn.
        span.record("angelia.executor", &*session.spec.executor);
        if let Some(model) = &session.spec.model {
            span.record("gen_ai.request.model", &**model);
        }
        span.record("angelia.outcome", outcome.status.as_str());
        if let Some(taken) = first_word {
            span.record("angelia.first_word_seconds", taken.as_secs_f64());
        }
        let usage = &outcome.usage;
        for (name, tokens) in [
            ("gen_ai.usage.input_tokens", usage.input_tokens),
            ("gen_ai.usage.output_tokens", usage.output_tokens),
            ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
            ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
        ] {
            // OpenTelemetry has no unsigned numbers and would turn them into text.
            span.record(name, i64::try_from(tokens).unwrap_or(i64::MAX));
        }
        if let Some(cost) = usage.cost_usd {
            span.record("angelia.cost_usd", cost);
        }
        if let TurnStatus::Failed(failure) = &outcome.status {
            span.record("error.type", failure.kind.as_str());
            span.record("otel.status_code", "ERROR");
        } else {
            span.record("otel.status_code", "OK");
        }
    }

    /// Ends the span of a turn that waits for a quota and continues in another process.
    pub(super) fn end_parked(self) {
        self.0.record("angelia.outcome", "parked");
    }
}
