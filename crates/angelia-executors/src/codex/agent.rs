//! An agent is one open thread with many turns. This file handles what happens around a turn:
//! messages from Codex, decisions, steering, interrupts and closing.
//!
//! The loop that runs a turn is in [`turn`](super::turn).

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Level, Notice, RawJson, Status, Turn,
        Verdict,
    },
    ports::{Agent, BoxFuture, Clock, Emitted, Ended, Login, TurnControl, TurnIo},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    leash::Leash,
    leftovers::Leftovers,
    probe::not_logged_in,
    protocol::outgoing::{ApprovalPolicy, CleanTerminals, TurnInterrupt, TurnSteer, user_input},
    server::{Answered, Inbox, Said, Server},
    thread::Thread,
    translate::{Answer, Reply, Signal, Translator},
};

/// How long the process may take to end activity in a thread; it usually needs milliseconds.
const LAST_CHANCE: Duration = Duration::from_millis(500);

/// How long the process may take to answer a request for which it needs no other party.
const STUCK_LIMIT: Duration = Duration::from_secs(1);

/// How long the process may take to end background commands; they end as soon as they are told.
const CLEAN_LIMIT: Duration = Duration::from_secs(1);

pub(super) struct CodexAgent {
    pub(super) server: Server,
    pub(super) thread: Arc<str>,
    pub(super) inbox: Inbox,
    pub(super) translator: Translator,
    pub(super) settings: Settings,
    leash: Leash,
    pub(super) leftovers: Leftovers,
    /// Sent at the beginning of the first turn.
    pub(super) first_words: Vec<Emitted>,
    /// The agent must not be used again.
    pub(super) retired: bool,
    /// The whole process does not respond, so closing this agent ends it.
    is_stuck: bool,
    /// A turn has started and not ended. Stays `true` when the future that ran the turn is dropped.
    pub(super) in_turn: bool,
    /// Steering input for the running turn that has not been sent yet.
    pub(super) held: Vec<Vec<Content>>,
    /// The response to the `turn/steer` in flight; only one is sent at a time.
    pub(super) steering: Option<oneshot::Receiver<Answered>>,
}

/// Settings that stay the same for the agent's whole life, except for `logged_out`.
pub(super) struct Settings {
    pub(super) permissions: &'static str,
    pub(super) approval_policy: ApprovalPolicy,
    pub(super) output_schema: Option<RawJson>,
    pub(super) clock: Arc<dyn Clock>,
    /// Codex reported no login when the thread was opened.
    pub(super) logged_out: bool,
}

impl Agent for CodexAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, Ended> {
        Box::pin(self.turn(turn, io))
    }

    fn is_usable(&mut self) -> bool {
        !self.retired && !self.in_turn && self.server.takes_threads()
    }

    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut this = *self;
            this.stop_before_close(grace).await;
            // A stuck process cannot unload the thread, so it is ended as a whole.
            if this.is_stuck {
                this.server.close(grace).await;
            } else if this.server.is_open() {
                this.server.leave(&this.thread, this.inbox).await;
            }
            this.leash.pull().await;
            if !this.server.is_open() {
                this.server.gone().await;
            }
        })
    }
}

impl CodexAgent {
    pub(super) fn new(
        thread: Thread,
        translator: Translator,
        settings: Settings,
        leftovers: Leftovers,
        first_words: Vec<Emitted>,
    ) -> Self {
        Self {
            server: thread.server,
            thread: thread.opened.thread,
            inbox: thread.inbox,
            leash: thread.leash,
            translator,
            settings,
            leftovers,
            first_words,
            retired: false,
            is_stuck: false,
            in_turn: false,
            held: Vec::new(),
            steering: None,
        }
    }

    /// Translates all received messages into `batch`. Events after the end of the turn are
    /// discarded.
    pub(super) async fn translate(
        &mut self,
        said: &mut Vec<Said>,
        batch: &mut Vec<Emitted>,
    ) -> Option<Ended> {
        let mut ended = None;
        let mut nobody = Vec::new();
        for said in said.drain(..) {
            let out = if ended.is_none() { &mut *batch } else { &mut nobody };
            match said {
                Said::Notification { method, params } => {
                    let signal = self.translator.notification(&method, &params, out);
                    if let Some(Signal::Ended(end)) = signal {
                        ended = ended.or(Some(end));
                    }
                }
                Said::Request { id, method, params } => {
                    let answer = self.translator.request(&id, &method, &params, out);
                    match answer {
                        Answer::Now(result) => self.server.reply(&id, &result).await,
                        Answer::Error(error) => self.server.refuse(&id, &error).await,
                        Answer::Asked(_) | Answer::Tool(_) => {}
                    }
                }
                Said::TooLong { bytes } => self.translator.too_long(bytes, out),
            }
        }
        self.refuse_unheard(&nobody).await;
        ended
    }

    /// Denies the approvals among `discarded`: their turn is over, so no client can decide them.
    pub(super) async fn refuse_unheard(&mut self, nobody: &[Emitted]) {
        for emitted in nobody {
            if let Emitted::Ask(request) = emitted {
                let refusal = Decision::new(Verdict::Deny, "nobody")
                    .with_note("the turn this belongs to is over");
                if let Some(reply) = self.translator.decide(&request.key, &refusal) {
                    self.server.reply(&reply.id, &reply.result).await;
                }
            }
        }
    }

