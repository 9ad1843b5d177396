//! A channel whose adapter is a program of the owner, in any language. It speaks the channel port as lines of
//! JSON over its standard input and output ([0043](../../../../../docs/design/0043-program-adapters.md)).
//!
//! - [`ProgramChannel`]: the adapter; it starts the program, and starts it again when it has ended.
//! - `session`: one run of the program, its requests and their answers.
//! - `protocol`: the lines; [`schema`]: their JSON schema; `decode`: events as ours. Pure.
//! - `message`: messages as the program gets them.
//! - `restarts`: when the program may be started again. Pure.

mod adapter;
mod decode;
mod message;
mod protocol;
mod restarts;
mod schema;
mod session;

pub use adapter::{ProgramChannel, ProgramChannelParts};
pub use decode::{ProgramLine, decode_line};
pub use schema::schema;
