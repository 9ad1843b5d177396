//! The parrot's process: its setup, and the turns that it runs.

use std::{
    io::{self, Write},
    os::fd::{AsFd as _, OwnedFd},
};

use serde_json::json;

use super::{VERSION, options::ParrotOptions, turn::ParrotTurn};
use crate::scripted_claude::{ClaudeSetup, ScriptedClaude, TokenCounting};

/// Runs the hidden subcommand: [`run`] on this process's own pipes. Needs no Tokio runtime. Call it
/// before setting up anything large, because every session may have its own process.
pub fn main(arguments: impl IntoIterator<Item = String>) -> u8 {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let output = io::stdout().as_fd().try_clone_to_owned();
    let errors = &mut io::stderr();
    match input.and_then(|input| Ok((input, output?))) {
        Ok((input, output)) => run(arguments, input, output, errors),
        Err(error) => {
            let _nobody_reads = writeln!(errors, "parrot: stdin or stdout is closed: {error}");
            1
        }
    }
}

/// Serves turns until `input` ends. Returns the exit code: 0, or 1 if the last turn or the process
/// failed. A failure of the process is described in `errors`.
pub fn run(
    arguments: impl IntoIterator<Item = String>,
    input: OwnedFd,
    output: OwnedFd,
    errors: &mut impl Write,
) -> u8 {
    let ended =
        ParrotOptions::read(arguments).map_err(|error| error.to_string()).and_then(|options| {
            ScriptedClaude::new(setup(options), input, output)
                .serve(|turn| ParrotTurn { turn }.run())
        });
    ended.unwrap_or_else(|why| {
        let _nobody_reads = writeln!(errors, "parrot: {why}");
        1
    })
}

fn setup(options: ParrotOptions) -> ClaudeSetup {
    let model = ParrotOptions::DEFAULT_MODEL;
    ClaudeSetup {
        session: options.session,
        model: options.model,
        default_model: model,
        version: VERSION.to_owned(),
        permission_mode: "default".to_owned(),
        partial_messages: true,
        message_ids: true,
        counting: TokenCounting::Words,
        context_window: None,
        initialize_fields: json!({
            "models": [{"value": model, "resolvedModel": model, "displayName": "Parrot",
                "description": "Angelia's built-in demo; repeats"}],
            "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "parrot"},
            "version": VERSION,
        }),
        init_fields: json!({"tools": ["AskUserQuestion", "Bash"], "slash_commands": [],
            "apiKeySource": "none", "version": VERSION}),
        input_log: None,
    }
}
