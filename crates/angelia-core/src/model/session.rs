//! A session as the store keeps it.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;

use super::{NativeSessionId, SessionId, SessionSpec, TurnId};

#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub id: SessionId,
    pub title: Option<Arc<str>>,
    /// `None`: the session is older than this field, and nothing tells.
    pub source: Option<SessionSource>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The complete launch specification, so that a restart loses no setting.
    pub spec: SessionSpec,
    /// The agent's own session id, once it has one.
    pub native: Option<NativeSessionId>,
    /// The session this one was forked from.
    pub forked_from: Option<SessionId>,
    /// The last turn of `forked_from` that belongs to this session too; `None` if it had none.
    pub forked_after: Option<TurnId>,
    /// Incremented by every change; `Store::put_session` compares it.
    pub revision: u64,
}

/// A session with what lists show of it besides.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    pub record: SessionRecord,
    /// The owner's name for it.
    pub name: Option<Arc<str>>,
    /// The first words of the person.
    pub first_words: Option<Arc<str>>,
    /// The status of its newest turn; `None`: there is no turn yet.
    pub status: Option<Arc<str>>,
}

/// Where a session was begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionSource {
    /// A command of the owner: `run`, `chat`.
    Terminal,
    /// HTTP with the owner's token.
    Http,
    /// HTTP with the API key of this name.
    Key(Arc<str>),
    /// A message to this endpoint of the bus.
    Bus(Arc<str>),
    /// An editor, over ACP.
    Editor,
    /// A host application, over the bridge.
    Bridge,
    /// An agent that delegated work.
    Agent,
    Schedule,
    /// The terminal program of this executor, from which it was taken up.
    Adopted(Arc<str>),
}

impl fmt::Display for SessionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal"),
            Self::Http => f.write_str("http"),
            Self::Key(name) => write!(f, "key:{name}"),
            Self::Bus(endpoint) => write!(f, "bus:{endpoint}"),
            Self::Editor => f.write_str("editor"),
            Self::Bridge => f.write_str("bridge"),
            Self::Agent => f.write_str("agent"),
            Self::Schedule => f.write_str("schedule"),
            Self::Adopted(executor) => write!(f, "adopted:{executor}"),
        }
    }
}

/// A text that names no source that this version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown source of a session")]
pub struct UnknownSource;

impl FromStr for SessionSource {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        match text.split_once(':') {
            Some(("key", name)) => Ok(Self::Key(name.into())),
            Some(("bus", endpoint)) => Ok(Self::Bus(endpoint.into())),
            Some(("adopted", executor)) => Ok(Self::Adopted(executor.into())),
            Some(_) => Err(UnknownSource),
            None => match text {
                "terminal" => Ok(Self::Terminal),
                "http" => Ok(Self::Http),
                "editor" => Ok(Self::Editor),
                "bridge" => Ok(Self::Bridge),
                "agent" => Ok(Self::Agent),
                "schedule" => Ok(Self::Schedule),
                _ => Err(UnknownSource),
            },
        }
    }
}

/// A name that a client gave to a session: a host's `session_id`, a header, a chat. The scope keeps
/// the names of different frontends and API keys apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalName {
    pub scope: Arc<str>,
    pub name: Arc<str>,
}

impl ExternalName {
    /// The scope of the names that the owner gives, which lists show.
    pub const OWNER_SCOPE: &str = "run";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_is_written() {
        let named = [SessionSource::Key, SessionSource::Bus, SessionSource::Adopted];
        let plain = [
            SessionSource::Terminal,
            SessionSource::Http,
            SessionSource::Editor,
            SessionSource::Bridge,
            SessionSource::Agent,
            SessionSource::Schedule,
        ];
        for source in named.map(|with| with("a:b".into())).into_iter().chain(plain) {
            assert_eq!(source.to_string().parse(), Ok(source));
        }
        assert_eq!("moon".parse::<SessionSource>(), Err(UnknownSource));
        assert_eq!("moon:x".parse::<SessionSource>(), Err(UnknownSource));
    }
}
