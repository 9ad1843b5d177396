//! The ports: traits through which the engine reaches the outside world. Sibling crates implement
//! them and the binary passes them in; tests pass in their own.

mod browsers;
pub mod bus;
mod channel;
mod chat_store;
mod clock;
mod commands;
mod delegation;
mod deliveries;
mod edit_diff;
mod executor;
mod file_times;
mod paths;
mod profiles;
mod schedules;
mod session_files;
mod session_query;
mod store;

use std::pin::Pin;

pub use browsers::BrowserStore;
pub use bus::{Bus, BusInbox};
pub use channel::{
    AddressError, BlockKind, Button, ButtonPress, Channel, ChannelAddress, ChannelCapabilities,
    ChannelFinding, ChannelRegistry, ChannelTarget, ChatCommandHint, ConnectionError,
    ConnectionErrorKind, EventInbox, InboundEvent, InboundFile, InboundKind, InboundMessage,
    LengthLimit, LengthUnit, OutgoingFile, OutgoingMessage, ReplyRoute, RichBlock, RichText,
    SendError, SendErrorKind, SendFuture, Sender, SentMessage, Span, SpanStyle, StreamMeans,
    home_variables, split_thread,
};
pub use chat_store::{
    ApprovalCard, ChatGuest, ChatState, ChatStore, HookAnswer, MAX_OPEN_CODES, PairingCode,
    StoredEvent,
};
pub use clock::Clock;
pub use commands::{
    CommandOutput, CommandProgram, CommandRunner, CommandSpec, CommandStartError, ProgramOutput,
    ProgramSpec, RunningProgram,
};
pub use delegation::{DelegateProfile, DelegateResult, DelegatedWork, WorkDelegation};
pub use deliveries::{ChannelDelivery, DeliveryFormat, DeliveryState, DeliveryStore};
pub use edit_diff::EditDiffer;
pub use executor::{
    Activity, Agent, AgentEvent, AgentOutcome, COMPACTED_REASON, ConversationError,
    ConversationRecord, EmptyRecord, EventSender, Executor, ExecutorCapabilities, ExecutorHealth,
    InstalledAgent, LoginState, OpenRequest, RecordedTurn, TurnControl, TurnIo,
    UNKNOWN_MODEL_REASON,
};
pub use file_times::{FileStamp, FileStamps, FileTimes};
pub use paths::{KnownPlaces, PathResolver};
pub use profiles::{ExecutorTarget, ProfileRequest, ProfileSummary, Profiles};
pub use schedules::{
    MAX_OCCURRENCES, ScheduleAdvance, ScheduleChange, ScheduleStart, ScheduleStore,
};
pub use session_files::SessionFiles;
pub use session_query::{SessionFilter, SessionOrder, SessionQuery};
pub use store::{
    ApprovalFilter, AuditQuery, ClaimOutcome, HistoryEntry, Lease, LeaseHolder, NewTurn, OpenText,
    Page, PendingCommit, RecordKind, RequestClaim, SearchUpkeep, Store, StoreError, StoreFuture,
    TurnFilter,
};

/// A boxed future for trait objects. There are too few async traits to need a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