    pub(super) async fn control(&mut self, control: TurnControl) {
        let reply = match control {
            TurnControl::Decide { key, decision } => self.translator.decide(&key, &decision),
            TurnControl::ToolResult { id, ok, content } => {
                self.translator.tool_result(&id, ok, &content)
            }
            TurnControl::Steer(content) => {
                self.held.push(content);
                None
            }
        };
        if let Some(Reply { id, result, then_interrupt, then_tell }) = reply {
            self.server.reply(&id, &result).await;
            if then_interrupt {
                self.interrupt().await;
            }
            if let Some(words) = then_tell {
                self.held.push(vec![Content::Text(words)]);
            }
        }
        self.pass_held_words().await;
    }

    /// Sends the next queued input to the running turn, once Codex has reported the turn's id.
    pub(super) async fn pass_held_words(&mut self) {
        if self.held.is_empty() || self.steering.is_some() {
            return;
        }
        let Some(turn) = self.translator.active_turn().map(str::to_owned) else {
            return;
        };
        let content = self.held.remove(0);
        let id = self.settings.clock.fresh_uuid().to_string();
        let steer = TurnSteer {
            thread_id: &self.thread,
            expected_turn_id: &turn,
            input: user_input(&content),
            client_user_message_id: Some(&id),
        };
        self.translator.steered();
        self.steering = Some(self.server.begin(&steer).await);
    }

    /// Drops queued input when the turn ends, and adds a notice if any of it was not delivered.
    pub(super) async fn drop_held_words(&mut self, batch: &mut Vec<Emitted>) {
        let mut lost = !std::mem::take(&mut self.held).is_empty();
        if let Some(steering) = self.steering.take() {
            let taken = timeout(LAST_CHANCE, steering).await;
            lost |= !matches!(taken, Ok(Ok(Ok(_))));
        }
        if lost {
            batch.push(not_steered());
        }
    }

    /// Asks Codex to interrupt the running turn. Returns `false` if Codex has not named it yet.
    pub(super) async fn interrupt(&mut self) -> bool {
        let Some(turn) = self.translator.active_turn() else {
            return false;
        };
        let interrupt = TurnInterrupt { thread_id: &self.thread, turn_id: turn };
        // The notification that ends the turn serves as the response.
        let _answer = self.server.begin(&interrupt).await;
        true
    }

    /// Ends commands that run on after a turn, and removes the empty folders of their sandbox.
    pub(super) async fn clean_up(&mut self) {
        if self.server.is_open() {
            let clean = CleanTerminals { thread_id: &self.thread };
            let cleaning = self.server.begin(&clean).await;
            let _too_slow = timeout(CLEAN_LIMIT, cleaning).await;
        }
        self.leftovers.remove();
    }

    /// Drains the process if it does not answer. A turn that does not end affects only this agent;
    /// a process that answers nothing affects every thread in it.
    pub(super) async fn condemn_if_stuck(&mut self) {
        let answers = timeout(STUCK_LIMIT, self.server.login()).await;
        if !matches!(answers, Ok(login) if login != Login::Unknown) {
            self.is_stuck = true;
            self.server.condemn();
        }
    }

    /// Builds the failure for a lost connection; `when` says at which point of the turn it was
    /// lost.
    pub(super) async fn lost(&mut self, when: &str) -> Failure {
        self.retired = true;
        // The process still runs, so only this thread's inbox was closed: it was full.
        if self.server.is_open() {
            let message = format!("Codex wrote more {when} than can be buffered and was cut off");
            return Failure::new(FailureKind::Agent, message).with_hint(GO_ON);
        }
        let words = self.server.last_words().await;
        Failure::new(FailureKind::Agent, format!("Codex ended {when}: {words}")).with_hint(GO_ON)
    }

    pub(super) async fn output_ended(&mut self, batch: &mut Vec<Emitted>) -> Ended {
        let ended = match self.translator.end_of_output(batch) {
            Some(Signal::Ended(ended)) => ended,
            None => Ended::failed(Failure::new(FailureKind::Agent, "")),
        };
        let failure = self.lost("in the middle of the turn").await;
        // Replace the translator's generic failure by one that says how the process exited.
        match ended.status {
            Status::Failed(known) if known.kind == FailureKind::Agent => {
                Ended { status: Status::Failed(failure), ..ended }
            }
            _ => ended,
        }
    }

    /// Checks the login before a turn if it was missing when the thread was opened. Without this
    /// check the turn would fail only after many seconds.
    pub(super) async fn login_problem(&mut self) -> Option<Failure> {
        if !self.settings.logged_out {
            return None;
        }
        if self.server.login().await != Login::Out {
            self.settings.logged_out = false;
            return None;
        }
        // The running process does not notice a later login; the next process does.
        self.retired = true;
        self.server.condemn();
        Some(not_logged_in())
    }

    async fn stop_before_close(&mut self, grace: Duration) {
        if !self.server.is_open() {
            self.leftovers.remove();
            return;
        }
        if self.in_turn {
            let stopped = async {
                self.interrupt().await;
                let mut said = Vec::new();
                while self.translator.active_turn().is_some() {
                    self.inbox.next(&mut said).await;
                    if said.is_empty() {
                        return;
                    }
                    self.translate(&mut said, &mut Vec::new()).await;
                }
            };
            // If the turn does not stop in time, releasing the thread stops it.
            let _ = timeout(LAST_CHANCE.min(grace), stopped).await;
        }
        self.clean_up().await;
    }
}

const GO_ON: &str = "send the message again, the session continues where it was; \
                     to switch to another agent, set another `executor` in the profile";

pub(super) fn not_steered() -> Emitted {
    let text = "the agent could not take what was added to this turn; send it again";
    let notice = Notice::new(Level::Warning, "not_steered", text);
    Emitted::Event(EventKind::Notice(notice))
}
