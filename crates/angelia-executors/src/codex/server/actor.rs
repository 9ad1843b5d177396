//! The owner of the process: it reads whatever comes, writes whatever is to be written, and does
//! neither at the expense of the other. It ends when it is told to, when the process ends, and when
//! nobody has needed it for a while; then everybody who waits learns so, and nothing is left.

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

/// How long a process without threads is kept for the next one.
const LINGER: Duration = Duration::from_mins(5);

/// How often it is looked whether somebody has gone without a word.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long output may stay open after the exit: somebody else may hold the pipe.
const LEAK: Duration = Duration::from_millis(500);

/// What an unneeded process gets to end by itself.
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

/// Somebody waits for an answer.
pub(super) struct Waiting {
    answer: oneshot::Sender<Answered>,
    subscriber: Option<Sender>,
}

/// Why the process is no longer served.
enum End {
    /// It has closed its output.
    Died,
    /// We end it.
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
        // Everybody who waits learns of it now; what it leaves behind takes a little longer.
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
            if !self.routes.is_empty() || !(condemned || self.calls.is_empty()) {
                unused_since = Instant::now();
            } else if condemned || unused_since.elapsed() > LINGER {
                return End::Close(GRACE);
            }
            let Link { input, output, child } = &mut self.link;
            let has_more = input.has_more();
            // Reading comes last, so that a flood of output cannot drown the rest.
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
                        // Whoever holds the pipe now has nothing to say to us.
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

    /// Everything that has arrived.
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
                            if let (Some(inbox), Ok(result)) = (waiting.subscriber, &result)
                                && let Some(opened) = Opened::of(result)
                            {
                                self.routes.add(opened.thread, inbox);
                            }
                            // Whoever asked may have stopped waiting.
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
                        Some(Message::Unknown(_)) => tracing::debug!("a line of another kind"),
                        None => tracing::debug!("a line that is not JSON"),
                    }
                }
                Frame::TooLong { bytes, head } => {
                    abandoned.extend(self.routes.too_long(bytes, head));
                }
            }
        }
        self.abandon(abandoned);
    }

    /// Ends what goes on in threads that nobody listens to.
    fn abandon(&mut self, threads: Vec<Abandoned>) {
        for Abandoned { thread, turn } in threads {
            tracing::debug!(%thread, "nobody listens to a thread any more");
            if let Some(turn) = &turn {
                self.tell(&TurnInterrupt { thread_id: &thread, turn_id: turn });
            }
            self.tell(&CleanTerminals { thread_id: &thread });
            self.tell(&Unsubscribe { thread_id: &thread });
        }
    }

    /// A request whose answer nobody wants.
    fn tell<C: Call>(&mut self, call: &C) {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        self.link.input.push(outgoing::request(id, call));
    }
}
