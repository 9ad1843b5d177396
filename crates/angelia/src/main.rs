//! `angelia`: one dependable local service in front of the coding agents on this machine.
//!
//! - [`cli`]: what can be typed, and what it prints.
//! - [`config`]: environment, home folder, `config.yaml`, profiles.
//! - [`assemble`]: the parts of an engine, put together.
//! - [`daemon`]: `angelia serve`; [`bus`]: the message bus, in it or alone.
//! - [`exposure`]: what it opens to others, said at start; [`model_apis`]: what those are told;
//!   [`live_keys`]: who they are while it runs.
//! - [`delegation`]: who may hand work to whom.
//! - [`hosting`]: the endpoint of the bus that a process hosts.
//! - [`client`]: how commands use a daemon that runs already.

mod assemble;
mod bus;
mod cli;
mod client;
mod clock;
mod config;
mod daemon;
mod delegation;
mod exposure;
mod hosting;
mod live_keys;
mod log;
mod model_apis;
mod profiles;
mod snapshots;

fn main() -> std::process::ExitCode {
    cli::main()
}
