//! Formats a message with a template or with the owner's own program. If the program fails, uses
//! the plain text of the message.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::rules::{ColourMode, MessageFormat, RuleInput, Template},
    ports::{CommandProgram, CommandRunner, CommandSpec},
};
use jiff::{Timestamp, tz::TimeZone};

/// The time limit of a format program.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the formatted text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatPurpose {
    Print(ColourMode),
    Context,
}

impl FormatPurpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Print(_) => "print",
            Self::Context => "context",
        }
    }
}

/// Formats a message. If a format program is unusable, falls back to the template or the plain text
/// of the message, never to the program's path.
pub async fn render_message(
    commands: &dyn CommandRunner,
    format: &MessageFormat,
    seen: &RuleInput,
    zone: &TimeZone,
    purpose: FormatPurpose,
) -> String {
    let ink = match purpose {
        FormatPurpose::Print(ink) => ink,
        FormatPurpose::Context => ColourMode::Plain,
    };
    let Some(script) = &format.script else {
        return format.template.render(seen, zone, ink);
    };
    if !commands.is_program(script) {
        return format.without_script().render(seen, zone, ink);
    }
    match run_format_script(commands, script, seen, purpose).await {
        Some(words) => words,
        None => Template::message_text().render(seen, zone, ink),
    }
}

/// Returns the time and sender of a message, shown before its text. A message from another day
/// includes its date.
pub(super) fn message_heading(
    seen: &RuleInput,
    now: Timestamp,
    zone: &TimeZone,
    ink: ColourMode,
) -> String {
    let day = |at: Timestamp| at.to_zoned(zone.clone()).date();
    let heading = if day(seen.at) == day(now) {
        "{color:cyan}{ts:%H:%M:%S}{reset} {bold}{from}{reset}: "
    } else {
        "{color:cyan}{ts:%Y-%m-%d %H:%M:%S}{reset} {bold}{from}{reset}: "
    };
    Template::parse(heading).render(&seen.for_terminal(), zone, ink)
}

async fn run_format_script(
    commands: &dyn CommandRunner,
    script: &Arc<str>,
    seen: &RuleInput,
    purpose: FormatPurpose,
) -> Option<String> {
    let ran = commands
        .run(CommandSpec {
            program: CommandProgram::File(Arc::clone(script), Vec::new()),
            env: vec![
                ("FROM", Arc::clone(&seen.from)),
                ("TYPE", seen.kind.clone().unwrap_or_default()),
                ("TEXT", Arc::clone(&seen.text)),
                ("FORMAT_MODE", purpose.as_str().into()),
                ("TS", seen.at.as_second().to_string().into()),
            ],
            input: None,
            timeout: SCRIPT_TIMEOUT,
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
