//! The actor that owns an app-server process. It reads all output and writes all input, and neither
//! blocks the other. It ends when it is told to, when the process exits, or when the process has
//! been unused for a while. It then notifies every waiting caller and leaves no descendant behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use angelia_core::redact::Redactor;
use angelia_wire::{
    jsonrpc::{Peer, Received},
    ndjson::Frame,
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    super::protocol::{
        message::RequestId,
        outgoing::{Call, CleanTerminals, TurnInterrupt, Unsubscribe},
        response::{ConfigWarning, ThreadInfo},
    },
    ActorCommand, CallResult, ProcessState,
    inbox::InboxSender,
    routes::{AbandonedThread, ThreadRoutes},
};
use crate::process_link::ProcessLink;

/// How long a process without threads is kept for the next thread.
const IDLE_LIMIT: Duration = Duration::from_mins(5);

/// How often to look for callers and listeners that were dropped without notice.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long an unneeded process has to exit.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct AppServerActor {
    pub(super) link: ProcessLink,
    pub(super) commands: mpsc::Receiver<ActorCommand>,
    pub(super) state: watch::Sender<ProcessState>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) config_fault: watch::Sender<Option<ConfigWarning>>,
    pub(super) redactor: Redactor,
    pub(super) stop: CancellationToken,
    pub(super) peer: Peer<PendingCall>,
    pub(super) routes: ThreadRoutes,
}

/// A call whose response has not arrived.
pub(super) struct PendingCall {
    response: oneshot::Sender<CallResult>,
    subscriber: Option<InboxSender>,
}

/// Why the actor stops serving the process.
enum ActorEnd {
    /// The process has closed its output.
    Exited,
    /// Angelia ends the process, with this grace period.
    Close(Duration),
}

impl AppServerActor {
    pub(super) async fn run(mut self) {
        let end = self.serve().await;
        let (words, grace): (Arc<str>, _) = match end {
            ActorEnd::Exited => (self.link.describe_exit(&self.redactor).await.into(), GRACE),
            ActorEnd::Close(grace) => ("it was closed".into(), grace),
        };
        self.state.send_replace(ProcessState::Ending(Arc::clone(&words)));
        // Notify waiting callers first; ending the process and its descendants takes longer.
        drop(self.commands);
        drop(self.peer);
        drop(self.routes);
        self.link.close(grace).await;
        self.state.send_replace(ProcessState::Gone(words));
    }

    async fn serve(&mut self) -> ActorEnd {
        let mut unused_since = Instant::now();
        let stop = self.stop.clone();
        let mut check = interval(CHECK_INTERVAL);
        loop {
            let draining = self.draining.load(Ordering::Relaxed);
            // A draining process waits only for its threads, not for open calls.
            if !self.routes.is_empty() || !(draining || self.peer.is_idle()) {
                unused_since = Instant::now();
            } else if draining || unused_since.elapsed() > IDLE_LIMIT {
                return ActorEnd::Close(GRACE);
            }
            // Reading comes last, so that a flood of output cannot starve the other branches.
            tokio::select! {
                biased;
                () = stop.cancelled() => return ActorEnd::Close(GRACE),
                command = self.commands.recv() => match command {
                    Some(ActorCommand::Close(grace)) => return ActorEnd::Close(grace),
                    Some(command) => self.handle_command(command),
                    None => return ActorEnd::Close(GRACE),
                },
                _ = check.tick() => {
                    self.peer.retain(|call| !call.response.is_closed());
                    let closed = self.routes.remove_closed();
                    self.unload_threads(closed);
                }
                more = self.link.exchange() => {
                    self.dispatch_lines();
                    if !more {
                        return ActorEnd::Exited;
                    }
                }
            }
        }
    }

    fn handle_command(&mut self, command: ActorCommand) {
        match command {
            ActorCommand::Call { method, params, response, subscriber } => {
                self.send_call(method, &params, PendingCall { response, subscriber });
            }
            ActorCommand::Reply(id, result) => {
                let line = self.peer.response(id.as_rpc_id(), result.as_deref());
                self.link.input.push(line);
            }
            ActorCommand::Notify(method) => {
                self.link.input.push(self.peer.notification::<()>(method, None));
            }
            // Normally a released thread is already unloaded, but not if it has a running turn.
            ActorCommand::RemoveThread(thread) => {
                if let Some(left) = self.routes.remove(&thread)
                    && left.turn.is_some()
                {
                    self.unload_threads(vec![left]);
                }
            }
            ActorCommand::Close(_) => {}
        }
    }

    /// Dispatches every complete line that has been read.
    fn dispatch_lines(&mut self) {
        let mut abandoned = Vec::new();
        while let Some(frame) = self.link.output.framer.next() {
            let line = match frame {
                Frame::Line(line) | Frame::Partial(line) => line,
                Frame::TooLong { bytes, head } => {
                    abandoned.extend(self.routes.deliver_too_long(bytes, head));
                    continue;
                }
            };
            match self.peer.receive(line) {
                Received::Response { waiter: PendingCall { response, subscriber }, result } => {
                    // Add the route before delivering the response, so that no message of the new
                    // thread is lost.
                    if let (Some(inbox), Ok(result)) = (subscriber, &result)
                        && let Some(opened) = ThreadInfo::of(result)
                    {
                        self.routes.add(opened.thread, inbox);
                    }
                    // The caller may have stopped waiting.
                    let _nobody = response.send(result.map(ToOwned::to_owned));
                }
                Received::Notification { method, params } => {
                    let params = params.unwrap_or(RawValue::NULL);
                    if method == "configWarning" {
                        let warning = ConfigWarning::of(params);
                        if let Some(fatal) = warning.filter(ConfigWarning::is_fatal) {
                            self.config_fault.send_replace(Some(fatal));
                        }
                    }
                    abandoned.extend(self.routes.deliver_notification(&method, params));
                }
                Received::Request { id, method, params } => {
                    let params = params.unwrap_or(RawValue::NULL);
                    match self.routes.deliver_request(RequestId::from(id), &method, params) {
                        Ok(cut_off) => abandoned.extend(cut_off),
                        Err((id, error)) => {
                            let line = self.peer.response::<RawValue>(id.as_rpc_id(), Err(&error));
                            self.link.input.push(line);
                        }
                    }
                }
                Received::UnexpectedResponse => {}
                Received::Invalid(error) => tracing::debug!(%error, "ignored a line"),
            }
        }
        self.unload_threads(abandoned);
    }

    /// Interrupts and unloads threads that no longer have a listener.
    fn unload_threads(&mut self, threads: Vec<AbandonedThread>) {
        for AbandonedThread { thread, turn } in threads {
            tracing::debug!(%thread, "unloading a thread that has no listener");
            if let Some(turn) = &turn {
                self.send_and_forget(&TurnInterrupt { thread_id: &thread, turn_id: turn });
            }
            self.send_and_forget(&CleanTerminals { thread_id: &thread });
            self.send_and_forget(&Unsubscribe { thread_id: &thread });
        }
    }

    /// Sends a request and ignores its response.
    fn send_and_forget<C: Call>(&mut self, call: &C) {
        let (response, _ignored) = oneshot::channel();
        self.send_call(C::METHOD, call, PendingCall { response, subscriber: None });
    }

    fn send_call<P: Serialize + ?Sized>(&mut self, method: &str, params: &P, call: PendingCall) {
        // Dropping the call tells its caller that there will be no response.
        if let Ok((_, line)) = self.peer.request(method, params, call) {
            self.link.input.push(line);
        }
    }
}
