//! Addresses of channels: `platform[:chat[#thread]]`.

use std::{fmt, str::FromStr, sync::Arc};

/// An address in the form `platform[:chat[#thread]]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelAddress {
    pub platform: Arc<str>,
    /// Everything after the first colon, including the thread. May itself contain colons.
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
        known => format!("; configured: {}", known.join(", ")),
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

/// Returns the environment variables that name a platform's home channel, in order of precedence.
pub fn home_variables(platform: &str) -> [String; 3] {
    let name = platform.to_ascii_uppercase().replace('-', "_");
    ["HOME_CHANNEL", "ACCOUNT_ID", "HOME_ROOM"].map(|ending| format!("{name}_{ending}"))
}

/// Splits the chat part of an address into the chat itself and its thread.
pub fn split_thread(chat: &str) -> (&str, Option<&str>) {
    match chat.rsplit_once('#') {
        Some((chat, thread)) if !chat.is_empty() && !thread.is_empty() => (chat, Some(thread)),
        _ => (chat, None),
    }
}
