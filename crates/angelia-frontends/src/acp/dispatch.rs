//! Handles the editor's messages. Answers and cancellations take effect when they are read; requests
//! are queued and handled one by one, in order. A prompt is only started in that order, and then runs
//! concurrently. While the queue is full, nothing is read. This cannot deadlock, because no queued
//! request waits for the editor.

use std::{sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::CancelNotification;
use angelia_core::{engine::Engine, model::SessionId, ports::Profiles, task::TaskGroup};
use angelia_wire::jsonrpc::{DecodeError, RpcId, RpcMessage, decode};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;

use super::{
    connection::{AcpSettings, EditorConnection},
    errors::{AcpError, INVALID_REQUEST, PARSE_ERROR},
    initialize::{authenticate, initialize},
    prompt,
};
use crate::stdio::{InputLine, StdioInput, StdioOutput};

/// The limit on requests that wait for earlier ones.
const MAX_QUEUED_REQUESTS: usize = 64;

/// The time limit for the requests that are still queued when the input ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the connection to the editor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The editor closed our stdin.
    Eof,
    /// The editor no longer reads our stdout.
    OutputClosed,
}

/// A message that is handled in order.
enum DispatchItem {
    Request(EditorRequest),
    /// Cancels the prompt that this session is running when the item is handled.
    Cancel(SessionId),
}

struct EditorRequest {
    id: RpcId<'static>,
    method: String,
    params: Option<Box<RawValue>>,
}

/// Serves one editor until it disconnects. Its turns may still be running then: they belong to the
/// engine, and the caller must end the `tasks` that follow them.
pub async fn serve(
    engine: Engine,
    profiles: Arc<dyn Profiles>,
    settings: AcpSettings,
    mut input: StdioInput,
    output: StdioOutput,
    tasks: &TaskGroup,
) -> DisconnectReason {
    let connection =
        EditorConnection::new(engine, profiles, settings, output.clone(), tasks.clone());
    let (requests, queue) = mpsc::channel(MAX_QUEUED_REQUESTS);
    let reading = async {
        let ended = loop {
            let line = tokio::select! {
                biased;
                () = output.closed() => break DisconnectReason::OutputClosed,
                line = input.next() => line,
            };
            match line {
                Some(line) => handle_line(&connection, line, &requests).await,
                None => break DisconnectReason::Eof,
            }
        };
        drop(requests);
        ended
    };
    let working = handle_queue(&connection, queue);
    let mut working = std::pin::pin!(working);
    let mut reading = std::pin::pin!(reading);
    let ended = tokio::select! {
        ended = &mut reading => ended,
        // Not expected: the queue does not end before the input.
        () = &mut working => DisconnectReason::Eof,
    };
    if ended == DisconnectReason::Eof {
        let _late = tokio::time::timeout(DRAIN_TIMEOUT, working).await;
    }
    // The editor will not answer any more: release the tasks that wait for it.
    connection.pending_requests().close().for_each(drop);
    ended
}

async fn handle_line(
    connection: &Arc<EditorConnection>,
    line: InputLine,
    requests: &mpsc::Sender<DispatchItem>,
) {
    let line = match line {
        InputLine::Whole(line) => line,
        InputLine::TooLong { bytes, .. } => {
            let message = format!("a line of {bytes} bytes is too long and was skipped");
            let refusal = AcpError::new(INVALID_REQUEST, message);
            return connection.send_error_without_id(&refusal).await;
        }
        InputLine::Partial(_) => {
            let refusal = AcpError::new(PARSE_ERROR, "the input ended in the middle of a line");
            return connection.send_error_without_id(&refusal).await;
        }
    };
    match decode(&line) {
        Ok(RpcMessage::Request { id, method, params }) => {
            let request = EditorRequest {
                id: id.into_owned(),
                method: method.into_owned(),
                params: params.map(ToOwned::to_owned),
            };
            let _ended = requests.send(DispatchItem::Request(request)).await;
        }
        Ok(RpcMessage::Notification { method, params }) => {
            // Cancel now, and again in order: the prompt may still be in the queue.
            if let Some(session) = parse_cancel(&method, params) {
                connection.cancel_prompt(session);
                let _ended = requests.send(DispatchItem::Cancel(session)).await;
            }
        }
        Ok(RpcMessage::Response { id, result }) => connection.deliver_response(id.as_ref(), result),
        Err(error) => {
            let code = match error {
                DecodeError::NotJson => PARSE_ERROR,
                DecodeError::NotAMessage | DecodeError::BadId => INVALID_REQUEST,
            };
            let refusal = AcpError::new(code, error.to_string());
            connection.send_error_without_id(&refusal).await;
        }
    }
}

