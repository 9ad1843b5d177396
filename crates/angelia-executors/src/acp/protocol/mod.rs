//! The spellings of both directions.
//!
//! - [`incoming`]: what agents say while a turn runs; read forgivingly, because nobody keeps to the
//!   letter of a protocol.
//! - [`opened`]: what they say about themselves and a conversation when it is opened.
//! - [`outgoing`]: what we say.

pub mod incoming;
pub mod opened;
pub mod outgoing;
