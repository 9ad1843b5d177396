//! A channel whose adapter is the owner's own program, in any language. It speaks the channel port as lines
//! of JSON over its standard input and output ([0043](../../../../../docs/design/0043-program-adapters.md)).
//!
//! - [`ProgramChannel`]: the adapter; it starts the program, and restarts it when it ends.
//! - `session`: one run of the program, with requests and answers.
//! - `protocol`: the lines; [`schema`]: their JSON schema; `decode`: decodes events into ours. Pure.
//! - `message`: messages in the program's form.
//! - `restarts`: when the program may be restarted. Pure.

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
