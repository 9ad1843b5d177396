//! Runs turns for bus messages.
//!
//! ```text
//!  host ──▶ rules ──▶ lane of (endpoint, profile, reply target) ──▶ session ──▶ turn
//!   ▲                   waits, merges            idle: a new turn                │
//!   │                                            busy: steered, or queued        │
//!   └── acknowledged ◀── reply sent ◀── the lane's own reply target ◀────────────┘
//! ```
//!
//! A lane has one target for its replies, decided by the messages themselves and carried by value;
//! lanes never mix. The message that started a turn is acknowledged when the turn's reply has been
//! handed over. After a crash it is delivered again, and finds its turn instead of starting
//! another.
//!
//! - [`EndpointHost`]: receives the messages of an endpoint and applies the rules.
//! - `lane`: waits and merges; `turns`: runs the turns of a lane; `reply`: sends the answer back.
//! - `merge`: builds the prompt of a turn. Pure.

mod host;
mod lane;
mod merge;
mod reply;
mod turns;

pub use host::{EndpointHost, EndpointHostParts};
pub use lane::LaneLimits;
pub use merge::{PromptItem, merge_prompt, source_line};
pub(crate) use reply::{compose, publish_one};
