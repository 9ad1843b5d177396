//! The channel `mattermost:CHANNEL[#POST]`: posts arrive through a WebSocket, and answers go through the REST
//! API. The socket has no acknowledgements. Instead, the time of the newest post is the cursor: it is stored
//! with every event, and a later connection requests what came after it.
//!
//! - [`Mattermost`]: the adapter; `receiving`: its connection; `lookups`: facts about people, channels and
//!   posts.
//! - `writing`: sends messages.
//! - `decode`: decodes frames and posts into events. Pure.

mod adapter;
mod decode;
mod lookups;
mod receiving;
mod writing;

pub use adapter::{Mattermost, MattermostError};
pub use decode::{FrameKind, Post, ServerFrame};
pub use writing::to_markdown;
