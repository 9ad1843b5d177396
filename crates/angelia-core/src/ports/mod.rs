//! The ports: traits through which the engine reaches the outside world. Sibling crates implement
//! them and the binary passes them in; tests pass in their own.

pub mod bus;
mod channel;
mod clock;
mod commands;
mod deliveries;
mod edit_diff;
mod executor;
mod file_times;
mod paths;
mod profiles;
mod schedules;
mod store;

use std::pin::Pin;

pub use bus::{Bus, BusInbox};
pub use channel::{
    AddressError, Button, Channel, ChannelAddress, ChannelCapabilities, ChannelRegistry,
    ChannelTarget, OutgoingMessage, SendError, SendErrorKind, SentMessage, home_variables,
};
pub use clock::Clock;
pub use commands::{CommandOutput, CommandProgram, CommandRunner, CommandSpec, CommandStartError};
pub use deliveries::{ChannelDelivery, DeliveryState, DeliveryStore};
pub use edit_diff::EditDiffer;
pub use executor::{
    Activity, Agent, AgentEvent, AgentOutcome, ConversationError, ConversationRecord, EmptyRecord,
    EventSender, Executor, ExecutorCapabilities, ExecutorHealth, InstalledAgent, LoginState,
    OpenRequest, RecordedTurn, TurnControl, TurnIo, UNKNOWN_MODEL_REASON,
};
pub use file_times::{FileStamp, FileStamps, FileTimes};
pub use paths::{KnownPlaces, PathResolver};
pub use profiles::{ExecutorTarget, ProfileRequest, ProfileSummary, Profiles};
pub use schedules::{
    MAX_OCCURRENCES, ScheduleAdvance, ScheduleChange, ScheduleStart, ScheduleStore,
};
pub use store::{
    ApprovalFilter, AuditQuery, ClaimOutcome, HistoryEntry, Lease, LeaseHolder, NewTurn, OpenText,
    Page, PendingCommit, RecordKind, RequestClaim, SearchUpkeep, SessionQuery, Store, StoreError,
    StoreFuture, TurnFilter,
};

/// A boxed future for trait objects. There are too few async traits to need a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
