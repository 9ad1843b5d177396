//! The settings of a run: its request, completed with the defaults from the bridge's flags.

use std::{path::PathBuf, sync::Arc};

use super::{BridgeError, BridgeErrorCode, request::RunRequest};
use crate::http::resources::SessionResource;

/// The settings from the bridge's flags.
#[derive(Clone, Debug)]
pub struct RunDefaults {
    pub profile: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
    /// The provider of this bridge's own profile. It precedes the model of a request that names no
    /// other profile.
    pub provider: Option<Arc<str>>,
    /// The directory of new sessions. If `None`, the profile's or else the one that the bridge was
    /// started in.
    pub cwd: Option<PathBuf>,
    /// The directory that the bridge was started in.
    pub caller_cwd: Option<PathBuf>,
    pub delta_flags: DeltaFlags,
    /// The length of a synthetic delta, in characters.
    pub chunk_chars: usize,
}

/// The three switches that select the form of deltas. Requests and flags both have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaFlags {
    pub assistant_delta: Option<bool>,
    pub native_stream: Option<bool>,
    pub native_assistant_delta: Option<bool>,
}

/// How text is sent besides `assistant_message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaMode {
    /// The agent's own deltas, as they come.
    Native,
    /// Deltas of this many characters, cut from the full text once it is known.
    Synthetic(usize),
    /// No deltas.
    Off,
}

impl DeltaFlags {
    /// Combines the switches. Native deltas need both native switches; `assistant_delta: false`
    /// turns off all deltas.
    pub fn delta_mode(self, chunk: usize) -> DeltaMode {
        let native = self.native_stream == Some(true) && self.native_assistant_delta == Some(true);
        match self.assistant_delta {
            Some(false) => DeltaMode::Off,
            _ if native => DeltaMode::Native,
            Some(true) => DeltaMode::Synthetic(chunk),
            None => DeltaMode::Off,
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            assistant_delta: self.assistant_delta.or(other.assistant_delta),
            native_stream: self.native_stream.or(other.native_stream),
            native_assistant_delta: self.native_assistant_delta.or(other.native_assistant_delta),
        }
    }
}

/// A run request with its settings.
#[derive(Clone, Debug)]
pub struct RunSpec {
    pub request: RunRequest,
    pub streaming: DeltaMode,
    /// The profile for a new session. Here and below, the defaults are applied; the request's own
    /// values are in `request`.
    pub profile: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
    pub cwd: Option<PathBuf>,
    pub caller_cwd: Option<PathBuf>,
}

impl RunDefaults {
    pub(super) fn resolve(&self, mut request: RunRequest) -> RunSpec {
        let own = DeltaFlags {
            assistant_delta: request.assistant_delta,
            native_stream: request.native_stream,
            native_assistant_delta: request.native_assistant_delta,
        };
        if request.profile.is_none()
            && let (Some(provider), Some(model)) = (&self.provider, &request.model)
        {
            request.model = Some(format!("{provider}/{model}").into());
        }
        let base = self.cwd.as_ref().or(self.caller_cwd.as_ref());
        request.cwd = request.cwd.map(|cwd| match base {
            Some(base) => base.join(cwd),
            None => cwd,
        });
        RunSpec {
            streaming: own.or(self.delta_flags).delta_mode(self.chunk_chars),
            profile: request.profile.clone().or_else(|| self.profile.clone()),
            model: request.model.clone().or_else(|| self.model.clone()),
            cwd: request.cwd.clone().or_else(|| self.cwd.clone()),
            caller_cwd: self.caller_cwd.clone(),
            request,
        }
    }
}

impl RunSpec {
    /// Compares the run with the settings of its session, which keeps those that it was created
    /// with. The request itself must not ask for others. The bridge's flags may, in which case the
    /// host gets the returned notice.
    pub(super) fn check_settings(
        &self,
        session: &SessionResource,
    ) -> Result<Option<String>, BridgeError> {
        let other_cwd = |wanted: &PathBuf| {
            // A session stores the canonical path of its directory.
            std::fs::canonicalize(wanted).as_ref().unwrap_or(wanted) != &session.cwd
        };
        let differs = |wanted: Option<&Arc<str>>, has: &str| wanted.is_some_and(|w| **w != *has);
        let keeps = |what: &str, has: &str| {
            format!("the session was created with the {what} `{has}` and keeps it")
        };
        let difference = |profile, model, cwd: Option<&PathBuf>| {
            let own_model = session.model.as_deref();
            if differs(profile, &session.profile) {
                Some(keeps("profile", &session.profile))
            } else if let Some(own) = own_model.filter(|own| differs(model, own)) {
                Some(keeps("model", own))
            } else if cwd.is_some_and(other_cwd) {
                Some(keeps("directory", &session.cwd.display().to_string()))
            } else {
                None
            }
        };
        let request = &self.request;
        match difference(request.profile.as_ref(), request.model.as_ref(), request.cwd.as_ref()) {
            Some(own) => Err(BridgeError::new(
                BridgeErrorCode::SessionDiffers,
                format!("{own}; leave the field out, or use another session_id"),
            )),
            None => Ok(difference(self.profile.as_ref(), self.model.as_ref(), self.cwd.as_ref())),
        }
    }
}
