//! Begins a run: finds or creates its session, and submits its turn.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Content, SessionSource, TurnOrigin};
use sha2::{Digest as _, Sha256};

use super::{BridgeError, RunInfo, RunSpec, SESSION_NAME_PREFIX};
use crate::{
    http::{NewSessionBody, TurnBody, TurnInput},
    turn_service::{AcceptedTurn, TurnService, TurnSubmission},
};

/// An accepted run.
pub(super) struct BegunRun {
    pub(super) turn: AcceptedTurn,
    pub(super) about: RunInfo,
    /// A notice about a setting that the session keeps although the bridge's flags ask for another
    /// one.
    pub(super) settings_notice: Option<String>,
}

pub(super) async fn begin(turns: &dyn TurnService, run: &RunSpec) -> Result<BegunRun, BridgeError> {
    let name = format!("{SESSION_NAME_PREFIX}{}", run.request.session_id);
    let (session, settings_notice) = match turns.find_session(&name).await? {
        Some(session) => {
            let notice = run.check_settings(&session)?;
            (session, notice)
        }
        None => (turns.create_session(new_session(run, name), false).await?, None),
    };
    let body = TurnBody {
        input: TurnInput(vec![Content::Text(Arc::clone(&run.request.message))]),
        can_ask: Some(true),
        can_park: Some(false),
        ..TurnBody::default()
    };
    let submission = TurnSubmission {
        session: session.id,
        body,
        // A host forwards other people's text, so nothing in it may act as a command.
        origin: TurnOrigin::Remote,
        key: run.request.idempotency_key.as_deref().map(stored_key),
        hold: true,
    };
    let turn = turns.submit(submission).await?;
    let about = RunInfo {
        turn_id: turn.turn.to_string(),
        angelia_session_id: session.id.to_string(),
        profile: session.profile,
        executor: session.executor,
        model: session.model,
        cwd: session.cwd.into(),
        repeats: turn.is_repeat,
    };
    Ok(BegunRun { turn, about, settings_notice })
}

fn new_session(run: &RunSpec, name: String) -> NewSessionBody {
    NewSessionBody {
        profile: run.profile.clone(),
        cwd: run.cwd.clone(),
        caller_cwd: run.caller_cwd.clone(),
        model: run.model.clone(),
        title: None,
        name: Some(name),
        source: Some(SessionSource::Bridge.to_string()),
    }
}

/// Returns the stored form of a host's idempotency key: a hash, so that any text works, with a
/// prefix that separates it from the keys of other frontends.
fn stored_key(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().fold(SESSION_NAME_PREFIX.to_owned(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(out, "{byte:02x}");
        out
    })
}
