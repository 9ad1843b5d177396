//! A session as the store keeps it.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;

use super::{NativeSessionId, SessionId, SessionSpec, TurnId};

#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub id: SessionId,
    pub title: Option<Arc<str>>,
    /// `None`: the session was created by a version without this field.
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

impl SessionRecord {
    /// Whether lists leave the session out.
    pub fn is_hidden(&self) -> bool {
        self.source.as_ref().is_some_and(SessionSource::is_hidden)
    }
}

/// A session with the further fields that lists show.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    pub record: SessionRecord,
    /// The owner's name for it.
    pub name: Option<Arc<str>>,
    /// The first words of the person.
    pub first_words: Option<Arc<str>>,
    /// `None`: there is no turn yet.
    pub newest_turn: Option<LatestTurn>,
    pub turns: u64,
    /// Of its finished turns, as far as their cost is known.
    pub cost_usd: Option<f64>,
}

/// The newest turn of a session, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestTurn {
    pub id: TurnId,
    /// A word of [`TurnState::as_str`](super::TurnState::as_str).
    pub status: Arc<str>,
    pub created_at: Timestamp,
}

/// The frontend through which a session was begun.
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
    /// A message in this channel.
    Chat(Arc<str>),
    /// A webhook of this name.
    Hook(Arc<str>),
    /// An editor, over ACP.
    Editor,
    /// A host application, over the bridge.
    Bridge,
    /// An agent that delegated work.
    Agent,
    Schedule,
    /// A review of the session with this id. Lists do not show it.
    Review(Arc<str>),
    /// The terminal program of this executor, whose conversation was adopted.
    Adopted(Arc<str>),
}

impl SessionSource {
    /// Whether lists leave such a session out.
    pub const fn is_hidden(&self) -> bool {
        matches!(self, Self::Review(_))
    }

    /// Whether only the owner speaks in such a session. An agent that delegates passes on what others
    /// may have said to it.
    pub const fn is_owners(&self) -> bool {
        match self {
            Self::Terminal
            | Self::Http
            | Self::Editor
            | Self::Bridge
            | Self::Schedule
            // A session in which others have spoken is not reviewed, unless that may be remembered.
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

/// A text that names no source known to this version.
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
