//! Notifies a person who is looking elsewhere that a question is waiting or a long turn has ended:
//! through the desktop if there is one, or else through the terminal. A notification contains no
//! text from a model.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use angelia_core::model::TurnStatus;
use angelia_executors::process::system_tool::run_tool;
use jiff::SignedDuration;

use super::renderer::format_elapsed;
use crate::{
    assemble::App,
    cli::text_width::fit,
    config::{DesktopNotifications, Environment},
};

/// How long a question waits before the person is notified.
pub(super) const QUESTION_PATIENCE: Duration = Duration::from_secs(5);
/// A person who waits less than this is probably still watching.
const LONG_TURN: Duration = Duration::from_secs(30);
/// Maximum wait for a notification to be sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_PLACE_COLUMNS: usize = 40;

#[derive(Debug)]
pub(crate) struct DesktopNotifier {
    way: NoticeWay,
    environment: Environment,
    /// The name of the directory, to distinguish several terminals.
    place: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoticeWay {
    NotifySend,
    /// The escape sequence OSC 777.
    Terminal {
        in_tmux: bool,
    },
}

impl DesktopNotifier {
    /// Returns `None` if notifications are off, or there is no way to show one.
    pub(super) fn new(app: &App) -> Option<Self> {
        let way = choose_way(app.config.desktop_notifications(), &app.environment)?;
        let place = std::env::current_dir().ok();
        let place = place.as_deref().and_then(Path::file_name).unwrap_or_default();
        let environment = app.environment.clone();
        Some(Self { way, environment, place: plain_text(&place.to_string_lossy()) })
    }

    pub(super) async fn question_waits(&self) {
        self.send("an agent waits for your answer").await;
    }

    pub(super) async fn turn_ended(&self, status: &TurnStatus, took: Duration) {
        if let Some(text) = describe_end(status, took) {
            self.send(&text).await;
        }
    }

    async fn send(&self, text: &str) {
        let text = format!("{}: {text}", self.place);
        match self.way {
            NoticeWay::NotifySend => {
                let environment = self.environment.clone();
                let args = ["--app-name=angelia", "--", "Angelia", &text].map(str::to_owned);
                let sending = tokio::task::spawn_blocking(move || {
                    run_tool("notify-send", &args, environment.iter())
                });
                match tokio::time::timeout(SEND_TIMEOUT, sending).await {
                    Ok(Ok(Ok(output))) if output.status.success() => {}
                    failed => tracing::debug!(?failed, "the desktop was not notified"),
                }
            }
            NoticeWay::Terminal { in_tmux } => {
                let mut err = io::stderr().lock();
                // If stderr is closed, there is no person to notify.
                let _closed = err.write_all(osc_777(&text, in_tmux).as_bytes());
                let _closed = err.flush();
            }
        }
    }
}

/// Describes the end of a long turn, which the person has probably not watched. Returns `None` if
/// the turn was short, or the person ended it.
fn describe_end(status: &TurnStatus, took: Duration) -> Option<String> {
    if took < LONG_TURN || *status == TurnStatus::Interrupted {
        return None;
    }
    let took = SignedDuration::try_from(took).ok().map(format_elapsed)?;
    Some(format!("the turn has ended ({}, {took})", status.as_str()))
}

fn choose_way(setting: DesktopNotifications, environment: &Environment) -> Option<NoticeWay> {
    let is_set = |name: &str| environment.non_empty(name).is_some();
    if setting == DesktopNotifications::Off {
        return None;
    }
    let has_desktop = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    if has_desktop && is_installed("notify-send", environment) {
        return Some(NoticeWay::NotifySend);
    }
    let is_known = || knows_osc_777(environment);
    let is_wanted = setting == DesktopNotifications::On || is_known();
    let is_shown = io::stderr().is_terminal() && !crate::cli::view::is_dumb(environment);
    (is_wanted && is_shown).then_some(NoticeWay::Terminal { in_tmux: is_set("TMUX") })
}

fn is_installed(program: &str, environment: &Environment) -> bool {
    let Some(path) = environment.non_empty("PATH") else { return false };
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}

/// Returns whether this terminal is known to show OSC 777 as a notification. Others may print it as
/// text.
fn knows_osc_777(environment: &Environment) -> bool {
    let value = |name: &str| {
        environment.non_empty(name).map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let (term, program) = (value("TERM"), value("TERM_PROGRAM"));
    ["foot", "rxvt-unicode", "xterm-ghostty"].iter().any(|name| term.starts_with(name))
        || ["ghostty", "WezTerm"].contains(&program.as_str())
}

/// Returns the escape sequence. tmux passes it on to its terminal only inside an envelope.
fn osc_777(text: &str, in_tmux: bool) -> String {
    let sequence = format!("\x1b]777;notify;Angelia;{}\x07", plain_text(text));
    if in_tmux {
        format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
    } else {
        sequence
    }
}

/// Removes characters that would end or split the sequence.
fn plain_text(text: &str) -> String {
    let text: String = text.chars().filter(|char| !char.is_control() && *char != ';').collect();
    fit(&text, MAX_PLACE_COLUMNS * 2).into_owned()
}

#[cfg(test)]
mod tests {
    use angelia_core::model::{Failure, FailureKind};

    use super::*;

    #[test]
    fn a_notification_cannot_carry_a_sequence() {
        let text = osc_777("a;b\x1b]52;c;x\x07\u{9b}2J", false);
        assert_eq!(text, "\x1b]777;notify;Angelia;ab]52cx2J\x07");
        let inside = osc_777("done", true);
        assert_eq!(inside, "\x1bPtmux;\x1b\x1b]777;notify;Angelia;done\x07\x1b\\");
    }

    #[test]
    fn only_a_long_turn_that_ended_by_itself_is_told() {
        let long = Duration::from_secs(125);
        let told = describe_end(&TurnStatus::Completed, long);
        assert_eq!(told.as_deref(), Some("the turn has ended (completed, 2 min 5 s)"));
        let failed = TurnStatus::Failed(Failure::new(FailureKind::Agent, "model words"));
        let told = describe_end(&failed, long);
        assert_eq!(told.as_deref(), Some("the turn has ended (failed, 2 min 5 s)"));
        assert_eq!(describe_end(&TurnStatus::Interrupted, long), None);
        assert_eq!(describe_end(&TurnStatus::Completed, Duration::from_secs(29)), None);
    }
}
