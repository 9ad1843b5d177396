//! Delegates work of one session to agents of other profiles, for executors that offer this
//! themselves.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::BoxFuture;
use crate::model::{Failure, SessionId, SessionSpec, TurnId};

pub trait WorkDelegation: Send + Sync + 'static {
    /// Returns the profiles to which a session with this specification may delegate work.
    fn delegates(&self, spec: &SessionSpec) -> Vec<DelegateProfile>;

    /// Runs a turn with another profile to its end. Cancelling `stop` interrupts it.
    fn hand_on(
        &self,
        from: SessionId,
        work: DelegatedWork,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<DelegateResult, Failure>>;
}

/// A profile to which work can be delegated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegateProfile {
    pub name: Arc<str>,
    /// A few words about the profile.
    pub about: String,
}

/// Work for another profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedWork {
    pub profile: String,
    pub task: String,
    /// The session that continues the work; `None` for a new one.
    pub session: Option<String>,
}

/// The end of a delegated turn.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegateResult {
    pub session: SessionId,
    pub turn: TurnId,
    pub status: &'static str,
    pub text: String,
    /// Why the turn failed; `text` is then a partial answer.
    pub failure: Option<String>,
    /// `None` if the cost is unknown.
    pub cost_usd: Option<f64>,
}
