//! The scripted model without a connection, for our own loop. Everything happens in the test's own
//! task, so with paused time a wait costs nothing and lasts exactly as long as it should.

use std::{collections::VecDeque, future::pending, io, sync::Arc, time::Duration};

use angelia_core::ports::BoxFuture;
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, sleep};

use super::{
    RecordedRequest, Reply, SharedRequest,
    encoded_response::{EncodedResponse, ResponseBody, StreamEnd},
    request_log::RequestLog,
    responder::Responder,
};
use crate::native::client::{ConnectionError, Endpoint, ReplyBytes, Transport, TransportReply};

/// The pause between keep-alives in a stream that sends nothing else.
const KEEP_ALIVE_PAUSE: Duration = Duration::from_millis(500);

/// A model that answers from a script. Clones share the script and the log.
#[derive(Clone, Debug, Default)]
pub struct InProcessModel {
    responder: Arc<Responder>,
    log: Arc<RequestLog>,
}

impl InProcessModel {
    /// Appends answers for the next requests, first in, first out.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.responder.script(replies);
    }

    /// Returns the number of scripted answers that have not been used yet.
    pub fn unused_replies(&self) -> usize {
        self.responder.unused_replies()
    }

    /// Returns the requests so far. Their times come from the runtime's clock.
    pub fn model_requests(&self) -> Vec<SharedRequest> {
        self.log.model_requests()
    }
}

impl Transport for InProcessModel {
    fn send<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        body: Bytes,
    ) -> BoxFuture<'a, Result<TransportReply, ConnectionError>> {
        let headers = endpoint.headers().iter().map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let request = Arc::new(RecordedRequest {
            method: "POST".to_owned(),
            path: endpoint.url().path().to_owned(),
            query: endpoint.url().query().map(str::to_owned),
            headers: headers.collect(),
            body,
            at: Instant::now().into_std(),
        });
        self.log.record(&request);
        let response = self.responder.respond(&request);
        Box::pin(async move {
            sleep(response.wait).await;
            let headers = reply_headers(&response);
            let status = response.status;
            let bytes = match response.body {
                ResponseBody::Never => pending().await,
                ResponseBody::Whole(body) => {
                    ScriptedBytes::new(vec![body], Duration::ZERO, StreamEnd::Complete)
                }
                ResponseBody::Stream { frames, pause, end } => {
                    ScriptedBytes::new(frames, pause, end)
                }
            };
            Ok(TransportReply { status, headers, bytes: Box::new(bytes) })
        })
    }
}

fn reply_headers(response: &EncodedResponse) -> HeaderMap {
    let kind = ("content-type".to_owned(), response.content_type.to_owned());
    let all = response.headers.iter().chain([&kind]);
    all.filter_map(|(name, value)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    })
    .collect()
}

/// The frames of a body, returned one by one.
#[derive(Debug)]
struct ScriptedBytes {
    frames: VecDeque<Vec<u8>>,
    pause: Duration,
    end: StreamEnd,
    /// When the next frame is due. It is kept here because a read may be dropped and started again.
    due: Instant,
}

impl ScriptedBytes {
    fn new(frames: Vec<Vec<u8>>, pause: Duration, end: StreamEnd) -> Self {
        Self { frames: frames.into(), pause, end, due: Instant::now() }
    }
}

impl ReplyBytes for ScriptedBytes {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, Vec<String>>> {
        Box::pin(async move {
            tokio::time::sleep_until(self.due).await;
            if let Some(frame) = self.frames.pop_front() {
                self.due += self.pause;
                return Ok(Some(frame.into()));
            }
            match &self.end {
                StreamEnd::Complete => Ok(None),
                StreamEnd::Hang => pending().await,
                StreamEnd::Reset => Err(vec![io::ErrorKind::ConnectionReset.to_string()]),
                StreamEnd::Repeat(frame) => {
                    self.due += KEEP_ALIVE_PAUSE;
                    Ok(Some(frame.clone().into()))
                }
            }
        })
    }
}
