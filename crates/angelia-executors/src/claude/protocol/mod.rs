//! The wire format of Claude Code in both directions, which no other module knows: the lines it
//! writes ([`incoming`], [`control`]) and every line we write to its stdin ([`outgoing`]).

pub(crate) mod control;
pub(crate) mod incoming;
pub mod outgoing;
