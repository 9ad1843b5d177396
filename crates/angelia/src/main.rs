//! `angelia`: one dependable local service in front of the coding agents on this machine.
//!
//! - [`cli`]: the commands and their output.
//! - [`config`]: environment, home folder, `config.yaml`, profiles.
//! - [`assemble`]: builds an engine and its parts; [`live_agents`]: limits the number of agents.
//! - [`daemon`]: `angelia serve`; [`bus`]: the message bus, inside the daemon or standalone;
//!   [`background`]: starts and ends both in the background; [`daemon_process`]: finds the daemon;
//!   [`program`]: the path of this program; [`log`]: the logs and their destinations.
//! - [`exposure`]: warns about the daemon's exposure to others; [`model_apis`]: the settings of the
//!   model APIs.
//! - [`live_config`]: the effective configuration; [`config_watch`]: the daemon follows its file.
//! - [`delegation`]: decides which profile may delegate work to which.
//! - [`hosting`]: the bus endpoint that a process hosts; [`platforms`]: the chat platforms;
//!   [`channels`]: the configured ones; [`chat_hosting`]: serves them, and the webhooks.
//! - [`client`]: the client of a running daemon, for commands.
//! - [`home_turns`]: the turns of a home, in its daemon or in this process; [`records`]: the
//!   recorded data, for commands that only read.

mod assemble;
mod background;
mod bus;
mod channels;
mod chat_hosting;
mod cli;
mod client;
mod clock;
mod config;
mod config_watch;
mod daemon;
mod daemon_process;
mod delegation;
mod exposure;
mod home_turns;
mod hosting;
mod live_agents;
mod live_config;
mod log;
mod model_apis;
mod platforms;
mod profiles;
mod program;
mod record_location;
mod records;
mod resolve;
mod snapshots;
mod standalone_commands;

fn main() -> std::process::ExitCode {
    cli::main()
}
