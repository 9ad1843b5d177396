//! The data of chats: received events, people who may talk, and the session that a chat uses.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;

use super::{InboundEvent, ReplyRoute, StoreFuture};
use crate::model::{ApprovalId, SessionId, TurnId};

pub trait ChatStore: Send + Sync + 'static {
    /// Adds the events that are not known yet and sets the platform's cursor, in one transaction. Returns the
    /// added events.
    fn accept<'a>(
        &'a self,
        platform: &'a str,
        events: Vec<InboundEvent>,
        cursor: Option<Arc<str>>,
        at: Timestamp,
    ) -> StoreFuture<'a, Vec<StoredEvent>>;

    fn cursor<'a>(&'a self, platform: &'a str) -> StoreFuture<'a, Option<Arc<str>>>;

    /// Stores the newest way to answer in a chat, and removes the expired ones of the platform.
    fn put_route<'a>(
        &'a self,
        platform: &'a str,
        chat: &'a str,
        route: ReplyRoute,
        now: Timestamp,
    ) -> StoreFuture<'a, ()>;

    /// Returns the ways to answer in the chats of a platform.
    fn routes<'a>(&'a self, platform: &'a str) -> StoreFuture<'a, Vec<(Arc<str>, ReplyRoute)>>;

    /// Returns the events that are not fully processed yet, oldest first.
    fn unfinished_events(&self) -> StoreFuture<'_, Vec<StoredEvent>>;

    /// Records that an event was passed to a turn.
    fn set_event_turn(&self, position: i64, turn: TurnId) -> StoreFuture<'_, ()>;

    /// Ends the processing of an event, and deletes everything but its key.
    fn finish_event(&self, position: i64) -> StoreFuture<'_, ()>;

    /// Deletes events that ended before `before`, and cards and previews of that age.
    fn forget_before(&self, before: Timestamp) -> StoreFuture<'_, ()>;

    /// Returns everyone who was let in with a pairing code.
    fn guests(&self) -> StoreFuture<'_, Vec<ChatGuest>>;

    fn is_guest<'a>(&'a self, platform: &'a str, sender: &'a str) -> StoreFuture<'a, bool>;

    /// Removes a guest and returns whether the guest existed.
    fn remove_guest<'a>(&'a self, platform: &'a str, sender: &'a str) -> StoreFuture<'a, bool>;

    /// Stores a pairing code for a person, unless the person already has one. Returns the person's code, or
    /// `None` if the platform has too many open codes. Deletes codes created before `since`.
    fn offer_code(
        &self,
        offer: PairingCode,
        since: Timestamp,
    ) -> StoreFuture<'_, Option<PairingCode>>;

    /// Returns the usable codes, oldest first.
    fn codes(&self, since: Timestamp) -> StoreFuture<'_, Vec<PairingCode>>;

    /// Redeems a code created at or after `since`, and makes its person a guest.
    fn redeem_code<'a>(
        &'a self,
        code: &'a str,
        since: Timestamp,
        at: Timestamp,
    ) -> StoreFuture<'a, Option<ChatGuest>>;

    fn chat_state<'a>(&'a self, address: &'a str) -> StoreFuture<'a, ChatState>;

    fn put_chat_state<'a>(&'a self, address: &'a str, state: ChatState) -> StoreFuture<'a, ()>;

    /// Records that a session belongs to a chat.
    fn add_chat_session<'a>(
        &'a self,
        address: &'a str,
        session: SessionId,
        at: Timestamp,
    ) -> StoreFuture<'a, ()>;

    /// Returns the sessions of a chat, newest first.
    fn chat_sessions<'a>(&'a self, address: &'a str) -> StoreFuture<'a, Vec<SessionId>>;

    /// Stores the message that shows an approval.
    fn put_card(&self, card: ApprovalCard, at: Timestamp) -> StoreFuture<'_, ()>;

    fn card(&self, approval: ApprovalId) -> StoreFuture<'_, Option<ApprovalCard>>;

    /// Stores the message that shows the answer of a turn while it is being written.
    fn put_preview<'a>(
        &'a self,
        turn: TurnId,
        message_id: &'a str,
        at: Timestamp,
    ) -> StoreFuture<'a, ()>;

    fn preview(&self, turn: TurnId) -> StoreFuture<'_, Option<Arc<str>>>;

    /// Records that somebody waits for the answer of a turn that a webhook started.
    fn put_hook_answer(&self, answer: HookAnswer) -> StoreFuture<'_, ()>;

    /// Returns the answers that were not delivered yet, oldest first.
    fn hook_answers(&self) -> StoreFuture<'_, Vec<HookAnswer>>;

    fn remove_hook_answer(&self, turn: TurnId) -> StoreFuture<'_, ()>;
}

/// Maximum number of open pairing codes per platform.
pub const MAX_OPEN_CODES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Increases in the order of arrival.
    pub position: i64,
    pub platform: Arc<str>,
    pub received_at: Timestamp,
    pub event: InboundEvent,
    /// The turn that got the event.
    pub turn: Option<TurnId>,
}

/// A person who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatGuest {
    pub platform: Arc<str>,
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingCode {
    pub code: Arc<str>,
    pub platform: Arc<str>,
    pub sender: Arc<str>,
    pub name: Arc<str>,
    pub made_at: Timestamp,
}

/// The choices that people have made for a chat with commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatState {
    pub session: Option<SessionId>,
    pub profile: Option<Arc<str>>,
    pub cwd: Option<PathBuf>,
}

/// The message that shows an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalCard {
    pub approval: ApprovalId,
    pub address: Arc<str>,
    pub message_id: Arc<str>,
}

/// The answer of a turn that a webhook started, and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer {
    pub turn: TurnId,
    pub hook: Arc<str>,
    /// A channel or a bus endpoint.
    pub to: Arc<str>,
}
