//! A request with everything derived from it before a session is chosen.

use std::sync::Arc;

use angelia_core::{
    model::{Content, LaunchFingerprint, SessionSpec, ToolChoice, TurnOptions, TurnOrigin},
    ports::ExecutorCapabilities,
};
use axum::http::HeaderMap;

use super::{
    InvalidRequest, ModelRequest, RequestConversation, RequestHints, session_spec, target,
};
use crate::http::{
    ApiState, HttpError, Principal, body::compute_for, caller_limits::BodyReservation,
    dialect::answer::AnswerConstraint,
};

#[derive(Debug)]
pub(in crate::http) struct ResolvedRequest {
    pub(in crate::http) state: Arc<ApiState>,
    pub(in crate::http) principal: Principal,
    pub(in crate::http) body: ModelRequest,
    pub(in crate::http) hints: RequestHints,
    pub(in crate::http) conversation: RequestConversation,
    /// The specification for a new session that serves this request.
    pub(in crate::http) spec: SessionSpec,
    pub(in crate::http) capabilities: ExecutorCapabilities,
    pub(in crate::http) constraint: AnswerConstraint,
    pub(in crate::http) options: TurnOptions,
    /// Charges the body to its caller for as long as the request is in memory.
    _reservation: Option<BodyReservation>,
}

impl ResolvedRequest {
    /// Checks a decoded request and resolves the names in it.
    pub(in crate::http) async fn resolve(
        state: Arc<ApiState>,
        principal: Principal,
        headers: &HeaderMap,
        body: ModelRequest,
        mut reservation: Option<BodyReservation>,
    ) -> Result<Self, HttpError> {
        let hints = RequestHints::from_headers(headers)?;
        let target = target::resolve_granted(&state, &principal, &body).await?;
        let caller = Arc::clone(&principal.name);
        let (body, hints, conversation) = compute_for(reservation.as_ref(), move || {
            let conversation = RequestConversation::new(&body, &caller, &hints);
            (body, hints, conversation)
        })
        .await?;
        // The remaining steps take no longer for a large body than for a small one.
        if let Some(reservation) = &mut reservation {
            reservation.end_turn();
        }
        conversation.check()?;
        let (spec, capabilities) = session_spec::session_spec(&state, &body, target).await?;
        target::check_resolved(&spec, &state.models.current(), &principal)?;
        if conversation.has_images() && !capabilities.images {
            let message = format!("`{}` does not accept images", body.model);
            return Err(InvalidRequest::new(message).into());
        }
        let constraint = AnswerConstraint::from_request(&body)?;
        let is_told = session_spec::takes_tool_choice(&spec, capabilities);
        let options = TurnOptions {
            caller: principal.recorded_name(),
            tool_choice: if is_told { body.tool_choice.clone() } else { ToolChoice::Auto },
            ..TurnOptions::new(TurnOrigin::Remote)
        };
        Ok(Self {
            state,
            principal,
            body,
            hints,
            conversation,
            spec,
            capabilities,
            constraint,
            options,
            _reservation: reservation,
        })
    }

    /// Returns whether a session with this specification can serve the request without a new
    /// process.
    pub(in crate::http) fn fits(&self, session: &SessionSpec) -> bool {
        let mut ours = self.spec.clone();
        if ours.model.is_none() {
            // Accept the model that the agent has settled on.
            ours.model.clone_from(&session.model);
        }
        let ours = LaunchFingerprint::of(&ours).without(&["history"]);
        let theirs = LaunchFingerprint::of(session).without(&["history"]);
        let difference = ours.difference(&theirs);
        if let Some(component) = &difference {
            tracing::debug!(component, "the session needs a new process");
        }
        difference.is_none()
    }

    /// Returns the instruction that makes the answer meet the request's constraint. A model that
    /// gets its tool choice through the API needs no such instruction.
    pub(in crate::http) fn instruction(&self) -> Option<Content> {
        let is_told = self.options.tool_choice != ToolChoice::Auto;
        (!is_told).then(|| self.constraint.instruction()).flatten()
    }

    /// Returns whether a turn that waits for tool results can continue with this request. Its model
    /// may call tools, and cannot be told otherwise in the middle of a turn.
    pub(in crate::http) fn goes_on_in_turn(&self, session: &SessionSpec) -> bool {
        self.options.tool_choice != ToolChoice::None
            && self.is_same_agent(session)
            && self.fits(session)
    }

    /// Returns whether the session has the same agent in the same directory, regardless of its
    /// prompt and tools.
    pub(in crate::http) fn is_same_agent(&self, session: &SessionSpec) -> bool {
        self.spec.executor == session.executor
            && self.spec.mode == session.mode
            && self.spec.cwd == session.cwd
    }
}