/// Returns the session of a `session/cancel`. Other notifications are ignored.
fn parse_cancel(method: &str, params: Option<&RawValue>) -> Option<SessionId> {
    let params = params.filter(|_| method == "session/cancel")?;
    let cancel: CancelNotification = serde_json::from_str(params.get()).ok()?;
    cancel.session_id.0.parse().ok()
}

async fn handle_queue(connection: &Arc<EditorConnection>, mut queue: mpsc::Receiver<DispatchItem>) {
    while let Some(item) = queue.recv().await {
        let request = match item {
            DispatchItem::Request(request) => request,
            DispatchItem::Cancel(session) => {
                connection.cancel_prompt(session);
                continue;
            }
        };
        if request.method == "session/prompt" {
            if let Err(refusal) = start_prompt(connection, &request) {
                connection.send_error(&request.id, &refusal).await;
            }
            continue;
        }
        match handle_request(connection, &request).await {
            Ok(result) => connection.send_result(&request.id, &*result).await,
            Err(refusal) => connection.send_error(&request.id, &refusal).await,
        }
    }
}

fn start_prompt(
    connection: &Arc<EditorConnection>,
    request: &EditorRequest,
) -> Result<(), AcpError> {
    let prompt =
        prompt::AcceptedPrompt::accept(connection, request.id.clone(), parse_params(request)?)?;
    let tasks = connection.tasks.clone();
    tasks.spawn(prompt.run(Arc::clone(connection)));
    Ok(())
}

fn parse_params<T: DeserializeOwned>(request: &EditorRequest) -> Result<T, AcpError> {
    let params = request.params.as_deref().map_or("{}", RawValue::get);
    serde_json::from_str(params).map_err(|error| AcpError::malformed_params(&request.method, error))
}

type HandlerResult = Result<Box<RawValue>, AcpError>;

fn to_result(result: &impl Serialize) -> HandlerResult {
    to_raw_value(result).map_err(|error| AcpError::invalid_params(error.to_string()))
}

async fn handle_request(
    connection: &Arc<EditorConnection>,
    request: &EditorRequest,
) -> HandlerResult {
    match request.method.as_str() {
        "initialize" => to_result(&initialize(connection, &parse_params(request)?).await),
        "authenticate" => to_result(&authenticate(connection, &parse_params(request)?).await?),
        "session/new" => to_result(&connection.new_session(parse_params(request)?).await?),
        "session/load" => to_result(&connection.load_session(parse_params(request)?).await?),
        "session/resume" => to_result(&connection.resume_session(parse_params(request)?).await?),
        "session/fork" => to_result(&connection.fork_session(parse_params(request)?).await?),
        "session/list" => to_result(&connection.list_sessions(parse_params(request)?).await?),
        "session/delete" => to_result(&connection.delete_session(parse_params(request)?).await?),
        "session/close" => to_result(&connection.close_session(parse_params(request)?).await?),
        "session/set_mode" => to_result(&connection.set_mode(parse_params(request)?).await?),
        "session/set_config_option" => {
            to_result(&connection.set_config_option(parse_params(request)?).await?)
        }
        unknown => Err(AcpError::unknown_method(unknown)),
    }
}
