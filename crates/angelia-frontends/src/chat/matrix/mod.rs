//! The channel `matrix:ROOM[#THREAD]`: the client-server API of a homeserver, by long polling. Each batch of
//! events is stored before the next poll, which acknowledges it. Supports only unencrypted rooms.
//!
//! - [`Matrix`]: the adapter; `setup_check`: checks the set-up.
//! - `receiving`: the long poll, invitations and gaps; `rooms`: cached facts about rooms and their events.
//! - `writing`: sends messages; `buttons`: reactions that serve as buttons. The latter is pure.
//! - `decode`: decodes room events into ours; `sync_batch`: the answer to a poll. Pure.
//! - [`to_html`]: writes formatted text as Matrix HTML. Pure.

mod adapter;
mod buttons;
mod decode;
mod html;
mod receiving;
mod rooms;
mod setup_check;
mod sync_batch;
mod writing;

pub use adapter::{Matrix, MatrixError, MatrixSecrets};
pub use decode::{RoomEvent, RoomEventKind, RoomMessage, decode_event};
pub use html::to_html;
