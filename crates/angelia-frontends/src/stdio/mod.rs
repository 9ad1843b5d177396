//! Lines over stdin and stdout, for frontends that a host application starts as its child.
//!
//! A slow host must not block the runtime. A pipe is read when it is readable, and a writable
//! stream is written to directly. Otherwise dedicated threads do the I/O, because a blocking read
//! cannot be cancelled, and a blocking write must not hold up anything else.
//!
//! - [`StdioInput`]: reads lines of limited length.
//! - [`StdioOutput`]: writes lines. A limited number of bytes may wait for the host; beyond that,
//!   senders wait. The engine never waits: a viewer that falls behind catches up from the log.

mod input;
mod nonblocking;
mod output;
#[cfg(test)]
mod tests;

pub use self::{
    input::{InputLine, StdioInput},
    output::{OutputClosed, StdioOutput},
};
