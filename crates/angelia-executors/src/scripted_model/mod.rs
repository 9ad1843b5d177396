//! A model API on loopback whose answers are scripted by the caller or by the prompt itself, for
//! tests and for `angelia selftest`.
//!
//! It speaks four dialects (Anthropic Messages, OpenAI Chat Completions, OpenAI Responses, Gemini),
//! so that the real agent programs and our own loop can run without a login and without a network.
//! The server runs on its own thread, so a test's paused clock or busy runtime does not affect it.
//!
//! A request is answered by the first of these that has an answer: the next [`Reply`] from
//! [`ModelServer::script`], the function given to [`ModelServer::respond_with`], the directives in
//! the prompt ([`directive`]), the default text.
//!
//! [`InProcessModel`] answers in the same way but without a server.

mod acp_gemini;
mod chat;
mod connection;
mod dialect;
pub mod directive;
mod encoded_response;
pub mod fault;
mod http_wire;
mod in_process;
mod messages;
mod openai_error;
mod prompt;
pub mod reply;
mod request_log;
mod responder;
mod responses;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::{
    fault::{ApiError, Fault, StreamBreak, WireQuirk},
    in_process::InProcessModel,
    reply::{Reply, ReplyBlock, ReplyMessage, ReplyStop, ReplyUsage},
    request_log::{RecordedRequest, SharedRequest},
};
use self::{request_log::RequestLog, responder::Responder};

/// The answer if neither the test nor the prompt scripts one.
pub const DEFAULT_TEXT: &str = "Hello from the scripted model.";

/// A running server. Dropping it closes every connection and joins its thread.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    responder: Arc<Responder>,
    log: Arc<RequestLog>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// Fewer model requests arrived in time than a test waited for.
#[derive(Debug, thiserror::Error)]
#[error("the model server saw {seen} of {wanted} requests within {within:?}")]
pub struct TooFewRequests {
    wanted: usize,
    seen: usize,
    within: Duration,
}

impl ModelServer {
    /// Listens on a free loopback port.
    pub fn start() -> io::Result<Self> {
        Self::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// Listens on the given address; port 0 picks a free one.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        // Bind before the thread starts, so that the address is known and clients can connect once
        // this function returns.
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let responder = Arc::new(Responder::default());
        let log = Arc::new(RequestLog::default());
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("model-server".into()).spawn({
            let (responder, log, stop) = (responder.clone(), log.clone(), stop.clone());
            move || {
                runtime.block_on(async move {
                    if let Ok(listener) = TcpListener::from_std(listener) {
                        let _ = stop
                            .run_until_cancelled(connection::accept(listener, responder, log))
                            .await;
                    }
                });
            }
        })?;
        Ok(Self { address, responder, log, stop, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the value for `ANTHROPIC_BASE_URL`: no path and no trailing slash.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL for clients of the two OpenAI dialects, which expect the version in it.
    pub fn openai_base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Appends answers for the next model requests, first in, first out.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.responder.script(replies);
    }

    /// Sets the function that answers once the script is used up. If it returns `None`, the
    /// prompt's directives apply.
    pub fn respond_with(
        &self,
        answer: impl Fn(&RecordedRequest) -> Option<Reply> + Send + Sync + 'static,
    ) {
        self.responder.respond_with(Box::new(answer));
    }

    /// Sets the token counts of all further answers.
    pub fn set_usage(&self, usage: ReplyUsage) {
        self.responder.set_usage(usage);
    }

    /// Returns the number of scripted answers that have not been used yet.
    pub fn unused_replies(&self) -> usize {
        self.responder.unused_replies()
    }

    /// Returns the requests so far, oldest first; only the newest 1000 are kept.
    pub fn requests(&self) -> Vec<SharedRequest> {
        self.log.all()
    }

    /// Returns the requests for a model's answer, excluding token counts, probes and model lists.
    pub fn model_requests(&self) -> Vec<SharedRequest> {
        self.log.model_requests()
    }

    /// Turns the recording of requests on or off, for long benchmarks. It is on by default.
    pub fn set_recording(&self, on: bool) {
        self.log.set_recording(on);
    }

    /// Returns the number of answers that were cut short because the client disconnected.
    pub fn abandoned_count(&self) -> usize {
        self.log.abandoned_count()
    }

    /// Waits until `count` model requests have arrived in total.
    pub async fn wait_for_model_requests(
        &self,
        count: usize,
        within: Duration,
    ) -> Result<Vec<SharedRequest>, TooFewRequests> {
        match tokio::time::timeout(within, self.log.wait_for_model_requests(count)).await {
            Ok(()) => Ok(self.model_requests()),
            Err(_) => {
                Err(TooFewRequests { wanted: count, seen: self.model_requests().len(), within })
            }
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // If the server thread panicked, the panic was already printed.
            let _ = thread.join();
        }
    }
}
