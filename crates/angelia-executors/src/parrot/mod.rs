//! The `parrot` executor: a built-in demo agent, so that Angelia can be tried where no coding agent
//! is installed.
//!
//! Like any other agent, the parrot is a process of its own: this program with the hidden
//! subcommand `parrot`. It speaks Claude Code's stream-json protocol, so the same code drives,
//! supervises and records it. It has no model, remembers nothing, reads no file, runs no command,
//! opens no connection, and says in its answers that it is a demo.
//!
//! It repeats plain text. A line that begins with one of these directives is carried out, in order:
//!
//! | line | what happens |
//! |---|---|
//! | `!words N [MS]` | N words (`word1 word2 …`), MS milliseconds apart |
//! | `!think [TEXT]` | reasoning before the answer |
//! | `!tool NAME [MS]` | a pretended tool call that takes MS milliseconds and succeeds |
//! | `!ask [COMMAND]` | asks whether a pretended shell command may run; says what was decided |
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
//! - [`process`]: the process's main loop and the control requests that it answers.
//! - `options`, `stdin`: its arguments and its stdin.
//! - `script`: parses a prompt into steps. Pure.
//! - `turn`, `tools`, `message`, `turn_result`, `simulated_failure`: the steps become lines.
//! - `output`: stdout.

#[cfg(test)]
mod conformance;
mod executor;
mod message;
mod options;
mod output;
pub mod process;
mod script;
mod simulated_failure;
mod stdin;
mod tools;
mod turn;
mod turn_result;

pub use executor::{REGISTRATION, SUBCOMMAND};
pub use process::main;
