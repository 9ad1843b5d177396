//! The pure parts: what a line means, and what a run tells of its turn.

mod encoding;
mod requests;
