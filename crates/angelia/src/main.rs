//! `angelia`: one dependable local service in front of the coding agents on this machine.
//!
//! - [`cli`]: what can be typed, and what it prints.
//! - [`config`]: environment, home folder, `config.yaml`, profiles.
//! - [`assemble`]: the parts of an engine, put together.
//! - [`daemon`]: `angelia serve`.
//! - [`client`]: how commands use a daemon that runs already.

mod assemble;
mod cli;
mod client;
mod clock;
mod config;
mod daemon;
mod log;
mod profiles;

fn main() -> std::process::ExitCode {
    cli::main()
}
