//! `angelia bus dead …`: lists, resends and discards messages that were refused or not received in
//! time.

use std::time::Duration;

use serde_json::{Value, json};

use super::DeadCommand;
use crate::{
    assemble::App,
    bus::{client::BusClient, sockets::BusSockets},
    cli::{
        error::{CommandError, Exit},
        print,
    },
};

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn run(app: &App, command: DeadCommand) -> Result<Exit, CommandError> {
    let sockets = BusSockets::of_app(app);
    let connected = sockets.connect().await;
    let mut line =
        connected.map_err(|error| sockets.unreachable_error(Exit::Unavailable, &error))?;
    match command {
        DeadCommand::List { limit, json } => list(&mut line, limit, json).await,
        DeadCommand::Resend { numbers } => apply_to_each(&mut line, "resend", &numbers).await,
        DeadCommand::Discard { numbers } => apply_to_each(&mut line, "discard", &numbers).await,
    }
}

async fn request(line: &mut BusClient, question: Value) -> Result<Value, CommandError> {
    let answer = line.request(&question, REPLY_TIMEOUT).await;
    let answer = answer.map_err(|error| {
        CommandError::new(Exit::Failed, format!("the bus does not answer: {error}"))
    })?;
    if answer["type"] == "rejected" {
        let why = answer["detail"].as_str().unwrap_or("it gave no reason");
        return Err(CommandError::new(Exit::Failed, format!("the bus refused: {why}")));
    }
    Ok(answer)
}

async fn list(line: &mut BusClient, limit: usize, as_json: bool) -> Result<Exit, CommandError> {
    let answer = request(line, json!({"type": "dead_letters", "limit": limit})).await?;
    let letters = answer["letters"].as_array().map_or(&[][..], Vec::as_slice);
    if letters.is_empty() && !as_json {
        return print::line("there are no dead letters");
    }
    for letter in letters {
        if as_json {
            print::line(&letter.to_string())?;
            continue;
        }
        print::line(&format!(
            "{}  {}  to {}  from {}: {}",
            letter["position"],
            letter["at"].as_str().unwrap_or_default(),
            letter["to"].as_str().unwrap_or_default(),
            letter["message"]["from"].as_str().unwrap_or("nobody"),
            letter["reason"].as_str().unwrap_or_default(),
        ))?;
    }
    Ok(Exit::Done)
}

async fn apply_to_each(
    line: &mut BusClient,
    what: &str,
    numbers: &[u64],
) -> Result<Exit, CommandError> {
    for number in numbers {
        request(line, json!({"type": what, "position": number})).await?;
    }
    Ok(Exit::Done)
}
