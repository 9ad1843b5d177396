//! Our requests to the editor: waiting for the answer, and withdrawing a request.

use std::sync::Arc;

use angelia_wire::jsonrpc::{Answered, Dialect, ErrorObject, Id, encode};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::connection::{Answer, Connection};

/// A request that the editor has not answered yet. If it is dropped, its answer is ignored.
pub(super) struct Waiting {
    connection: Arc<Connection>,
    id: Id<'static>,
    answer: oneshot::Receiver<Answer>,
}

impl Waiting {
    pub(super) fn new(
        connection: Arc<Connection>,
        id: Id<'static>,
        answer: oneshot::Receiver<Answer>,
    ) -> Self {
        Self { connection, id, answer }
    }

    pub(super) fn id(&self) -> &Id<'static> {
        &self.id
    }

    /// Waits for the answer. `Err`: the reason why there is none.
    pub(super) async fn answer(&mut self) -> Answer {
        let gone = || Err("the editor has disconnected".to_owned());
        (&mut self.answer).await.unwrap_or_else(|_| gone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.connection.asked().give_up(&self.id);
    }
}

/// Sends a request to the editor and waits for the answer. `None`: the request was withdrawn.
pub(super) async fn ask(
    connection: &Connection,
    request: Option<(Vec<u8>, Waiting)>,
    unwanted: &CancellationToken,
) -> Option<Answer> {
    let Some((line, mut waiting)) = request else {
        return Some(Err("the editor has disconnected".to_owned()));
    };
    connection.say(line).await;
    let answer = unwanted.run_until_cancelled(waiting.answer()).await;
    if answer.is_none()
        && let Some(line) = withdrawn(waiting.id())
    {
        connection.say(line).await;
    }
    answer
}

/// Encodes the notification that withdraws one of our requests.
fn withdrawn(id: &Id<'_>) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: &'a Id<'a>,
    }
    encode::notification(Dialect::V2, "$/cancel_request", Some(&Params { request_id: id })).ok()
}

impl Connection {
    /// Delivers the editor's answer to the task that waits for it.
    pub(super) fn answered(&self, id: Option<&Id<'_>>, result: Result<&RawValue, ErrorObject<'_>>) {
        let whose = id.map(|id| self.asked().answered(id));
        match whose {
            Some(Answered::By(waiting)) => {
                let answer = result.map(ToOwned::to_owned);
                let _left = waiting.send(answer.map_err(|error| error.to_string()));
            }
            Some(Answered::Late) => {}
            Some(Answered::Stranger) | None => match result {
                Ok(_) => tracing::debug!("the editor answered a request that was never sent"),
                Err(error) => tracing::warn!(%error, "the editor reported an error"),
            },
        }
    }
}
