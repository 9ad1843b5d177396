//! `angelia`: one dependable local service in front of the coding agents on this machine.
//!
//! - [`cli`]: the commands and their output.
//! - [`config`]: environment, home folder, `config.yaml`, profiles.
//! - [`assemble`]: builds an engine and its parts.
//! - [`daemon`]: `angelia serve`; [`bus`]: the message bus, inside the daemon or alone.
//! - [`exposure`]: warns at start about what the daemon exposes to others; [`model_apis`]: the
//!   settings of the model APIs; [`key_reload`]: reloads their keys while the daemon runs.
//! - [`delegation`]: which profile may hand work to which.
//! - [`hosting`]: the bus endpoint that a process hosts.
//! - [`client`]: the client of a running daemon, for commands.
//! - [`home_turns`]: the turns of a home, in its daemon or in this process; [`records`]: what is
//!   recorded, for commands that only read.

mod assemble;
mod bus;
mod cli;
mod client;
mod clock;
mod config;
mod daemon;
mod delegation;
mod exposure;
mod home_turns;
mod hosting;
mod key_reload;
mod log;
mod model_apis;
mod profiles;
mod records;
mod snapshots;

fn main() -> std::process::ExitCode {
    cli::main()
}
