//! `notify-agent [--config FILE] [--from NAME] [--interrupt] (--to SESSION | SESSION) TEXT…`: types
//! text into a tmux session and submits it. Interrupts the program there only with `--interrupt`.

use std::{path::PathBuf, time::Duration};

use super::{sender, tmux::Tmux};
use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::Environment,
};

/// How long the program in the session may take to process the text before it is submitted.
const SETTLE_DELAY: Duration = Duration::from_millis(300);
/// How long a program may take to recover from an interrupt.
const RECOVERY_DELAY: Duration = Duration::from_millis(500);

const USAGE: &str = "usage: notify-agent [--config FILE] [--from NAME] [--interrupt] \
                     (--to SESSION | SESSION) TEXT…";

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AgentArgs {
    pub(super) rules: Option<PathBuf>,
    pub(super) from: Option<String>,
    pub(super) interrupt: bool,
    pub(super) session: String,
    pub(super) text: String,
}

/// Parses the arguments. Options come first; from the first other word on, everything is text, even
/// if it looks like an option.
pub(super) fn parse(words: &[String]) -> Result<AgentArgs, CommandError> {
    let mut args = AgentArgs::default();
    let mut to = None;
    let mut rest = words.iter();
    let text: Vec<&str> = loop {
        let Some(word) = rest.next() else {
            break Vec::new();
        };
        let mut value = || {
            let missing = || CommandError::new(Exit::Failed, format!("{word} needs a value"));
            rest.next().cloned().ok_or_else(missing)
        };
        match word.as_str() {
            "--config" | "--rules" => args.rules = Some(value()?.into()),
            "--from" => args.from = Some(value()?),
            "--to" => to = Some(value()?),
            "--interrupt" => args.interrupt = true,
            // Accepted for compatibility; it never had an effect.
            "--simple" => {}
            "--" => break rest.map(String::as_str).collect(),
            _ => {
                break std::iter::once(word).chain(rest).map(String::as_str).collect();
            }
        }
    };
    let (session, text) = match (to, text.as_slice()) {
        (Some(session), text) => (session, text.join(" ")),
        (None, [session, text @ ..]) => ((*session).to_owned(), text.join(" ")),
        (None, []) => (String::new(), String::new()),
    };
    if session.is_empty() || text.trim().is_empty() {
        return Err(CommandError::new(Exit::Failed, "there is nothing to type").with_hint(USAGE));
    }
    Ok(AgentArgs { session, text, ..args })
}

pub(super) async fn run(environment: &Environment, words: &[String]) -> Result<Exit, CommandError> {
    if words.first().is_some_and(|word| word == "--help" || word == "-h") {
        return print::line(USAGE);
    }
    let args = parse(words)?;
    let roles = sender::load_roles(environment, args.rules.as_deref())?;
    let text = match &args.from {
        Some(from) => format!("⚕ [{}]: {}", roles.name(from), args.text),
        None => args.text.clone(),
    };
    let tmux = Tmux::new(environment)?;
    if !tmux.has_session(&args.session).await? {
        let what = format!("there is no tmux session `{}`", args.session);
        return Err(CommandError::new(Exit::Failed, what).with_hint("`tmux ls` shows them"));
    }
    if args.interrupt {
        tmux.press_key(&args.session, "C-c").await?;
        tokio::time::sleep(RECOVERY_DELAY).await;
    }
    tmux.type_text(&args.session, &text).await?;
    tokio::time::sleep(SETTLE_DELAY).await;
    tmux.press_key(&args.session, "Enter").await?;
    print::line(&format!("OK: typed into {}", args.session))
}
