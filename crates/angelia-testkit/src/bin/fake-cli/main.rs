//! An instant stand-in for the Claude Code CLI over JSON lines, for benchmarks and engine tests:
//! no model, no tools, no start-up work, one write per turn.
//!
//! It answers `--version` and `auth status`. It speaks the protocol through `scripted_claude` of the
//! executors; the text of a user message scripts the turn ([`plan`]).
//!
//! Environment: `FAKE_CLI_VERSION` (2.1.325; 2.1.197 omits the newer fields and lines),
//! `FAKE_CLI_WORDS` (number of deltas in an unscripted answer), `FAKE_CLI_LOG` (a file for the
//! arguments and every line read), `FAKE_CLI_START_MS` (delays the start), `FAKE_CLI_LOGGED_OUT`.

mod options;
mod plan;
mod turn;

use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
    process::ExitCode,
    thread,
};

use angelia_executors::scripted_claude::ScriptedClaude;

use crate::options::CliOptions;

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
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let claude = ScriptedClaude::new(options.setup()?, input, output);
    match claude.serve(|turn| turn::run(turn, &options)) {
        Ok(code) => Ok(code.into()),
        Err(why) => {
            writeln!(io::stderr(), "Error: {why}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
