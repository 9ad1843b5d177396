//! How a message is put into words: by a template, or by a program of the owner's. A program that
//! fails costs nothing but its own words.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::rules::{Format, Ink, Seen, Template},
    ports::{CommandLine, Commands, Program},
};
use jiff::tz::TimeZone;

/// A program that has not found its words by then goes without.
const SCRIPT_LIMIT: Duration = Duration::from_secs(5);

/// What the words are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Print(Ink),
    Context,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Print(_) => "print",
            Self::Context => "context",
        }
    }
}

/// The words for a message; always some, and never the path of a program.
pub async fn words(
    commands: &dyn Commands,
    format: &Format,
    seen: &Seen,
    zone: &TimeZone,
    purpose: Purpose,
) -> String {
    let ink = match purpose {
        Purpose::Print(ink) => ink,
        Purpose::Context => Ink::Plain,
    };
    let Some(script) = &format.script else {
        return format.template.render(seen, zone, ink);
    };
    if !commands.is_program(script) {
        return format.without_script().render(seen, zone, ink);
    }
    match scripted(commands, script, seen, purpose).await {
        Some(words) => words,
        None => Template::text().render(seen, zone, ink),
    }
}

async fn scripted(
    commands: &dyn Commands,
    script: &Arc<str>,
    seen: &Seen,
    purpose: Purpose,
) -> Option<String> {
    let ran = commands
        .run(CommandLine {
            program: Program::File(Arc::clone(script), Vec::new()),
            env: vec![
                ("FROM", Arc::clone(&seen.from)),
                ("TYPE", seen.kind.clone().unwrap_or_default()),
                ("TEXT", Arc::clone(&seen.text)),
                ("FORMAT_MODE", purpose.as_str().into()),
                ("TS", seen.at.as_second().to_string().into()),
            ],
            input: None,
            limit: SCRIPT_LIMIT,
        })
        .await;
    match ran {
        Ok(ran) if ran.ok => {
            let words = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
            (!words.is_empty()).then_some(words)
        }
        Ok(ran) => {
            let why = if ran.timed_out { "took too long" } else { "failed" };
            tracing::warn!("the format program {script} {why}; the text is used as it is");
            None
        }
        Err(error) => {
            tracing::warn!("the format program {script} was not run: {error}");
            None
        }
    }
}
