//! Claude Code's spellings, in both directions, and nowhere else: what its lines look like
//! ([`incoming`]), and every line we ever write to its stdin ([`outgoing`]).

pub(crate) mod incoming;
pub mod outgoing;
