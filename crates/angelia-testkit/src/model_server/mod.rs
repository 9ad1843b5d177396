//! A model API on loopback whose answers are scripted, by the test or by the prompt itself.
//!
//! It speaks three dialects (Anthropic Messages, OpenAI Responses, Gemini), so that the real agent
//! programs can be driven without a login and without a network. The server runs on a thread of
//! its own: a test's paused clock or busy runtime does not disturb it.
//!
//! A request is answered by the first of: the next [`Reply`] of [`ModelServer::script`], the
//! function given to [`ModelServer::respond_with`], the directives in the prompt ([`directive`]),
//! the default text.

mod acp_gemini;
mod connection;
pub mod directive;
mod messages;
mod prompt;
mod recorded;
pub mod reply;
mod responder;
mod responses;
mod wire;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::{recorded::Log, responder::Responder};
pub use self::{
    recorded::{Recorded, RecordedRequest},
    reply::{Block, Fault, Message, Reply, Stop, Usage},
};

/// What the model says when nothing tells it otherwise.
pub const DEFAULT_TEXT: &str = "Hello from the scripted model.";

/// A running server; dropping it closes every connection and ends its thread.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    responder: Arc<Responder>,
    log: Arc<Log>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The requests a test waited for did not come.
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

    /// Listens on the given address; port 0 means any free one.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let responder = Arc::new(Responder::default());
        let log = Arc::new(Log::default());
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

    /// For `ANTHROPIC_BASE_URL`: without a path and without a trailing slash.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// For clients of the Responses dialect, which expect the version in the base.
    pub fn openai_base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Appends answers for the next model requests, first in, first out.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.responder.script(replies);
    }

    /// Answers that the script does not give; `None` leaves the request to the prompt's directives.
    pub fn respond_with(
        &self,
        answer: impl Fn(&RecordedRequest) -> Option<Reply> + Send + Sync + 'static,
    ) {
        self.responder.respond_with(Box::new(answer));
    }

    /// The token counts of every following answer.
    pub fn set_usage(&self, usage: Usage) {
        self.responder.set_usage(usage);
    }

    /// Scripted answers not used yet.
    pub fn unused(&self) -> usize {
        self.responder.unused()
    }

    /// Every request so far, oldest first (the newest 1000).
    pub fn requests(&self) -> Vec<Recorded> {
        self.log.all()
    }

    /// The requests that asked the model for an answer: not token counts, probes or model lists.
    pub fn model_requests(&self) -> Vec<Recorded> {
        self.log.model_requests()
    }

    /// Switches recording off for long benchmarks; it is on at the start.
    pub fn set_recording(&self, on: bool) {
        self.log.set_recording(on);
    }

    /// How many answers ended because the client went away before they were complete.
    pub fn abandoned(&self) -> usize {
        self.log.abandoned()
    }

    /// Waits until `count` model requests have arrived in all.
    pub async fn wait_for_model_requests(
        &self,
        count: usize,
        within: Duration,
    ) -> Result<Vec<Recorded>, TooFewRequests> {
        match tokio::time::timeout(within, self.log.reached(count)).await {
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
            // A panic of the server thread has already been printed by it.
            let _ = thread.join();
        }
    }
}
