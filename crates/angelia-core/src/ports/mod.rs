//! The ports: traits through which the engine reaches the outside world. Sibling crates implement
//! them and the binary passes them in; tests pass in their own.

pub mod bus;
mod channel;
mod clock;
mod commands;
mod deliveries;
mod executor;
mod profiles;
mod store;

use std::pin::Pin;

pub use bus::{Bus, Inbox};
pub use channel::{
    AddressError, Button, Channel, ChannelAbilities, ChannelAddress, ChannelTarget, Channels,
    Outgoing, SendError, SendFailure, Sent, home_variables,
};
pub use clock::Clock;
pub use commands::{CommandFailed, CommandLine, Commands, Program, Ran};
pub use deliveries::{Deliveries, Delivery, DeliveryState};
pub use executor::{
    Activity, Agent, Capabilities, Emitted, Ended, EventSender, Executor, Health, Installed, Login,
    Opening, TurnControl, TurnIo,
};
pub use profiles::{ProfileSummary, Profiles, Target, Wanted};
pub use store::{
    Approvals, Claim, Claimed, Committed, HistoryNote, Holder, Lease, Page, Store, StoreError,
};

/// A boxed future for trait objects. There are too few async traits to need a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
