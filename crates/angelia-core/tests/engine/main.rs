//! The engine with an agent that does what the test says, and a store in memory.

mod approvals;
mod life;
mod recovery;
mod stage;
mod watching;
