//! A run as it is asked for, once the flags of the bridge have filled what the request leaves open.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::request::RunRequest;

/// What the flags of the bridge say.
#[derive(Clone, Debug)]
pub struct Defaults {
    pub profile: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
    /// The directory of new sessions; `None`: the profile's, or where the bridge was started.
    pub cwd: Option<PathBuf>,
    /// Where the bridge was started.
    pub caller_cwd: Option<PathBuf>,
    pub streams: Streams,
    /// How many characters a piece of a finished text has.
    pub chunk: usize,
}

/// The three switches about deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub assistant_delta: Option<bool>,
    pub native_stream: Option<bool>,
    pub native_assistant_delta: Option<bool>,
}

/// How text is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    /// In the agent's own pieces, as they come.
    Native,
    /// Once it is whole, cut into pieces of so many characters.
    Synthetic(usize),
    /// Only as whole messages.
    Off,
}

impl Streams {
    /// What the switches mean together. Native deltas need both switches of theirs; who says
    /// `assistant_delta: false` wants none at all.
    pub fn streaming(self, chunk: usize) -> Streaming {
        let native = self.native_stream == Some(true) && self.native_assistant_delta == Some(true);
        match self.assistant_delta {
            Some(false) => Streaming::Off,
            _ if native => Streaming::Native,
            Some(true) => Streaming::Synthetic(chunk),
            None => Streaming::Off,
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

/// One run.
#[derive(Clone, Debug)]
pub struct Ask {
    pub request: RunRequest,
    pub streaming: Streaming,
    /// For a new session; what the request itself says is in `request`.
    pub profile: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
    pub cwd: Option<PathBuf>,
    pub caller_cwd: Option<PathBuf>,
}

impl Defaults {
    pub(super) fn fill(&self, mut request: RunRequest) -> Ask {
        let own = Streams {
            assistant_delta: request.assistant_delta,
            native_stream: request.native_stream,
            native_assistant_delta: request.native_assistant_delta,
        };
        let base = self.cwd.as_ref().or(self.caller_cwd.as_ref());
        request.cwd = request.cwd.map(|cwd| match base {
            Some(base) => base.join(cwd),
            None => cwd,
        });
        Ask {
            streaming: own.or(self.streams).streaming(self.chunk),
            profile: request.profile.clone().or_else(|| self.profile.clone()),
            model: request.model.clone().or_else(|| self.model.clone()),
            cwd: request.cwd.clone().or_else(|| self.cwd.clone()),
            caller_cwd: self.caller_cwd.clone(),
            request,
        }
    }
}

/// Does a known session have what a run asks for?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    Fits,
    /// The bridge's flags say something else; the session keeps what it has.
    Keeps(String),
    /// The request itself does.
    Differs(String),
}

impl Ask {
    /// Compares with what a session was begun with.
    pub fn fit(&self, profile: &str, model: Option<&str>, cwd: &Path) -> Fit {
        let other_cwd = |wanted: &PathBuf| {
            // Sessions have the directory's canonical name.
            std::fs::canonicalize(wanted).map_or(wanted != cwd, |wanted| wanted != cwd)
        };
        let differs = |wanted: Option<&Arc<str>>, has: &str| wanted.is_some_and(|w| **w != *has);
        let keeps = |what: &str, has: &str| {
            format!("the session was begun with the {what} `{has}` and keeps it")
        };
        let checks = |by_profile, by_model, by_cwd: Option<&PathBuf>| {
            if differs(by_profile, profile) {
                Some(keeps("profile", profile))
            } else if let Some(model) = model.filter(|model| differs(by_model, model)) {
                Some(keeps("model", model))
            } else if by_cwd.is_some_and(other_cwd) {
                Some(keeps("directory", &cwd.display().to_string()))
            } else {
                None
            }
        };
        let request = &self.request;
        let own = checks(request.profile.as_ref(), request.model.as_ref(), request.cwd.as_ref());
        if let Some(difference) = own {
            return Fit::Differs(format!(
                "{difference}; leave the field out, or use another session_id"
            ));
        }
        checks(self.profile.as_ref(), self.model.as_ref(), self.cwd.as_ref())
            .map_or(Fit::Fits, Fit::Keeps)
    }
}
