//! Channels: where replies go, as `platform[:chat_id]`. Each platform is an adapter behind
//! [`Channel`]; senders ask for its capabilities, never for its name.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use super::BoxFuture;

type SendFuture<'a, T> = BoxFuture<'a, Result<T, SendError>>;

/// An adapter for one platform.
pub trait Channel: Send + Sync + 'static {
    /// The part before the colon.
    fn platform(&self) -> &str;

    fn capabilities(&self) -> ChannelCapabilities;

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage>;

    /// Replaces the text of a sent message; requires [`ChannelCapabilities::edit`].
    fn edit<'a>(
        &'a self,
        _chat: &'a str,
        _sent: &'a SentMessage,
        _text: &'a str,
    ) -> SendFuture<'a, ()> {
        Box::pin(async { Err(SendError::cannot("edit messages")) })
    }

    /// Shows that an answer is being written; requires [`ChannelCapabilities::typing`].
    fn typing<'a>(&'a self, _chat: &'a str) -> SendFuture<'a, ()> {
        Box::pin(async { Err(SendError::cannot("show a typing indicator")) })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCapabilities {
    pub edit: bool,
    pub typing: bool,
    pub buttons: bool,
    /// An address without a chat means the chat that an environment variable names.
    pub home: bool,
}

/// A message to send. Plain text: no terminal control sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The same for every attempt, so that a receiver can recognise a repetition.
    pub id: Arc<str>,
    pub text: Arc<str>,
    /// An earlier attempt may have arrived.
    pub may_repeat: bool,
    pub buttons: Vec<Button>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Button {
    pub label: Arc<str>,
    /// Sent back when the button is pressed.
    pub value: Arc<str>,
}

/// The platform's id of a message, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentMessage {
    pub message_id: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    pub kind: SendErrorKind,
    pub message: String,
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendErrorKind {
    /// The platform will never accept the message.
    Refused,
    /// The message has not arrived; another attempt may succeed.
    NotSent,
    /// The message may have arrived: the connection broke after it was written.
    Unknown,
}

impl SendError {
    pub fn new(kind: SendErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    fn cannot(what: &str) -> Self {
        Self::new(SendErrorKind::Refused, format!("this platform cannot {what}"))
    }
}

/// An address in the form `platform[:chat_id]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelAddress {
    pub platform: Arc<str>,
    /// Everything after the first colon; may contain colons itself.
    pub chat: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("`{0}` is not a channel; write `platform` or `platform:chat_id`")]
    Malformed(String),
    #[error("there is no platform `{name}`{}", list_set_up_platforms(known))]
    UnknownPlatform { name: String, known: Vec<String> },
    #[error("`{0}` needs a chat: write `{0}:chat_id`")]
    NoChat(String),
    #[error("`{platform}` without a chat means your home channel, and {variable} is not set")]
    NoHome { platform: String, variable: String },
}

fn list_set_up_platforms(known: &[String]) -> String {
    match known {
        [] => "; none is set up (docs/bus.md)".to_owned(),
        known => format!("; set up are: {}", known.join(", ")),
    }
}

impl FromStr for ChannelAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (platform, chat) = match text.split_once(':') {
            Some((platform, chat)) => (platform, Some(chat)),
            None => (text, None),
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let bad_chat = chat.is_some_and(|chat| chat.is_empty() || chat.contains(char::is_control));
        if platform.is_empty() || !platform.chars().all(is_word) || bad_chat {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(60).collect();
            return Err(AddressError::Malformed(shown));
        }
        Ok(Self { platform: platform.to_ascii_lowercase().into(), chat: chat.map(Into::into) })
    }
}

impl fmt::Display for ChannelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.platform)?;
        match &self.chat {
            Some(chat) => write!(f, ":{chat}"),
            None => Ok(()),
        }
    }
}

/// The environment variables that name a platform's home channel, in order of precedence.
pub fn home_variables(platform: &str) -> [String; 3] {
    let name = platform.to_ascii_uppercase().replace('-', "_");
    ["HOME_CHANNEL", "ACCOUNT_ID", "HOME_ROOM"].map(|ending| format!("{name}_{ending}"))
}

type EnvLookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The configured adapters, and the environment that names the home channels.
pub struct ChannelRegistry {
    adapters: Vec<Arc<dyn Channel>>,
    env_lookup: EnvLookup,
}

/// An adapter and the chat to send to.
#[derive(Clone)]
pub struct ChannelTarget {
    pub adapter: Arc<dyn Channel>,
    pub chat: Arc<str>,
}

impl ChannelRegistry {
    /// `variable` looks up an environment variable.
    pub fn new(
        adapters: Vec<Arc<dyn Channel>>,
        variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { adapters, env_lookup: Box::new(variable) }
    }

    pub fn empty() -> Self {
        Self::new(Vec::new(), |_| None)
    }

    pub fn resolve(&self, address: &ChannelAddress) -> Result<ChannelTarget, AddressError> {
        let mut adapters = self.adapters.iter();
        let adapter = adapters.find(|one| one.platform() == &*address.platform);
        let Some(adapter) = adapter else {
            let known = self.adapters.iter().map(|one| one.platform().to_owned());
            return Err(AddressError::UnknownPlatform {
                name: address.platform.to_string(),
                known: known.collect(),
            });
        };
        let chat = match &address.chat {
            Some(chat) => Arc::clone(chat),
            None => self.home_chat(adapter.as_ref())?,
        };
        Ok(ChannelTarget { adapter: Arc::clone(adapter), chat })
    }

    fn home_chat(&self, adapter: &dyn Channel) -> Result<Arc<str>, AddressError> {
        let platform = adapter.platform();
        if !adapter.capabilities().home {
            return Err(AddressError::NoChat(platform.to_owned()));
        }
        let variables = home_variables(platform);
        let set = |name: &String| (self.env_lookup)(name).filter(|chat| !chat.is_empty());
        match variables.iter().find_map(set) {
            Some(chat) => Ok(chat.into()),
            None => Err(AddressError::NoHome {
                platform: platform.to_owned(),
                variable: variables[0].clone(),
            }),
        }
    }
}

impl fmt::Debug for ChannelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let platforms = self.adapters.iter().map(|one| one.platform());
        f.debug_list().entries(platforms).finish()
    }
}

impl fmt::Debug for ChannelTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.adapter.platform(), self.chat)
    }
}
