//! A session as stored.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;

use super::{NativeSessionId, SessionId, SessionSpec, TurnId};

#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub id: SessionId,
    pub title: Option<Arc<str>>,
    /// `None` if the session was created by a version without this field.
    pub source: Option<SessionSource>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The complete launch specification, so that a restart loses no setting.
    pub spec: SessionSpec,
    /// The agent's own session id, once it has one.
    pub native: Option<NativeSessionId>,
    /// The session this one was forked from.
    pub forked_from: Option<SessionId>,
    /// The last turn of `forked_from` that also belongs to this session; `None` if there was no turn.
    pub forked_after: Option<TurnId>,
    /// Incremented with every change and compared by `Store::put_session`.
    pub revision: u64,
}

impl SessionRecord {
    /// Returns whether lists omit the session.
    pub fn is_hidden(&self) -> bool {
        self.source.as_ref().is_some_and(SessionSource::is_hidden)
    }
}

/// A session with the additional fields shown in lists.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    pub record: SessionRecord,
    /// The owner's name for the session.
    pub name: Option<Arc<str>>,
    /// The first words that the person wrote.
    pub first_words: Option<Arc<str>>,
    /// `None` if there is no turn yet.
    pub newest_turn: Option<LatestTurn>,
    pub turns: u64,
    /// Known cost of the finished turns.
    pub cost_usd: Option<f64>,
}

/// The newest turn of a session, as shown in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestTurn {
    pub id: TurnId,
    /// One of the names from [`TurnState::as_str`](super::TurnState::as_str).
    pub status: Arc<str>,
    pub created_at: Timestamp,
}

/// Where a session was started.
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
    /// A message in this chat channel.
    Chat(Arc<str>),
    /// The webhook of this name.
    Hook(Arc<str>),
    /// An editor, over ACP.
    Editor,
    /// A host application, over the bridge.
    Bridge,
    /// An agent that delegated work.
    Agent,
    Schedule,
    /// A review of the session with this id. Lists omit it.
    Review(Arc<str>),
    /// The terminal program of this executor, from which the conversation was adopted.
    Adopted(Arc<str>),
}

impl SessionSource {
    /// Returns whether lists omit sessions from this source.
    pub const fn is_hidden(&self) -> bool {
        matches!(self, Self::Review(_))
    }

    /// Returns whether only the owner speaks in sessions from this source. A delegating agent does not count,
    /// because it may pass on what others have said.
    pub const fn is_owners(&self) -> bool {
        match self {
            Self::Terminal
            | Self::Http
            | Self::Editor
            | Self::Bridge
            | Self::Schedule
            // A session in which others have spoken is reviewed only if their words may be remembered.
            | Self::Review(_)
            | Self::Adopted(_) => true,
            Self::Key(_) | Self::Bus(_) | Self::Chat(_) | Self::Hook(_) | Self::Agent => false,
        }
    }
}

impl fmt::Display for SessionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal"),
            Self::Http => f.write_str("http"),
            Self::Key(name) => write!(f, "key:{name}"),
            Self::Bus(endpoint) => write!(f, "bus:{endpoint}"),
            Self::Chat(channel) => write!(f, "chat:{channel}"),
            Self::Hook(name) => write!(f, "hook:{name}"),
            Self::Editor => f.write_str("editor"),
            Self::Bridge => f.write_str("bridge"),
            Self::Agent => f.write_str("agent"),
            Self::Schedule => f.write_str("schedule"),
            Self::Review(session) => write!(f, "review:{session}"),
            Self::Adopted(executor) => write!(f, "adopted:{executor}"),
        }
    }
}

/// The text names no source that this version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown source of a session")]
pub struct UnknownSource;

impl FromStr for SessionSource {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        match text.split_once(':') {
            Some(("key", name)) => Ok(Self::Key(name.into())),
            Some(("bus", endpoint)) => Ok(Self::Bus(endpoint.into())),
            Some(("chat", channel)) => Ok(Self::Chat(channel.into())),
            Some(("hook", name)) => Ok(Self::Hook(name.into())),
            Some(("review", session)) => Ok(Self::Review(session.into())),
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

/// A name that a client gave to a session: a host's `session_id`, a header, a chat. The scope separates the
/// names of different frontends and API keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalName {
    pub scope: Arc<str>,
    pub name: Arc<str>,
}

impl ExternalName {
    /// The scope of the names that the owner assigns and that lists show.
    pub const OWNER_SCOPE: &str = "run";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_is_written() {
        let named = [
            SessionSource::Key,
            SessionSource::Bus,
            SessionSource::Chat,
            SessionSource::Hook,
            SessionSource::Review,
            SessionSource::Adopted,
        ];
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
