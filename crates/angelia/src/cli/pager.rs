//! Shows a long text, in a pager if a person is at the terminal.

use std::{ffi::OsString, io::Write as _};

use angelia_executors::process::foreground::start_foreground;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    error::{CommandError, Exit},
    print,
    view::View,
};
use crate::config::Environment;

/// These options quit if the text fits on the screen, keep colours, and leave the text on the
/// screen.
const DEFAULT_PAGER: [&str; 2] = ["less", "-FRX"];

/// Prints a text whose parts have passed `show_controls`.
pub(crate) async fn print(
    environment: &Environment,
    view: &View,
    text: String,
) -> Result<Exit, CommandError> {
    let pager = pager_command(environment);
    let (true, Some((program, arguments))) = (view.is_terminal, pager) else {
        return print::styled(&text);
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Ctrl-C belongs to the pager while it runs.
    let _held = signal(SignalKind::interrupt()).map_err(CommandError::internal)?;
    let Ok(mut pager) = start_foreground(&program, &arguments) else {
        return print::styled(&text);
    };
    let waiting = tokio::task::spawn_blocking(move || {
        if let Some(mut input) = pager.stdin.take() {
            // The person may quit before the end of the text.
            let _left = input.write_all(text.as_bytes());
        }
        pager.wait()
    });
    match waiting.await {
        Ok(Ok(_)) => Ok(Exit::Done),
        Ok(Err(error)) => Err(CommandError::internal(error)),
        Err(error) => Err(CommandError::internal(error)),
    }
}

/// Returns the person's pager; `None` if the person has turned paging off.
fn pager_command(environment: &Environment) -> Option<(OsString, Vec<String>)> {
    let Some(chosen) = environment.get("PAGER") else {
        return Some((DEFAULT_PAGER[0].into(), vec![DEFAULT_PAGER[1].to_owned()]));
    };
    let chosen = chosen.to_str()?;
    let mut words = chosen.split_whitespace().map(str::to_owned);
    let program = words.next().filter(|program| program != "cat")?;
    let mut arguments: Vec<String> = words.collect();
    if program.rsplit('/').next() == Some("less") && arguments.is_empty() {
        arguments.push(DEFAULT_PAGER[1].to_owned());
    }
    Some((program.into(), arguments))
}
