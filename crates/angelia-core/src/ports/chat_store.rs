//! The data of chats: events that have arrived, people who may talk, and the session that a chat uses.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;

use super::{InboundEvent, ReplyRoute, StoreFuture};
use crate::model::{ApprovalId, SessionId, TurnId};

pub trait ChatStore: Send + Sync + 'static {
    /// Adds the events that are not known yet, and sets the platform's cursor, in one transaction.
    /// Returns the events that were added.
    fn accept<'a>(
        &'a self,
        platform: &'a str,
        events: Vec<InboundEvent>,
        cursor: Option<Arc<str>>,
        at: Timestamp,
    ) -> StoreFuture<'a, Vec<StoredEvent>>;

    fn cursor<'a>(&'a self, platform: &'a str) -> StoreFuture<'a, Option<Arc<str>>>;

    /// Keeps the newest way to answer in a chat, and forgets those of the platform that have expired.
    fn put_route<'a>(
        &'a self,
        platform: &'a str,
        chat: &'a str,
        route: ReplyRoute,
        now: Timestamp,
    ) -> StoreFuture<'a, ()>;

    /// Returns the ways to answer in the chats of a platform.
    fn routes<'a>(&'a self, platform: &'a str) -> StoreFuture<'a, Vec<(Arc<str>, ReplyRoute)>>;

    /// Returns the events whose work has not ended, oldest first.
    fn unfinished_events(&self) -> StoreFuture<'_, Vec<StoredEvent>>;

    /// Records that an event was handed to a turn.
    fn set_event_turn(&self, position: i64, turn: TurnId) -> StoreFuture<'_, ()>;

    /// Ends the work on an event, and forgets everything of it but its key.
    fn finish_event(&self, position: i64) -> StoreFuture<'_, ()>;

    /// Forgets events that ended before `before`, with cards and previews of that age.
    fn forget_before(&self, before: Timestamp) -> StoreFuture<'_, ()>;

    /// Everyone who was let in by a pairing code.
    fn guests(&self) -> StoreFuture<'_, Vec<ChatGuest>>;

    fn is_guest<'a>(&'a self, platform: &'a str, sender: &'a str) -> StoreFuture<'a, bool>;

    /// Returns whether the guest was there.
    fn remove_guest<'a>(&'a self, platform: &'a str, sender: &'a str) -> StoreFuture<'a, bool>;

    /// Keeps a pairing code for a person. Returns the code that the person has already, if any; `None`
    /// if the platform has too many open ones. Codes made before `since` are forgotten.
    fn offer_code(
        &self,
        offer: PairingCode,
        since: Timestamp,
    ) -> StoreFuture<'_, Option<PairingCode>>;

    /// The codes that can be used, oldest first.
    fn codes(&self, since: Timestamp) -> StoreFuture<'_, Vec<PairingCode>>;

    /// Uses a code made since `since`, and makes its person a guest.
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

    /// The sessions of a chat, newest first.
    fn chat_sessions<'a>(&'a self, address: &'a str) -> StoreFuture<'a, Vec<SessionId>>;

    /// Keeps the message that shows an approval.
    fn put_card(&self, card: ApprovalCard, at: Timestamp) -> StoreFuture<'_, ()>;

    fn card(&self, approval: ApprovalId) -> StoreFuture<'_, Option<ApprovalCard>>;

    /// Keeps the message that shows the answer of a turn while it is written.
    fn put_preview<'a>(
        &'a self,
        turn: TurnId,
        message_id: &'a str,
        at: Timestamp,
    ) -> StoreFuture<'a, ()>;

    fn preview(&self, turn: TurnId) -> StoreFuture<'_, Option<Arc<str>>>;

    /// Records that somebody waits for the answer of a turn that a webhook began.
    fn put_hook_answer(&self, answer: HookAnswer) -> StoreFuture<'_, ()>;

    /// The answers that were not handed over yet, oldest first.
    fn hook_answers(&self) -> StoreFuture<'_, Vec<HookAnswer>>;

    fn remove_hook_answer(&self, turn: TurnId) -> StoreFuture<'_, ()>;
}

/// The most open pairing codes of a platform.
pub const MAX_OPEN_CODES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Counts up in the order of arrival.
    pub position: i64,
    pub platform: Arc<str>,
    pub received_at: Timestamp,
    pub event: InboundEvent,
    /// The turn that got it.
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

/// The choices that people have made for a chat by commands.
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

/// The answer of a turn that a webhook began, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer {
    pub turn: TurnId,
    pub hook: Arc<str>,
    /// A channel or an endpoint of the bus.
    pub to: Arc<str>,
}
