//! Handing work from one profile to another.
//!
//! - [`Reach`]: what a profile may do, and whether that is more than another may.
//! - [`Offer`]: our own MCP server, given to the agents that have a use for it.
//! - [`Starter`]: who asks, as the process's mark tells it; [`Caller`]: what it may still use.

mod caller;
mod offer;
mod reach;
mod starter;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    caller::Caller,
    offer::{Offer, OnBus},
    reach::Reach,
    starter::Starter,
};
