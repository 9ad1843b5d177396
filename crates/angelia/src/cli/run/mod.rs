//! `angelia run`: runs one turn, rendered for a person as it happens or printed as events.
//!
//! - [`turn_host`]: runs the turn in this process or in the daemon.
//! - [`renderer`] on a [`screen`]: renders the turn for a person.
//! - [`approval_prompt`] with the [`keyboard`]: asks the person for decisions.
//! - [`park_tracker`]: decides whether the command waits for a parked turn.
//! - [`signals`]: the first and the second Ctrl-C.

mod approval_prompt;
mod keyboard;
mod park_tracker;
mod prompt;
mod renderer;
mod screen;
pub(super) mod signals;
mod turn_host;

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use angelia_core::model::{EventKind, Outcome, TurnEvent, TurnId, TurnStatus};
use angelia_frontends::event_json::write_event;
use tokio::time::{Instant, MissedTickBehavior, interval};

pub(crate) use self::turn_host::{RunningTurn, TurnHost};
use self::{
    approval_prompt::{ApprovalPrompt, PromptStep},
    keyboard::Keyboard,
    renderer::TurnRenderer,
    screen::Screen,
    signals::{StopRequest, StopSignals},
};
use super::{
    args::RunArgs,
    error::{CommandError, Exit},
    print,
};
use crate::assemble::App;

const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

pub(crate) async fn run(app: &Arc<App>, args: RunArgs) -> Result<Exit, CommandError> {
    let json = args.json;
    match run_turn(app, args).await {
        Ok(outcome) => Ok(exit_for_outcome(&outcome)),
        Err(error) if json => report_as_event(&error),
        Err(error) => Err(error),
    }
}

async fn run_turn(app: &Arc<App>, args: RunArgs) -> Result<Outcome, CommandError> {
    let text = prompt::read(args.prompt.as_deref())?;
    // From here on a signal stops the turn instead of ending this process.
    let wishes = StopSignals::listen().map_err(CommandError::internal)?;
    let json = args.json;
    let asks = !json && io::stderr().is_terminal();
    let keyboard = if asks { Keyboard::open() } else { None };
    let place = TurnHost::find(app).await?;
    let request = turn_host::TurnSubmission { args, text, can_ask: keyboard.is_some() };
    let outcome = match place.submit(request).await {
        Ok(turn) => follow(app, turn, json, Some(wishes), keyboard).await,
        Err(error) => Err(error),
    };
    place.close().await;
    outcome
}

/// `angelia turns watch`: follows a turn that another client started. Ctrl-C ends only the
/// watching, never the turn.
pub(crate) async fn watch(app: &Arc<App>, turn: TurnId, json: bool) -> Result<Exit, CommandError> {
    let place = TurnHost::find(app).await?;
    let mut wishes = StopSignals::listen().map_err(CommandError::internal)?;
    let followed = async {
        let turn = place.watch(turn).await?;
        follow(app, turn, json, None, None).await
    };
    let exit = tokio::select! {
        outcome = followed => outcome.map(|outcome| exit_for_outcome(&outcome)),
        _ = wishes.next() => Ok(Exit::Interrupted),
    };
    place.close().await;
    exit
}

async fn follow(
    app: &App,
    turn: RunningTurn,
    json: bool,
    wishes: Option<StopSignals>,
    keyboard: Option<Keyboard>,
) -> Result<Outcome, CommandError> {
    if json {
        print_events(turn, wishes).await
    } else {
        let no_colour = app.environment.non_empty("NO_COLOR").is_some();
        let show = TurnRenderer::new(Screen::of_this_process(no_colour));
        render_turn(turn, wishes, keyboard, show).await
    }
}

