//! The background daemon.
//!
//! - [`start`], [`stop`], [`restart`]: start and end the daemon.
//! - [`logs`]: prints its log.

pub(super) mod logs;
pub(super) mod restart;
pub(super) mod start;
pub(super) mod stop;
