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
        message::Message,
        opened::{ConfigWarning, Opened},
        outgoing::{self, Call, CleanTerminals, TurnInterrupt, Unsubscribe},
    },
    Answered, Command, Life,
    inbox::Sender,
    routes::{Abandoned, Routes},
};
use crate::link::Link;

/// How long a process without threads is kept for the next thread.
const LINGER: Duration = Duration::from_mins(5);

/// How often to look for callers and listeners that were dropped without notice.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long stdout may stay open after the exit: another process may hold the pipe.
const LEAK: Duration = Duration::from_millis(500);

/// How long an unneeded process may take to exit by itself.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct Actor {
    pub(super) link: Link,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) ids: Arc<AtomicU64>,
    pub(super) life: watch::Sender<Life>,
    pub(super) condemned: Arc<AtomicBool>,
    pub(super) fault: watch::Sender<Option<ConfigWarning>>,
    pub(super) redactor: Redactor,
    pub(super) stop: CancellationToken,
    pub(super) calls: HashMap<u64, Waiting>,
    pub(super) routes: Routes,
}

/// A call whose response has not arrived.
pub(super) struct Waiting {
    answer: oneshot::Sender<Answered>,
    subscriber: Option<Sender>,
}

/// Why the actor stops serving the process.
enum End {
    /// The process has closed its output.
    Died,
    /// Angelia ends the process, with this grace period.
    Close(Duration),
}

impl Actor {
    pub(super) async fn run(mut self) {
        let end = self.serve().await;
        let (words, grace): (Arc<str>, _) = match end {
            End::Died => (self.link.last_words(&self.redactor).await.into(), GRACE),
            End::Close(grace) => ("it was closed".into(), grace),
        };
        self.life.send_replace(Life::Ending(Arc::clone(&words)));
        // Notify waiting callers first; ending the process and its descendants takes longer.
        drop(self.commands);
        drop(self.calls);
        drop(self.routes);
        self.link.close(grace).await;
        self.life.send_replace(Life::Gone(words));
    }

    async fn serve(&mut self) -> End {
        let mut unused_since = Instant::now();
        let mut leak: Option<Instant> = None;
        let stop = self.stop.clone();
        let clock = sleep_until(Instant::now() + LOOK_EVERY);
        tokio::pin!(clock);
        loop {
            let condemned = self.condemned.load(Ordering::Relaxed);
            // A draining process does not wait for open calls, only for its threads.
            if !self.routes.is_empty() || !(condemned || self.calls.is_empty()) {
                unused_since = Instant::now();
            } else if condemned || unused_since.elapsed() > LINGER {
                return End::Close(GRACE);
            }
            let Link { input, output, child } = &mut self.link;
            let has_more = input.has_more();
            // Reading comes last, so that a flood of output cannot starve the other branches.
            tokio::select! {
                biased;
                () = stop.cancelled() => return End::Close(GRACE),
                command = self.commands.recv() => match command {
                    Some(Command::Close(grace)) => return End::Close(grace),
                    Some(command) => self.command(command),
                    None => return End::Close(GRACE),
                },
                () = input.write(), if has_more => {}
                _ = child.exited(), if leak.is_none() => {
                    leak = Some(Instant::now() + LEAK);
                    clock.as_mut().reset(Instant::now() + LEAK);
                }
                () = &mut clock => {
                    clock.as_mut().reset(Instant::now() + LOOK_EVERY);
                    if leak.is_some_and(|at| at <= Instant::now()) {
                        // The process has exited; any further output comes from a descendant that
                        // holds the pipe, and does not concern us.
                        return End::Died;
                    }
                    self.calls.retain(|_, waiting| !waiting.answer.is_closed());
                    let gone = self.routes.take_gone();
                    self.abandon(gone);
                }
                more = output.read() => {
                    self.read();
                    if !more {
                        return End::Died;
                    }
                }
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Call { id, line, answer, subscriber } => {
                let waiting = Waiting { answer, subscriber };
                self.calls.insert(id, waiting);
                self.link.input.push(line);
            }
            Command::Line(line) => self.link.input.push(line),
            // A released thread is normally unloaded by now; one with a running turn is not.
            Command::Leave(thread) => {
                if let Some(left) = self.routes.remove(&thread)
                    && left.turn.is_some()
                {
                    self.abandon(vec![left]);
                }
            }
            Command::Close(_) => {}
        }
    }

    /// Dispatches every complete line that has been read.
    fn read(&mut self) {
        let mut abandoned = Vec::new();
        while let Some(frame) = self.link.output.framer.next() {
            match frame {
                Frame::Line(line) | Frame::Partial(line) => {
                    let message = std::str::from_utf8(line).ok().and_then(Message::parse);
                    match message {
                        Some(Message::Response { id, result }) => {
                            let Some(waiting) = self.calls.remove(&id) else {
                                continue;
                            };
                            let result = result.map(ToOwned::to_owned);
                            // Add the route before the response is delivered, so that no message of
                            // the new thread is lost.
                            if let (Some(inbox), Ok(result)) = (waiting.subscriber, &result)
                                && let Some(opened) = Opened::of(result)
                            {
                                self.routes.add(opened.thread, inbox);
                            }
                            // The caller may have stopped waiting.
                            let _nobody = waiting.answer.send(result);
                        }
                        Some(Message::Notification { method, params }) => {
                            if method == "configWarning" {
                                let warning = ConfigWarning::of(params);
                                if let Some(fatal) = warning.filter(ConfigWarning::is_fatal) {
                                    self.fault.send_replace(Some(fatal));
                                }
                            }
                            abandoned.extend(self.routes.notification(&method, params));
                        }
                        Some(Message::Request { id, method, params }) => {
                            match self.routes.request(id, &method, params) {
                                Ok(gone) => abandoned.extend(gone),
                                Err((id, error)) => {
                                    self.link.input.push(outgoing::error(&id, &error));
                                }
                            }
                        }
                        Some(Message::Unknown(_)) => tracing::debug!("ignored an unknown message"),
                        None => tracing::debug!("ignored a line that is not JSON"),
                    }
                }
                Frame::TooLong { bytes, head } => {
                    abandoned.extend(self.routes.too_long(bytes, head));
                }
            }
        }
        self.abandon(abandoned);
    }

    /// Interrupts and unloads threads that have no listener any more.
    fn abandon(&mut self, threads: Vec<Abandoned>) {
        for Abandoned { thread, turn } in threads {
            tracing::debug!(%thread, "unloading a thread that has no listener");
            if let Some(turn) = &turn {
                self.tell(&TurnInterrupt { thread_id: &thread, turn_id: turn });
            }
            self.tell(&CleanTerminals { thread_id: &thread });
            self.tell(&Unsubscribe { thread_id: &thread });
        }
    }

    /// Sends a request and ignores its response.
    fn tell<C: Call>(&mut self, call: &C) {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        self.link.input.push(outgoing::request(id, call));
    }
}
