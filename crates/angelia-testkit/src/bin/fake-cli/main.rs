//! An instant stand-in for the Claude Code CLI over JSON lines, for benchmarks and engine tests:
//! no model, no tools, no start-up work, one write per turn.
//!
//! It answers `--version`, `auth status`, the control requests a client needs, and user messages,
//! whose text scripts the turn ([`plan`]). Its lines have the shape of the recorded ones.
//!
//! Environment: `FAKE_CLI_VERSION` (2.1.325; 2.1.197 leaves the newer fields and lines out),
//! `FAKE_CLI_WORDS` (number of deltas of an unscripted answer), `FAKE_CLI_LOG` (a file that gets
//! the arguments and every line read), `FAKE_CLI_START_MS` (delays the start),
//! `FAKE_CLI_LOGGED_OUT`.

mod control;
mod input;
mod line_writer;
mod options;
mod plan;
mod session;
mod turn;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    thread,
};

use crate::{options::CliOptions, session::FakeSession};

fn main() -> io::Result<ExitCode> {
    let options = CliOptions::read();
    if options.show_version {
        writeln!(io::stdout(), "{} (Claude Code)", options.version)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.auth_status {
        let status = serde_json::json!({"loggedIn": options.login.is_some(),
            "authMethod": options.login.unwrap_or("none"), "apiProvider": "firstParty"});
        writeln!(io::stdout(), "{status:#}")?;
        return Ok(ExitCode::from(u8::from(options.login.is_none())));
    }
    thread::sleep(options.start);
    FakeSession::open(options)?.run()
}
