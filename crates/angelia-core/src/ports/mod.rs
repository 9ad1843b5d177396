//! What the engine asks of the outside world. Each trait is implemented in a sibling crate and
//! handed in by the binary; tests hand in their own.

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

/// A future behind a trait object; the few seams do not need a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
