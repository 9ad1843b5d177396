//! Logs go to stderr: errors for a command, info and above for the daemon. `ANGELIA_LOG` sets
//! another filter (`debug`, `angelia_core=trace` …). Prompts and outputs are never logged above
//! trace.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

use crate::config::Environment;

pub(crate) fn init(environment: &Environment, daemon: bool) {
    let usual = if daemon { "info" } else { "error" };
    let wanted = environment.non_empty("ANGELIA_LOG").and_then(|value| value.to_str());
    let filter =
        EnvFilter::try_new(wanted.unwrap_or(usual)).unwrap_or_else(|_| EnvFilter::new(usual));
    // The MCP library logs the messages it receives, which may contain a prompt.
    let filter = match "rmcp=off".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    let colour = std::io::stderr().is_terminal() && environment.non_empty("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colour).with_target(false);
    // Fails only if a subscriber is installed already, which is then as good.
    let _already = tracing_subscriber::registry().with(filter).with(lines).try_init();
}
