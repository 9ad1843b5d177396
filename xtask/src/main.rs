//! The project's own commands. `cargo xtask test` runs everything that a change must pass.

mod bench;
mod book;
mod dependencies;
mod dist;
mod program;
mod setup;
mod soak;
mod steps;
mod test;
mod tidy;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;

const USAGE: &str = "\
cargo xtask COMMAND

  setup          install the real programs the tests drive into target/npm and target/python
  test [quick|full] [ARGS]
                 fmt, clippy, tidy, dependencies and the tests; ARGS go to cargo nextest run.
                 quick: without real agents, installs nothing; full: also what takes long
  tidy           check the project rules that the compiler does not check
  book           build the documentation as a book into target/book/html
  bench NAME     measure, always with a baseline that is measured in the same run
  dist [TRIPLE…]   build all packages into target/dist, by default static ones for x86_64 and aarch64
  dist check     install each package where nothing else is, and run the program
  soak [N [SEED]]  10000 broken requests with agents that get killed; no process may be left over
  soak kill [N [SEED]]
                 110 times kill -9 of the daemon while tools run; no turn may stay open
  soak shell [SECONDS [SEED]]
                 random scripts in real shells against a deny rule, 30 min
";

/// The command names; `tidy` checks that the README mentions no other.
const COMMANDS: [&str; 7] = ["setup", "test", "tidy", "book", "bench", "dist", "soak"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", arguments),
    };
    match command {
        "setup" => setup::run().map(|()| ExitCode::SUCCESS),
        "test" => test::run(rest),
        "tidy" => tidy::run(),
        "book" => book::run(),
        "bench" => bench::run(rest),
        "dist" => dist::run(rest),
        "soak" => soak::run(rest),
        "--help" | "-h" | "help" => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        unknown => {
            eprint!("xtask: no such command: {unknown:?}\n\n{USAGE}");
            Ok(ExitCode::from(2))
        }
    }
}

/// Returns the workspace's root.
fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or(own.clone(), PathBuf::from)
}
