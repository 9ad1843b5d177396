//! The `parrot` executor: a built-in demo agent, for machines where no coding agent is installed.
//!
//! Like any other agent, the parrot is a separate process: this program with the hidden subcommand
//! `parrot`. It speaks Claude Code's stream-json protocol, so the same code drives, supervises and
//! records it. It has no model, remembers nothing, reads no files, runs no commands, opens no
//! connections, and says in its answers that it is a demo.
//!
//! It repeats plain text. A line that begins with one of these directives is executed, in order:
//!
//! | line | what happens |
//! |---|---|
//! | `!words N [MS]` | N words (`word1 word2 …`), MS milliseconds apart |
//! | `!think [TEXT]` | reasoning before the answer |
//! | `!tool NAME [MS]` | a pretended tool call that takes MS milliseconds and succeeds |
//! | `!ask [COMMAND]` | asks whether a pretended shell command may run; says what was decided |
//! | `!write PATH [N]` | asks whether N pretended lines may be written to a file |
//! | `!question` | asks a person to choose a colour |
//! | `!fail KIND` | the turn fails: `auth billing invalid model rate refused server unknown` |
//! | `!hang` | silence until interrupted |
//! | `!die` | the process exits with 1 in the middle of a word |
//! | `!who` | version, process id, session and the number of the turn within the process |
//! | `!help` | this list |
//!
//! Tokens are words; the cost is 0.
//!
//! - `executor`: implements the executor port.
//! - [`process`]: the process, built on [`scripted_claude`](super::scripted_claude).
//! - `options`: its arguments.
//! - `script`: parses a prompt into steps. Pure.
//! - `turn`, `tools`, `simulated_failure`: execute the steps.

#[cfg(test)]
mod conformance;
mod executor;
mod options;
pub mod process;
mod script;
mod simulated_failure;
mod tools;
mod turn;

pub use executor::{REGISTRATION, SUBCOMMAND};
pub use process::main;

/// Reports whether the executor of this name is only the demo, with no coding agent behind it.
pub fn is_demo(executor: &str) -> bool {
    executor == REGISTRATION.name
}

/// The parrot has Angelia's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
