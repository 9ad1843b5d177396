//! The daemon in the background.
//!
//! - [`start`], [`stop`], [`restart`]: start and end it.
//! - [`logs`]: prints its log.

pub(super) mod logs;
pub(super) mod restart;
pub(super) mod start;
pub(super) mod stop;
