//! Claude Code's wire format in both directions, known to no other module: the lines that it writes
//! ([`incoming`], [`control`]) and every line that we write to its stdin ([`outgoing`]).

pub(crate) mod control;
pub(crate) mod incoming;
pub mod outgoing;
