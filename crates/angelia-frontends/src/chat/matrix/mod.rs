//! The channel `matrix:ROOM[#THREAD]`: the client-server API of a homeserver over its long poll. A batch of events
//! is stored before the next poll, which acknowledges it. Rooms without encryption only.
//!
//! - [`Matrix`]: the adapter; `setup_check`: whether its set-up is right.
//! - `receiving`: the long poll, invitations and gaps; `rooms`: what is known of rooms and their events.
//! - `writing`: what it sends; `buttons`: reactions that stand for buttons. The latter is pure.
//! - `decode`: events of rooms as ours; `sync_batch`: the answer to a poll. Pure.
//! - [`to_html`]: formatted text in the HTML of Matrix. Pure.

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
