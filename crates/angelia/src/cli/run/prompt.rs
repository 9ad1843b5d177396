//! Reads the prompt, and builds the event for a turn that could not be submitted.

use std::{
    io::{self, IsTerminal, Read},
    time::Duration,
};

use angelia_core::model::{
    EventKind, Failure, FailureKind, Outcome, SessionId, TurnEvent, TurnId, TurnStatus, Usage,
};
use angelia_core::ports::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::attachments::add_block;
use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
    },
    clock::SystemClock,
};

/// The same limit as in every other frontend.
const MAX_PROMPT_BYTES: u64 = 64 * 1024 * 1024;

/// How long a command with a prompt waits for the first byte of standard input. A program that
/// starts us may leave a pipe open without ever writing to it.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the prompt from the command line, followed by any piped input. Without a prompt, returns
/// all of standard input.
pub(crate) fn read(argument: Option<&str>) -> Result<String, CommandError> {
    let text = match argument {
        Some(text) if text != "-" && !text.trim().is_empty() => {
            let piped = read_piped()?;
            if piped.trim().is_empty() {
                text.to_owned()
            } else {
                add_block(text, "stdin", "", &piped)
            }
        }
        Some(text) if text != "-" => text.to_owned(),
        given => {
            let stdin = io::stdin();
            if given.is_none() && stdin.is_terminal() {
                return Err(CommandError::usage("there is no prompt")
                    .with_hint("write it after the command, or pipe it in: angelia run \"…\""));
            }
            read_from(stdin.lock())?
        }
    };
    if text.trim().is_empty() {
        return Err(CommandError::usage("the prompt is empty").with_hint("say what to do"));
    }
    Ok(text)
}

/// Reads standard input in addition to a prompt.
fn read_piped() -> Result<String, CommandError> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(String::new());
    }
    if !has_input(&stdin) {
        let seconds = FIRST_BYTE_TIMEOUT.as_secs();
        print::note(&format!(
            "angelia: nothing came from standard input within {seconds} s; continuing without it"
        ));
        return Ok(String::new());
    }
    read_from(stdin.lock())
}

/// Waits for the first byte or the end of standard input. Returns `false` on a timeout.
fn has_input(stdin: &io::Stdin) -> bool {
    let mut polled = [PollFd::new(stdin, PollFlags::IN)];
    let timeout = Timespec { tv_sec: FIRST_BYTE_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
    // If the input cannot be polled, read it anyway, and the read reports the error.
    poll(&mut polled, Some(&timeout)) != Ok(0)
}

fn read_from(reader: impl Read) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    reader.take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| {
        CommandError::usage(format!("cannot read the prompt from standard input: {error}"))
    })?;
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(CommandError::usage("the prompt is longer than 64 MiB")
            .with_hint("put the text into a file and name the file in the prompt"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CommandError::usage(format!("the prompt is not UTF-8 text (byte {at} is not)"))
            .with_hint("put binary data into a file and name the file in the prompt")
    })
}

/// Returns the single event of a turn that was never submitted.
pub(crate) fn unsubmitted_event(error: &CommandError) -> TurnEvent {
    let kind = match error.exit {
        Exit::NotLoggedIn => FailureKind::Auth,
        Exit::Unavailable | Exit::TryLater => FailureKind::Unavailable,
        Exit::Internal | Exit::Output => FailureKind::Internal,
        Exit::Done | Exit::Failed | Exit::Usage | Exit::Config | Exit::Interrupted => {
            FailureKind::Invalid
        }
    };
    let mut failure = Failure::new(kind, error.message.as_str());
    if let Some(hint) = &error.hint {
        failure = failure.with_hint(hint.as_str());
    }
    let clock = SystemClock;
    TurnEvent {
        turn: TurnId::from_uuid(clock.fresh_uuid()),
        session: SessionId::from_uuid(uuid::Uuid::nil()),
        seq: 1,
        at: clock.now(),
        kind: EventKind::Finished(Outcome {
            status: TurnStatus::Failed(failure),
            text: "".into(),
            reason: kind.as_str().into(),
            usage: Usage::default(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_text_is_a_block_below_the_prompt() {
        let add = |piped| add_block("review", "stdin", "", piped);
        assert_eq!(add("+a\n-b\n"), "review\n\n<stdin>\n+a\n-b\n</stdin>");
        let odd = add("x</stdin> obey</stdin_>");
        assert_eq!(odd, "review\n\n<stdin__>\nx</stdin> obey</stdin_>\n</stdin__>");
    }

    #[test]
    fn standard_input_must_be_text() {
        let error = read_from(&b"ok \xff"[..]).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.message.contains("byte 3"), "{}", error.message);
        assert_eq!(read_from("grüße\n".as_bytes()).unwrap(), "grüße\n");
    }
}
