//! Our requests to the editor: waiting for the answer, and withdrawing a request.

use std::sync::Arc;

use angelia_wire::jsonrpc::{ErrorObject, ResponseMatch, RpcId, VersionField, encode};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::connection::{EditorConnection, EditorResponse};

/// A request that the editor has not answered yet. If it is dropped, its answer is ignored.
pub(super) struct PendingEditorRequest {
    connection: Arc<EditorConnection>,
    id: RpcId<'static>,
    answer: oneshot::Receiver<EditorResponse>,
}

impl PendingEditorRequest {
    pub(super) fn new(
        connection: Arc<EditorConnection>,
        id: RpcId<'static>,
        answer: oneshot::Receiver<EditorResponse>,
    ) -> Self {
        Self { connection, id, answer }
    }

    pub(super) fn id(&self) -> &RpcId<'static> {
        &self.id
    }

    /// Waits for the answer. The error tells why there is none.
    pub(super) async fn wait(&mut self) -> EditorResponse {
        let gone = || Err("the editor has disconnected".to_owned());
        (&mut self.answer).await.unwrap_or_else(|_| gone())
    }
}

impl Drop for PendingEditorRequest {
    fn drop(&mut self) {
        self.connection.pending_requests().cancel(&self.id);
    }
}

/// Sends a request to the editor and waits for the answer. Returns `None` if the request was
/// withdrawn.
pub(super) async fn send_request(
    connection: &EditorConnection,
    request: Option<(Vec<u8>, PendingEditorRequest)>,
    unwanted: &CancellationToken,
) -> Option<EditorResponse> {
    let Some((line, mut waiting)) = request else {
        return Some(Err("the editor has disconnected".to_owned()));
    };
    connection.send_lines(line).await;
    let answer = unwanted.run_until_cancelled(waiting.wait()).await;
    if answer.is_none()
        && let Some(line) = encode_cancel_request(waiting.id())
    {
        connection.send_lines(line).await;
    }
    answer
}

/// Encodes the notification that withdraws one of our requests.
fn encode_cancel_request(id: &RpcId<'_>) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: &'a RpcId<'a>,
    }
    encode::notification(
        VersionField::Include,
        "$/cancel_request",
        Some(&Params { request_id: id }),
    )
    .ok()
}

impl EditorConnection {
    /// Delivers the editor's answer to the task that waits for it.
    pub(super) fn deliver_response(
        &self,
        id: Option<&RpcId<'_>>,
        result: Result<&RawValue, ErrorObject>,
    ) {
        let whose = id.map(|id| self.pending_requests().match_response(id));
        match whose {
            Some(ResponseMatch::Waiter(waiting)) => {
                let answer = result.map(ToOwned::to_owned);
                let _left = waiting.send(answer.map_err(|error| error.to_string()));
            }
            Some(ResponseMatch::Late) => {}
            Some(ResponseMatch::Unknown) | None => match result {
                Ok(_) => tracing::debug!("the editor answered a request that was never sent"),
                Err(error) => tracing::warn!(%error, "the editor reported an error"),
            },
        }
    }
}
