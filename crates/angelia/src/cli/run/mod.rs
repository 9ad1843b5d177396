//! `angelia run`: runs one turn, rendered for a person as it happens or printed as events.
//!
//! - [`continued_session`]: finds the session that `-s` or `-c` means; [`submit`]: submits the turn,
//!   to that one or a new one; [`running_turn`]: follows it.
//! - [`rendered_turn`]: shows it to a person, event by event with the [`renderer`] on a [`screen`].
//! - [`approval_queue`]: what the person is asked, one [`approval_prompt`] at a time, shown by
//!   [`approval_view`] and answered with the [`keyboard`].
//! - [`park_tracker`]: decides whether the command waits for a parked turn.
//! - [`signals`]: the first and the second Ctrl-C.

mod approval_prompt;
mod approval_queue;
mod approval_view;
mod continued_session;
mod keyboard;
mod park_tracker;
mod prompt;
mod rendered_turn;
mod renderer;
mod running_turn;
mod screen;
pub(super) mod signals;
mod submit;

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::Duration,
};

use angelia_core::model::{TurnId, TurnStatus};
use angelia_frontends::event_json::write_event;

pub(crate) use self::running_turn::RunningTurn;
use self::{
    keyboard::Keyboard,
    rendered_turn::RenderedTurn,
    renderer::TurnRenderer,
    screen::Screen,
    signals::{StopRequest, StopSignals},
};
use super::{
    args::RunArgs,
    error::{CommandError, Exit},
    print,
};
use crate::{assemble::App, home_turns::HomeTurns};

const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

pub(crate) async fn run(app: &Arc<App>, args: RunArgs) -> Result<Exit, CommandError> {
    let json = args.json;
    match run_turn(app, args).await {
        Ok(status) => Ok(Exit::of_status(&status)),
        // An event that cannot be written cannot report that.
        Err(error) if json && !error.is_after_end && error.exit != Exit::Output => {
            report_as_event(&error)
        }
        Err(error) => Err(error),
    }
}

async fn run_turn(app: &Arc<App>, args: RunArgs) -> Result<TurnStatus, CommandError> {
    let text = prompt::read(args.prompt.as_deref())?;
    // From here on a signal stops the turn instead of ending this process.
    let signals = StopSignals::listen().map_err(CommandError::internal)?;
    let json = args.json;
    let asks = !json && io::stderr().is_terminal();
    let keyboard = if asks { Keyboard::open() } else { None };
    let can_ask = keyboard.is_some();
    let continued = continued_session::find(app, &args).await?.map(|session| session.id);
    HomeTurns::with_new(app, "run", |turns| async move {
        let accepted = submit::submit(app, &*turns, &args, continued, text, can_ask).await?;
        let turn = RunningTurn::new(turns, accepted, can_ask);
        follow(app, turn, json, Some(signals), keyboard).await
    })
    .await
}

/// `angelia turns watch`: follows a turn that another client started. Ctrl-C ends only the
/// watching, never the turn.
pub(crate) async fn watch(app: &Arc<App>, turn: TurnId, json: bool) -> Result<Exit, CommandError> {
    HomeTurns::with(app, "run", |turns| async move {
        let mut signals = StopSignals::listen().map_err(CommandError::internal)?;
        let followed = async {
            let turn = RunningTurn::watch(turns, turn).await?;
            follow(app, turn, json, None, None).await
        };
        tokio::select! {
            status = followed => status.map(|status| Exit::of_status(&status)),
            _ = signals.next() => Ok(Exit::Interrupted),
        }
    })
    .await
}

async fn follow(
    app: &App,
    turn: RunningTurn,
    json: bool,
    signals: Option<StopSignals>,
    keyboard: Option<Keyboard>,
) -> Result<TurnStatus, CommandError> {
    if json {
        print_events(turn, signals).await
    } else {
        let screen = Screen::of_this_process(&app.environment);
        let show = TurnRenderer::new(screen, keyboard.is_some());
        RenderedTurn::new(turn, keyboard, show).follow(signals).await
    }
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
                // The loop goes on after a stop: the turn still reports its own end.
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
            // The turn is recorded, but there is no point in running on.
            turn.stop(false).await;
        }
    }
}

/// Whether this command's output can still be written.
#[derive(Debug, Default)]
struct OutputState(Option<io::Error>);

impl OutputState {
    /// Takes the result of a write; the first error counts.
    fn note(&mut self, written: io::Result<()>) {
        if let (None, Err(error)) = (&self.0, written) {
            self.0 = Some(error);
        }
    }

    fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the status of the turn, unless the output was lost on its way to a reader.
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
