//! The providers of the native executor with real variables, files, commands and servers on loopback.
//!
//! - `keys`: where keys come from; `entra`: from Microsoft Entra; `real_logins`: from an OAuth server.
//! - `servers`: what servers say about themselves and their models.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod entra;
mod keys;
mod place;
mod real_logins;
mod servers;
