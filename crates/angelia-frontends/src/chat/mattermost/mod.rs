//! The channel `mattermost:CHANNEL[#POST]`: a WebSocket of a server brings what people write, the REST API takes what
//! we send. The socket has no acknowledgement: the time of the newest post is the cursor, stored with every event, and
//! a later connection asks for what came after it.
//!
//! - [`Mattermost`]: the adapter; `receiving`: its connection; `lookups`: what it asks about people, channels and posts.
//! - `writing`: what it sends.
//! - `decode`: frames and posts as events. Pure.

mod adapter;
mod decode;
mod lookups;
mod receiving;
mod writing;

pub use adapter::{Mattermost, MattermostError};
pub use decode::{FrameKind, Post, ServerFrame};
pub use writing::to_markdown;
