//! Channels: where people talk to agents, as `platform[:chat[#thread]]`. Each platform is an adapter behind
//! [`Channel`]. Code that uses an adapter checks its capabilities, never its name.
//!
//! - [`ChannelAddress`]: names a chat; [`ChannelRegistry`]: the configured adapters.
//! - [`OutgoingMessage`]: a message with its [`RichText`]; [`SendError`]: whether it may have arrived.
//! - [`InboundEvent`]: a message or a press; an [`EventInbox`] stores it before it is acknowledged.

mod address;
mod inbound;
mod outgoing;
mod registry;
mod rich_text;

use std::{fmt, sync::Arc, time::Duration};

pub use self::{
    address::{AddressError, ChannelAddress, home_variables, split_thread},
    inbound::{
        ButtonPress, EventInbox, InboundEvent, InboundFile, InboundKind, InboundMessage,
        ReplyRoute, Sender,
    },
    outgoing::{Button, OutgoingFile, OutgoingMessage, SendError, SendErrorKind, SentMessage},
    registry::{ChannelRegistry, ChannelTarget},
    rich_text::{BlockKind, LengthLimit, LengthUnit, RichBlock, RichText, Span, SpanStyle},
};
use super::BoxFuture;

pub type SendFuture<'a, T> = BoxFuture<'a, Result<T, SendError>>;

/// An adapter for one platform.
pub trait Channel: Send + Sync + 'static {
    /// Returns the part of an address before the colon.
    fn platform(&self) -> &str;

    fn capabilities(&self) -> ChannelCapabilities;

    /// Returns whether a second connection to the same channel would end the first one.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Waits until [`Channel::capabilities`] are known, for adapters that must query them.
    fn ready(&self) -> SendFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Returns the length of a text as sent, if its formatting counts against
    /// [`ChannelCapabilities::max_length`]. `None` if only the visible text counts.
    fn written_length(&self, _text: &RichText) -> Option<usize> {
        None
    }

    /// Returns how an answer can be shown in this chat while it is being written.
    fn stream_means(&self, _chat: &str) -> StreamMeans {
        StreamMeans::None
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage>;

    /// Replaces a sent message and its buttons. Succeeds if the message already reads like that. Without
    /// [`ChannelCapabilities::edit`], this fails with [`SendErrorKind::Refused`], except where a platform
    /// allows a message to be changed right after a press.
    fn edit<'a>(
        &'a self,
        _chat: &'a str,
        _sent: &'a SentMessage,
        _new: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(async { Err(SendError::cannot("edit messages")) })
    }

    /// Begins a message that shows an answer while it is being written. Requires [`StreamMeans::Edit`] or
    /// [`StreamMeans::Stream`]. A message with an id can be updated, and the answer replaces it.
    fn begin_stream<'a>(
        &'a self,
        chat: &'a str,
        first: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        self.send(chat, first)
    }

    /// Replaces the text of such a message with the current answer, which may differ from the earlier text in
    /// more than its end.
    fn update_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        so_far: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        self.edit(chat, begun, so_far)
    }

    /// Ends such a message with its final text. This may be called again, even by a later process. Succeeds
    /// if the message already reads like that. Fails with [`SendErrorKind::Refused`] if the message can no
    /// longer be changed, and the text is then sent as a new message.
    fn end_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        last: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        self.edit(chat, begun, last)
    }

    /// Temporarily shows an incomplete answer. Requires [`StreamMeans::Draft`].
    fn show_draft<'a>(
        &'a self,
        _chat: &'a str,
        _draft: u64,
        _text: &'a RichText,
    ) -> SendFuture<'a, ()> {
        Box::pin(async { Err(SendError::cannot("show drafts")) })
    }

    /// Shows that an answer is being written. Requires [`ChannelCapabilities::typing`].
    fn typing<'a>(&'a self, _chat: &'a str) -> SendFuture<'a, ()> {
        Box::pin(async { Err(SendError::cannot("show a typing indicator")) })
    }

    /// Sends a file. Requires [`ChannelCapabilities::files`].
    fn send_file<'a>(
        &'a self,
        _chat: &'a str,
        _file: &'a OutgoingFile,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(async { Err(SendError::cannot("send files")) })
    }

    /// Fetches a file that a person sent, if it has at most `limit` bytes.
    fn fetch_file<'a>(&'a self, _file: &'a InboundFile, _limit: u64) -> SendFuture<'a, Vec<u8>> {
        Box::pin(async { Err(SendError::cannot("fetch files")) })
    }

    /// Shows a text to the person who pressed a button.
    fn answer_press<'a>(&'a self, _press: &'a ButtonPress, _text: &'a str) -> SendFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Takes the ways to answer that earlier processes stored with [`EventInbox::keep_route`], and their
    /// chats. Called before anything is sent or received.
    fn recall_routes(&self, _routes: Vec<(Arc<str>, ReplyRoute)>) {}

    /// Receives events until the connection is lost. The adapter acknowledges an event only after `inbox` has
    /// stored it. `cursor` is the last stored one. Adapters that only send return at once.
    fn receive<'a>(
        &'a self,
        _cursor: Option<Arc<str>>,
        _inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(async { ConnectionError::new(ConnectionErrorKind::SendsOnly, "it only sends") })
    }

    /// Tells the platform which commands exist, for its menus.
    fn register_commands<'a>(&'a self, _commands: &'a [ChatCommandHint]) -> SendFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Checks the setup without receiving anything.
    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCapabilities {
    /// Events can be received.
    pub receive: bool,
    /// A sent message can be edited at any time.
    pub edit: bool,
    pub typing: bool,
    pub buttons: bool,
    pub files: bool,
    /// An address without a chat means the chat named by an environment variable.
    pub home: bool,
    /// The text of a message is formatted. Otherwise adapters get the source text.
    pub rich_text: bool,
    /// A message that is sent twice with the same id arrives once.
    pub idempotent: bool,
    /// Maximum length of a message.
    pub max_length: Option<LengthLimit>,
}

/// How an answer is shown while it is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMeans {
    /// Not at all: the answer arrives as a whole.
    None,
    /// A message is sent and edited.
    Edit { interval: Duration },
    /// A platform-specific message that grows. It is ended before its `lifetime` is over; an answer that
    /// takes longer then arrives as a separate message.
    Stream { interval: Duration, lifetime: Duration },
    /// A preview that disappears after `lifetime` unless it is shown again. The answer is a separate message.
    Draft { interval: Duration, lifetime: Duration },
}

/// A command as shown in a platform's menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatCommandHint {
    /// Without the slash.
    pub name: &'static str,
    pub about: &'static str,
}

/// Why a connection ended or could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectionError {
    pub kind: ConnectionErrorKind,
    pub message: String,
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionErrorKind {
    /// Another attempt may succeed.
    Lost,
    /// The platform refuses the credentials, which only the owner can change.
    Refused,
    /// The adapter cannot receive anything.
    SendsOnly,
}

impl ConnectionError {
    pub fn new(kind: ConnectionErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

/// A result of [`Channel::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelFinding {
    pub is_problem: bool,
    pub text: String,
}

impl fmt::Debug for dyn Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.platform())
    }
}
