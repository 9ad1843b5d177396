//! The actor that owns an app-server process. It reads all output and writes all input, and neither
//! blocks the other. It ends when it is told to, when the process exits, and when the process has
//! been unused for a while. Then every waiting caller is notified, and no descendant is left.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_core::redact::Redactor;
use angelia_wire::ndjson::Frame;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    super::protocol::{
        message::AppServerMessage,
        outgoing::{self, Call, CleanTerminals, TurnInterrupt, Unsubscribe},
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

/// How long stdout may stay open after the exit: another process may hold the pipe.
const OUTPUT_DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// How long an unneeded process may take to exit by itself.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct AppServerActor {
    pub(super) link: ProcessLink,
    pub(super) commands: mpsc::Receiver<ActorCommand>,
    pub(super) ids: Arc<AtomicU64>,
    pub(super) state: watch::Sender<ProcessState>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) config_fault: watch::Sender<Option<ConfigWarning>>,
    pub(super) redactor: Redactor,
    pub(super) stop: CancellationToken,
    pub(super) calls: HashMap<u64, PendingCall>,
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
        drop(self.calls);
        drop(self.routes);
        self.link.close(grace).await;
        self.state.send_replace(ProcessState::Gone(words));
    }

    async fn serve(&mut self) -> ActorEnd {
        let mut unused_since = Instant::now();
        let mut leak: Option<Instant> = None;
        let stop = self.stop.clone();
        let clock = sleep_until(Instant::now() + CHECK_INTERVAL);
        tokio::pin!(clock);
        loop {
            let condemned = self.draining.load(Ordering::Relaxed);
            // A draining process does not wait for open calls, only for its threads.
            if !self.routes.is_empty() || !(condemned || self.calls.is_empty()) {
                unused_since = Instant::now();
            } else if condemned || unused_since.elapsed() > IDLE_LIMIT {
                return ActorEnd::Close(GRACE);
            }
            let ProcessLink { input, output, child } = &mut self.link;
            let has_more = input.has_pending();
            // Reading comes last, so that a flood of output cannot starve the other branches.
            tokio::select! {
                biased;
                () = stop.cancelled() => return ActorEnd::Close(GRACE),
                command = self.commands.recv() => match command {
                    Some(ActorCommand::Close(grace)) => return ActorEnd::Close(grace),
                    Some(command) => self.handle_command(command),
                    None => return ActorEnd::Close(GRACE),
                },
                () = input.write(), if has_more => {}
                _ = child.wait_exit(), if leak.is_none() => {
                    leak = Some(Instant::now() + OUTPUT_DRAIN_LIMIT);
                    clock.as_mut().reset(Instant::now() + OUTPUT_DRAIN_LIMIT);
                }
                () = &mut clock => {
                    clock.as_mut().reset(Instant::now() + CHECK_INTERVAL);
                    if leak.is_some_and(|at| at <= Instant::now()) {
                        // The process has exited; any further output comes from a descendant that
                        // holds the pipe, and does not concern us.
                        return ActorEnd::Exited;
                    }
                    self.calls.retain(|_, waiting| !waiting.response.is_closed());
                    let gone = self.routes.remove_closed();
                    self.unload_threads(gone);
                }
                more = output.read() => {
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
            ActorCommand::Call { id, line, response: answer, subscriber } => {
                let waiting = PendingCall { response: answer, subscriber };
                self.calls.insert(id, waiting);
                self.link.input.push(line);
            }
            ActorCommand::Write(line) => self.link.input.push(line),
            // A released thread is normally unloaded by now; one with a running turn is not.
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
            match frame {
                Frame::Line(line) | Frame::Partial(line) => {
                    let message = std::str::from_utf8(line).ok().and_then(AppServerMessage::parse);
                    match message {
                        Some(AppServerMessage::Response { id, result }) => {
                            let Some(waiting) = self.calls.remove(&id) else {
                                continue;
                            };
                            let result = result.map(ToOwned::to_owned);
                            // Add the route before the response is delivered, so that no message of
                            // the new thread is lost.
                            if let (Some(inbox), Ok(result)) = (waiting.subscriber, &result)
                                && let Some(opened) = ThreadInfo::of(result)
                            {
                                self.routes.add(opened.thread, inbox);
                            }
                            // The caller may have stopped waiting.
                            let _nobody = waiting.response.send(result);
                        }
                        Some(AppServerMessage::Notification { method, params }) => {
                            if method == "configWarning" {
                                let warning = ConfigWarning::of(params);
                                if let Some(fatal) = warning.filter(ConfigWarning::is_fatal) {
                                    self.config_fault.send_replace(Some(fatal));
                                }
                            }
                            abandoned.extend(self.routes.deliver_notification(&method, params));
                        }
                        Some(AppServerMessage::Request { id, method, params }) => {
                            match self.routes.deliver_request(id, &method, params) {
                                Ok(gone) => abandoned.extend(gone),
                                Err((id, error)) => {
                                    self.link.input.push(outgoing::encode_error(&id, &error));
                                }
                            }
                        }
                        Some(AppServerMessage::Unknown(_)) => {
                            tracing::debug!("ignored an unknown message");
                        }
                        None => tracing::debug!("ignored a line that is not JSON"),
                    }
                }
                Frame::TooLong { bytes, head } => {
                    abandoned.extend(self.routes.deliver_too_long(bytes, head));
                }
            }
        }
        self.unload_threads(abandoned);
    }

    /// Interrupts and unloads threads that have no listener any more.
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
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        self.link.input.push(outgoing::encode_request(id, call));
    }
}
