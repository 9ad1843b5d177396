//! `angelia run`: runs one turn, rendered for a person as it happens or printed as events.
//!
//! - [`prompt`] and [`attachments`]: the input of the turn.
//! - [`continued_session`]: finds the session for `-s` or `-c`; [`submit`]: submits the turn to it
//!   or to a new one; [`running_turn`]: follows it; [`detached`]: leaves it to the daemon.
//! - [`rendered_turn`]: shows the turn to a person, event by event with the [`renderer`] on a
//!   [`screen`], which ends with [`open_rows`]; [`running_tools`]: the tools that have not ended.
//! - [`desktop_notice`]: notifies a person who is looking elsewhere.
//! - [`approval_queue`]: the questions for the person, one [`approval_prompt`] at a time, shown by
//!   [`approval_view`] and answered with the [`keyboard`].
//! - [`park_tracker`]: decides whether the command waits for a parked turn.
//! - [`signals`]: the first and the second Ctrl-C.

mod approval_prompt;
mod approval_queue;
pub(super) mod approval_view;
pub(super) mod attachments;
pub(super) mod continued_session;
mod desktop_notice;
mod detached;
pub(super) mod keyboard;
pub(super) mod open_rows;
mod park_tracker;
mod prompt;
mod rendered_turn;
mod renderer;
mod running_tools;
mod running_turn;
mod screen;
pub(super) mod signals;
pub(super) mod submit;

use std::{
    io::{self, IsTerminal},
    path::Path,
    sync::Arc,
    time::Duration,
};

use angelia_core::model::{TurnId, TurnStatus};
use angelia_frontends::event_json::write_event;

pub(crate) use self::running_turn::RunningTurn;
use self::{
    desktop_notice::DesktopNotifier,
    keyboard::Keyboard,
    rendered_turn::{RenderedEnd, RenderedTurn},
    renderer::TurnRenderer,
    screen::Screen,
    signals::{StopRequest, StopSignals},
};
use super::{
    args::RunArgs,
    error::{CommandError, Exit},
    print,
};
use crate::{
    assemble::App,
    home_turns::{HomeTurns, TurnsUse},
};

const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

pub(crate) async fn run(
    app: &Arc<App>,
    config: Option<&Path>,
    args: RunArgs,
) -> Result<Exit, CommandError> {
    if args.detach {
        let text = prompt::read(args.prompt.as_deref())?;
        let input = attachments::with_files(text, &args.files)?;
        let at_terminal = io::stderr().is_terminal() && io::stdin().is_terminal();
        return detached::run(app, config, &args, input, at_terminal).await;
    }
    let json = args.json;
    match run_turn(app, args).await {
        Ok(status) => Ok(Exit::of_status(&status)),
        // If the output cannot be written, an event cannot report that either.
        Err(error) if json && !error.is_after_end && error.exit != Exit::Output => {
            report_as_event(&error)
        }
        Err(error) => Err(error),
    }
}

async fn run_turn(app: &Arc<App>, args: RunArgs) -> Result<TurnStatus, CommandError> {
    let text = prompt::read(args.prompt.as_deref())?;
    let input = attachments::with_files(text, &args.files)?;
    // From here on, a signal stops the turn instead of ending this process.
    let signals = StopSignals::listen().map_err(CommandError::internal)?;
    let json = args.json;
    let asks = !json && io::stderr().is_terminal();
    let keyboard = if asks { Keyboard::open() } else { None };
    let can_ask = keyboard.is_some();
    let continued = continued_session::find(app, &args).await?.map(|session| session.id);
    HomeTurns::with(TurnsUse::New, app, "run", |turns| async move {
        let session = submit::open_session(app, &*turns, &args, continued, can_ask).await?;
        let one_off = continued.is_none() && args.session.is_none();
        let new = submit::NewTurn { session: session.id, input, can_ask, one_off };
        let accepted = submit::submit(&*turns, new).await?;
        let turn = RunningTurn::new(turns, accepted, can_ask);
        let signals = Some(signals);
        if json {
            return print_events(turn, signals).await;
        }
        Ok(follow_rendered(app, turn, args.raw, signals, keyboard).await?.status)
    })
    .await
}

/// Follows a turn that another client started, for `angelia turns watch`. Ctrl-C ends only the
/// watching, never the turn.
pub(crate) async fn watch(app: &Arc<App>, turn: TurnId, json: bool) -> Result<Exit, CommandError> {
    HomeTurns::with(TurnsUse::Existing, app, "run", |turns| async move {
        let mut signals = StopSignals::listen().map_err(CommandError::internal)?;
        let followed = async {
            let turn = RunningTurn::watch(turns, turn).await?;
            if json {
                return print_events(turn, None).await;
            }
            Ok(follow_rendered(app, turn, false, None, None).await?.status)
        };
        tokio::select! {
            status = followed => status.map(|status| Exit::of_status(&status)),
            _ = signals.next() => Ok(Exit::Interrupted),
        }
    })
    .await
}

/// Shows a turn to a person until it ends. With a keyboard, asks the person for decisions.
pub(super) async fn follow_rendered(
    app: &App,
    turn: RunningTurn,
    is_raw: bool,
    signals: Option<StopSignals>,
    keyboard: Option<Keyboard>,
) -> Result<RenderedEnd, CommandError> {
    let screen = Screen::of_this_process(&app.environment, is_raw);
    let show = TurnRenderer::new(screen, keyboard.is_some());
    let notifier = keyboard.as_ref().and_then(|_| DesktopNotifier::new(app));
    RenderedTurn::new(turn, keyboard, show, notifier).follow(signals).await
}

/// Prints the events, one JSON object per line, and nothing else.
async fn print_events(
    mut turn: RunningTurn,
    mut signals: Option<StopSignals>,
) -> Result<TurnStatus, CommandError> {
    let mut output = OutputState::default();
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        let events = tokio::select! {
            events = turn.next() => events?,
            request = signals::next_stop(&mut signals) => {
                // Continue the loop after a stop, because the turn still reports its own end.
                turn.stop(request == StopRequest::Kill).await;
                continue;
            }
        };
        buffer.clear();
        for event in &*events {
            write_event(event, &mut buffer);
            buffer.push(b'\n');
        }
        let was_open = output.is_open();
        output.note(print::write_stdout(&buffer));
        if let Some(outcome) = events.outcome() {
            return output.conclude(&outcome.status);
        }
        if was_open && !output.is_open() {
            // The turn is recorded, but there is no point in continuing it.
            turn.stop(false).await;
        }
    }
}

/// Whether this command's output can still be written.
#[derive(Debug, Default)]
struct OutputState(Option<io::Error>);

impl OutputState {
    /// Records the result of a write. The first error counts.
    fn note(&mut self, written: io::Result<()>) {
        if let (None, Err(error)) = (&self.0, written) {
            self.0 = Some(error);
        }
    }

    fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the status of the turn, unless the output could not be written.
    fn conclude(self, status: &TurnStatus) -> Result<TurnStatus, CommandError> {
        match self.0 {
            Some(error) if !print::is_reader_gone(&error) => Err(print::output_error(&error)),
            _ => Ok(status.clone()),
        }
    }
}

/// Prints a failure before the submission as a `turn.finished` event, so that readers of the events
/// always get one.
fn report_as_event(error: &CommandError) -> Result<Exit, CommandError> {
    let event = prompt::unsubmitted_event(error);
    let mut line = Vec::new();
    write_event(&event, &mut line);
    line.push(b'\n');
    print::bytes(&line)?;
    Ok(error.exit)
}
