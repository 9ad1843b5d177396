//! Handles the editor's messages. Answers and cancellations take effect at once; requests are
//! handled one by one in their order. A prompt is only started in that order and then runs
//! concurrently.

use std::{sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::CancelNotification;
use angelia_core::{engine::Engine, model::SessionId, ports::Profiles, task::Tasks};
use angelia_wire::jsonrpc::{DecodeError, Id, Incoming, decode};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;

use super::{
    connection::{Connection, Settings},
    errors::{INVALID_REQUEST, PARSE_ERROR, Refusal},
    greeting::{authenticate, initialize},
    prompt,
};
use crate::stdio::{Input, Line, Output};

/// Limits the requests that wait for earlier ones.
const WAITING: usize = 64;

/// The time for the requests that are still queued when the input ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Why the connection to the editor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The editor closed our stdin.
    Eof,
    /// The editor no longer reads our stdout.
    Gone,
}

/// A message that is handled in order.
enum Item {
    Request(Request),
    /// Cancels the prompt that this session runs when the item is handled.
    Cancel(SessionId),
}

struct Request {
    id: Id<'static>,
    method: String,
    params: Option<Box<RawValue>>,
}

/// Serves one editor until it disconnects. Its turns may still run then: they belong to the engine,
/// and the caller must end the `tasks` that follow them.
pub async fn serve(
    engine: Engine,
    profiles: Arc<dyn Profiles>,
    settings: Settings,
    mut input: Input,
    output: Output,
    tasks: &Tasks,
) -> Ended {
    let connection = Connection::new(engine, profiles, settings, output.clone(), tasks.clone());
    let (requests, queue) = mpsc::channel(WAITING);
    let reading = async {
        let ended = loop {
            let line = tokio::select! {
                biased;
                () = output.gone() => break Ended::Gone,
                line = input.next() => line,
            };
            match line {
                Some(line) => take(&connection, line, &requests).await,
                None => break Ended::Eof,
            }
        };
        drop(requests);
        ended
    };
    let working = work(&connection, queue);
    let mut working = std::pin::pin!(working);
    let mut reading = std::pin::pin!(reading);
    let ended = tokio::select! {
        ended = &mut reading => ended,
        // Not expected: the queue does not end before the input does.
        () = &mut working => Ended::Eof,
    };
    if ended == Ended::Eof {
        let _late = tokio::time::timeout(LAST_ANSWERS, working).await;
    }
    // The editor will not answer: release the tasks that wait for it.
    connection.asked().close().for_each(drop);
    ended
}

async fn take(connection: &Arc<Connection>, line: Line, requests: &mpsc::Sender<Item>) {
    let line = match line {
        Line::Whole(line) => line,
        Line::TooLong { bytes, .. } => {
            let message = format!("a line of {bytes} bytes is too long and was skipped");
            let refusal = Refusal::new(INVALID_REQUEST, message);
            return connection.refuse_line(&refusal).await;
        }
        Line::Partial(_) => {
            let refusal = Refusal::new(PARSE_ERROR, "the input ended in the middle of a line");
            return connection.refuse_line(&refusal).await;
        }
    };
    match decode(&line) {
        Ok(Incoming::Request { id, method, params }) => {
            let request = Request {
                id: id.into_owned(),
                method: method.into_owned(),
                params: params.map(ToOwned::to_owned),
            };
            let _ended = requests.send(Item::Request(request)).await;
        }
        Ok(Incoming::Notification { method, params }) => {
            // Cancel now, and again in order: the prompt may still be in the queue.
            if let Some(session) = cancelled(&method, params) {
                connection.cancel(session);
                let _ended = requests.send(Item::Cancel(session)).await;
            }
        }
        Ok(Incoming::Response { id, result }) => connection.answered(id.as_ref(), result),
        Err(error) => {
            let code = match error {
                DecodeError::NotJson => PARSE_ERROR,
                DecodeError::NotAMessage | DecodeError::BadId => INVALID_REQUEST,
            };
            let refusal = Refusal::new(code, error.to_string());
            connection.refuse_line(&refusal).await;
        }
    }
}

/// Returns the session of a `session/cancel`. Other notifications are ignored.
fn cancelled(method: &str, params: Option<&RawValue>) -> Option<SessionId> {
    let params = params.filter(|_| method == "session/cancel")?;
    let cancel: CancelNotification = serde_json::from_str(params.get()).ok()?;
    cancel.session_id.0.parse().ok()
}

async fn work(connection: &Arc<Connection>, mut queue: mpsc::Receiver<Item>) {
    while let Some(item) = queue.recv().await {
        let request = match item {
            Item::Request(request) => request,
            Item::Cancel(session) => {
                connection.cancel(session);
                continue;
            }
        };
        if request.method == "session/prompt" {
            if let Err(refusal) = begin(connection, &request) {
                connection.refuse(&request.id, &refusal).await;
            }
            continue;
        }
        match handle(connection, &request).await {
            Ok(result) => connection.answer(&request.id, &*result).await,
            Err(refusal) => connection.refuse(&request.id, &refusal).await,
        }
    }
}

fn begin(connection: &Arc<Connection>, request: &Request) -> Result<(), Refusal> {
    let prompt = prompt::Prompt::accept(connection, request.id.clone(), read(request)?)?;
    let tasks = connection.tasks.clone();
    tasks.spawn(prompt.run(Arc::clone(connection)));
    Ok(())
}

fn read<T: DeserializeOwned>(request: &Request) -> Result<T, Refusal> {
    let params = request.params.as_deref().map_or("{}", RawValue::get);
    serde_json::from_str(params).map_err(|error| Refusal::params(&request.method, error))
}

type Result_ = Result<Box<RawValue>, Refusal>;

fn done(result: &impl Serialize) -> Result_ {
    to_raw_value(result).map_err(|error| Refusal::invalid(error.to_string()))
}

async fn handle(connection: &Arc<Connection>, request: &Request) -> Result_ {
    match request.method.as_str() {
        "initialize" => done(&initialize(connection, &read(request)?).await),
        "authenticate" => done(&authenticate(connection, &read(request)?).await?),
        "session/new" => done(&connection.new_session(read(request)?).await?),
        "session/load" => done(&connection.load_session(read(request)?).await?),
        "session/resume" => done(&connection.resume_session(read(request)?).await?),
        "session/fork" => done(&connection.fork_session(read(request)?).await?),
        "session/list" => done(&connection.list_sessions(read(request)?).await?),
        "session/delete" => done(&connection.delete_session(read(request)?).await?),
        "session/close" => done(&connection.close_session(read(request)?).await?),
        "session/set_mode" => done(&connection.set_mode(read(request)?).await?),
        "session/set_config_option" => done(&connection.set_option(read(request)?).await?),
        unknown => Err(Refusal::unknown_method(unknown)),
    }
}
