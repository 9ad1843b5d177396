//! Lines over stdin and stdout, for frontends that a host application starts as its child.
//!
//! Nothing waits for the host but what must. A pipe is read when there is something to read, and a
//! stream that takes something is written to on the spot; else threads of their own wait: a read
//! that waits for a line cannot be taken back, and a write that waits for a host who does not read
//! must not keep anything else from happening.
//!
//! - [`Input`]: what comes in, line by line, within limits.
//! - [`Output`]: what goes out; so many bytes may wait to be read, and then whoever says more
//!   waits. The engine never does: a viewer that is behind catches up from the log.

mod input;
mod output;
mod ready;
#[cfg(test)]
mod tests;

pub use self::{
    input::{Input, Line},
    output::{Gone, Output},
};
