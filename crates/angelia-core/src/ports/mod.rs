//! What the engine asks of the outside world. Each trait is implemented in a sibling crate and
//! handed in by the binary; tests hand in their own.

mod clock;
mod executor;
mod profiles;
mod store;

use std::pin::Pin;

pub use clock::Clock;
pub use executor::{
    Activity, Agent, Capabilities, Emitted, Ended, EventSender, Executor, Health, Installed, Login,
    Opening, TurnControl, TurnIo,
};
pub use profiles::{ProfileSummary, Profiles, Wanted};
pub use store::{Approvals, Claim, Claimed, Committed, Holder, Lease, Page, Store, StoreError};

/// A future behind a trait object; the few seams do not need a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
