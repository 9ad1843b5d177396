//! Decides which profiles an agent's session may delegate work to.

use std::sync::Arc;

use angelia_core::{
    model::{Failure, SessionId, SessionSpec},
    ports::BoxFuture,
};

/// Decides what a session may delegate. The crate that owns the configuration implements this.
pub trait AgentDelegation: Send + Sync + 'static {
    /// Returns whether `session` is `top` itself, or was started by delegation from it.
    fn is_within(&self, session: SessionId, top: SessionId)
    -> BoxFuture<'_, Result<bool, Failure>>;

    /// Checks that a session may delegate work to another one with this specification.
    fn check_delegation<'a>(
        &'a self,
        from: SessionId,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Returns the limits of a turn that a session delegates now.
    fn turn_limits(&self, from: SessionId) -> BoxFuture<'_, Result<DelegatedTurnLimits, Failure>>;
}

/// The limits of a delegated turn, derived from the delegating turn.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegatedTurnLimits {
    /// The account that pays for the turn.
    pub charged_to: Arc<str>,
    /// Whether a person can answer its approvals.
    pub can_ask: bool,
    pub max_cost_usd: Option<f64>,
}
