//! Hands work of one session to agents of other profiles, for executors that offer this themselves.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::BoxFuture;
use crate::model::{Failure, SessionId, SessionSpec, TurnId};

pub trait WorkDelegation: Send + Sync + 'static {
    /// Returns the profiles that a session with this specification may hand work to.
    fn delegates(&self, spec: &SessionSpec) -> Vec<DelegateProfile>;

    /// Runs a turn of another profile to its end. Cancelling `stop` interrupts it.
    fn hand_on(
        &self,
        from: SessionId,
        work: DelegatedWork,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<DelegateResult, Failure>>;
}

/// A profile that work can be handed to.
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
    /// The session that goes on with it; `None`: a new one.
    pub session: Option<String>,
}

/// The end of a delegated turn.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegateResult {
    pub session: SessionId,
    pub turn: TurnId,
    pub status: &'static str,
    pub text: String,
    /// The reason why the turn failed; `text` is then a partial answer.
    pub failure: Option<String>,
    /// `None`: nobody knows.
    pub cost_usd: Option<f64>,
}
