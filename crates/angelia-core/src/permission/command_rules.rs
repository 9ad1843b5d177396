//! Decides which commands patterns allow and deny.

use std::fmt::Write as _;

use super::{
    guarded::allows_options,
    pattern::{PartlyKnown, may_match},
    shell::{Invocations, Piece, Redirect, RedirectKind, SimpleCommand, Word, folded, parse},
};
use crate::model::{CommandAccess, CommandLine, glob_matches};

/// Variables that do not change which program a command runs or what it does to files.
const HARMLESS_VARIABLES: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "CI",
    "DEBIAN_FRONTEND",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "NODE_ENV",
    "CARGO_TERM_COLOR",
    "GIT_TERMINAL_PROMPT",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
];

fn is_harmless(name: &str) -> bool {
    HARMLESS_VARIABLES.contains(&name) || name.starts_with("LC_")
}

/// Whether the subjects of patterns together cover everything the command does: each of its simple
/// commands is covered by one of them.
pub(super) fn covers_command(subjects: &[&str], command: &CommandAccess) -> bool {
    if !command.env.iter().all(|(name, _)| is_harmless(name)) {
        return false;
    }
    match &command.line {
        CommandLine::Shell(text) => {
            let is_same = |subject: &&str| !subject.contains('*') && **subject == **text;
            subjects.iter().any(is_same)
                || parse(text).is_ok_and(|script| {
                    !script.commands.is_empty()
                        && script.commands.iter().all(|one| covers_simple(subjects, one))
                })
        }
        CommandLine::Argv(argv) => {
            let words = argv.iter().map(|argument| Word::known(argument)).collect();
            covers_simple(subjects, &SimpleCommand { words, ..SimpleCommand::default() })
        }
    }
}

fn covers_simple(subjects: &[&str], command: &SimpleCommand) -> bool {
    if !command.redirects.iter().all(is_harmless_redirect) {
        return false;
    }
    let harmless = command.assignments.iter().all(|assignment| is_harmless(&assignment.name));
    if command.words.is_empty() {
        return harmless;
    }
    let plain = text_of(&command.words);
    let mut assigned = String::new();
    for one in &command.assignments {
        let value = text_of(std::slice::from_ref(&one.value));
        let _infallible = write!(assigned, "{}={value} ", one.name);
    }
    let with_assignments = format!("{assigned}{plain}");
    subjects.iter().any(|subject| {
        let matches = harmless && glob_matches(subject, &plain)
            || !assigned.is_empty() && glob_matches(subject, &with_assignments);
        matches && allows_options(subject, &command.words)
    })
}

fn is_harmless_redirect(redirect: &Redirect) -> bool {
    match redirect.kind {
        RedirectKind::Duplicate | RedirectKind::Here(_) | RedirectKind::HereString => true,
        RedirectKind::Read | RedirectKind::Write => {
            redirect.target.literal().as_deref() == Some("/dev/null")
        }
    }
}

/// The words as one text. An unknown part becomes a character that only `*` matches.
fn text_of(words: &[Word]) -> String {
    const UNKNOWN: char = '\0';
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        for piece in &word.pieces {
            match piece {
                Piece::Text { text: known, .. } => text.push_str(known),
                Piece::Hole { .. } => text.push(UNKNOWN),
            }
        }
    }
    text
}

/// Returns the reason why a deny rule with this subject refuses the command: the subject matches a
/// part of it, or the text does not tell which programs the command runs.
pub(super) fn denial(subject: &str, command: &CommandAccess) -> Option<CommandDenial> {
    let found = match &command.line {
        CommandLine::Shell(text) => {
            if glob_matches(subject, text) {
                return Some(CommandDenial::Matches);
            }
            Invocations::of_script(text)
        }
        CommandLine::Argv(argv) => {
            let argv: Vec<&str> = argv.iter().map(|argument| &**argument).collect();
            Invocations::of_argv(&argv)
        }
    };
    let variables = command.env.iter().map(|(name, value)| (&**name, &**value));
    let found = match found.and_then(|found| found.with_environment(variables)) {
        Ok(found) => found,
        Err(why) => return Some(CommandDenial::Unknown(why)),
    };
    let is_match = found.all.iter().any(|invocation| {
        let arguments = invocation.words.get(1..).unwrap_or_default();
        let written = invocation.words.first().and_then(Word::literal).unwrap_or_default();
        // Some file systems do not tell upper from lower case.
        let (folded_subject, folded_name) = (with_folded_name(subject), folded(&invocation.name));
        let names =
            [(subject, &*written), (subject, &*invocation.name), (&*folded_subject, &*folded_name)];
        names.into_iter().any(|(subject, name)| {
            let mut text = partly_known(name, arguments);
            // `rm *` also covers `rm` without arguments.
            may_match(subject, &text) || {
                text.push(Some(' '));
                may_match(subject, &text)
            }
        })
    });
    is_match.then_some(CommandDenial::Matches)
}

/// The subject with its first word, the name of a command, in lower case.
fn with_folded_name(subject: &str) -> String {
    let (name, rest) = subject.split_at(subject.find(' ').unwrap_or(subject.len()));
    folded(name) + rest
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandDenial {
    Matches,
    /// The text does not tell which programs the command runs.
    Unknown(&'static str),
}

fn partly_known(name: &str, arguments: &[Word]) -> PartlyKnown {
    let mut text: PartlyKnown = name.chars().map(Some).collect();
    for word in arguments {
        text.push(Some(' '));
        if word.literal().is_none() && word.plain_text().is_some() {
            // A file name pattern becomes other text.
            text.push(None);
            continue;
        }
        for piece in &word.pieces {
            match piece {
                Piece::Text { text: known, .. } => text.extend(known.chars().map(Some)),
                Piece::Hole { .. } => text.push(None),
            }
        }
    }
    text
}
