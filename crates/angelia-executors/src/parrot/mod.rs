//! The parrot: an agent that is part of the program, so that everything can be seen and tried
//! where no coding agent is installed.
//!
//! It is a process of its own, as any other agent (this program with the hidden subcommand
//! `parrot`), and speaks the same stream-json protocol, so that it is driven, supervised and
//! recorded by the same code. It has no model, remembers nothing, reads no file, runs no command,
//! opens no connection, and says in its answers that it is a demo.
//!
//! Plain text is repeated. A line that begins with one of these is carried out, in order:
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
//! - `executor`: the process as a kind of agent.
//! - [`process`]: the process: its loop, its waiting, the requests it answers.
//! - `options`, `inbox`: its arguments and its stdin.
//! - `script`: a prompt becomes steps. Pure.
//! - `turn`, `tools`, `message`, `ending`, `failing`: the steps become lines.
//! - `speech`: stdout.

#[cfg(test)]
mod conformance;
mod ending;
mod executor;
mod failing;
mod inbox;
mod message;
mod options;
pub mod process;
mod script;
mod speech;
mod tools;
mod turn;

pub use executor::{REGISTRATION, SUBCOMMAND};
pub use process::main;