/// Prints the events, one JSON object per line, and nothing else.
async fn print_events(
    mut turn: RunningTurn,
    mut wishes: Option<StopSignals>,
) -> Result<Outcome, CommandError> {
    let mut out = io::stdout();
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        let events = tokio::select! {
            events = turn.next() => events?,
            wish = signals::next_stop(&mut wishes) => {
                // The loop goes on after a stop: the turn still reports its own end.
                turn.stop(wish == StopRequest::Kill).await;
                continue;
            }
        };
        buffer.clear();
        for event in &*events {
            write_event(event, &mut buffer);
            buffer.push(b'\n');
        }
        if out.write_all(&buffer).and_then(|()| out.flush()).is_err() {
            // The reader of stdout is gone. The turn is recorded, but there is no point in running
            // on.
            turn.stop(false).await;
        }
        if let Some(outcome) = final_outcome(&events) {
            return Ok(outcome);
        }
    }
}

async fn render_turn<Out: Write, Err: Write>(
    mut turn: RunningTurn,
    mut wishes: Option<StopSignals>,
    mut keyboard: Option<Keyboard>,
    mut show: TurnRenderer<Out, Err>,
) -> Result<Outcome, CommandError> {
    let began = Instant::now();
    let mut ticks = interval(SPINNER_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut asking: Vec<ApprovalPrompt> = Vec::new();
    let mut readable = true;
    loop {
        let typed = async {
            match (&mut keyboard, asking.first()) {
                (Some(keyboard), Some(_)) => keyboard.next_line().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            // Events come first: a decision by another client must withdraw its prompt before a
            // typed line is taken as the answer to it.
            biased;
            events = turn.next() => {
                let events = events?;
                for event in &*events {
                    readable &= show.render_event(event).is_ok();
                    update_prompts(&mut asking, event);
                }
                if let Some(outcome) = final_outcome(&events) {
                    return Ok(outcome);
                }
                if !readable {
                    turn.stop(false).await;
                }
                // `turns watch` has no keyboard and must not ask.
                if let (Some(first), Some(_)) = (asking.first(), &keyboard) {
                    readable &= show.screen.write_prompt(&first.prompt()).is_ok();
                }
            }
            wish = signals::next_stop(&mut wishes) => {
                let text = match wish {
                    StopRequest::Interrupt => "interrupting … (Ctrl-C again to kill)",
                    StopRequest::Kill => "killing …",
                };
                readable &= show.screen.write_line(screen::Tone::Warning, text).is_ok();
                turn.stop(wish == StopRequest::Kill).await;
            }
            line = typed => match line {
                // The terminal is closed, so approvals can no longer be answered.
                None => {
                    keyboard = None;
                    turn.stop(false).await;
                }
                Some(line) => {
                    if let Some(first) = asking.first_mut() {
                        match first.handle_line(&line) {
                            PromptStep::Decided(decision) => {
                                let id = first.approval.id;
                                asking.remove(0);
                                turn.decide(id, decision).await;
                            }
                            PromptStep::NeedsInput => {
                                readable &= show.screen.write_prompt(&first.prompt()).is_ok();
                            }
                        }
                    }
                }
            },
            // The spinner would overwrite the line that the person types.
            _ = ticks.tick(), if asking.is_empty() => {
                readable &= show.tick(began.elapsed().as_secs()).is_ok();
            }
        }
    }
}

/// Updates the open approval prompts; an approval that another client has decided is removed.
fn update_prompts(asking: &mut Vec<ApprovalPrompt>, event: &TurnEvent) {
    match &event.kind {
        EventKind::Approval(approval) => asking.push(ApprovalPrompt::new(approval.clone())),
        EventKind::Resolved(resolution) => asking.retain(|one| one.approval.id != resolution.id),
        _ => {}
    }
}

fn final_outcome(events: &[TurnEvent]) -> Option<Outcome> {
    match events.last().map(|event| &event.kind) {
        Some(EventKind::Finished(outcome)) => Some(outcome.clone()),
        _ => None,
    }
}

fn exit_for_outcome(outcome: &Outcome) -> Exit {
    match &outcome.status {
        TurnStatus::Completed | TurnStatus::Partial => Exit::Done,
        TurnStatus::Interrupted => Exit::Interrupted,
        TurnStatus::Parked { .. } => Exit::TryLater,
        TurnStatus::Failed(failure) => Exit::of_failure(failure.kind),
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
