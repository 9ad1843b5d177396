//! The pure parts of the native executor, through their public interface.
//!
//! - `answers`: the frames of each API, with the quirks of servers, as events.
//! - `cuts`: however the bytes are cut, the events are the same; and any bytes are decoded.
//! - `requests`: the bodies of requests, per API and quirk.
//! - `prefixes`: a request begins with the bytes of the one before.
//! - `histories`: any history becomes one that an API accepts.
//! - `compactions`: what any compactions leave of any conversation.
//! - `errors`: what errors mean.
//! - `reading`: the clocks of an answer, and what is told of one that broke off.
//! - `retries`: what follows a request that has failed.
//! - `arguments`: what is repaired in arguments, and what is refused.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod arguments;
mod compactions;
mod cuts;
mod errors;
mod histories;
mod invariants;
mod material;
mod prefixes;
mod reading;
mod requests;
mod retries;
