//! Messages that become turns.
//!
//! ```text
//!  host ──▶ rules ──▶ lane of (endpoint, profile, where the reply goes) ──▶ session ──▶ turn
//!   ▲                   waits, merges                     idle: a new turn      │
//!   └── acknowledged ◀── reply on its way ◀── the lane's own destination ◀──────┘
//!                                             busy: steered, or queued
//! ```
//!
//! A lane has one destination for its replies, decided by the messages themselves and carried by
//! value; lanes never mix. The message that began a turn is acknowledged when the turn's reply is
//! on its way: after a crash it comes again, and finds its turn instead of running another.
//!
//! - [`Host`]: receives for an endpoint and follows the rules.
//! - `lane`: waits and merges; `turns`: runs what a lane has; `reply`: gets the answer back.
//! - `merge`: the words of a turn. Pure.

mod host;
mod lane;
mod merge;
mod reply;
mod turns;

pub use host::{Host, HostParts};
pub use lane::Pace;
pub use merge::{Item, merged, source_line};
