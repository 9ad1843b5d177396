//! The daemon in the background.
//!
//! - [`start`], [`stop`], [`restart`]: its life.
//! - [`logs`]: what it has logged.

pub(super) mod logs;
pub(super) mod restart;
pub(super) mod start;
pub(super) mod stop;
