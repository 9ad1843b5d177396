//! An agent is one open thread with many turns. This file handles what happens around a turn:
//! messages from Codex, decisions, steering, interrupts and closing.
//!
//! The loop that runs a turn is in [`turn`](super::turn).

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Notice, NoticeLevel, RawJson, Turn,
        TurnStatus, Verdict,
    },
    ports::{Agent, AgentEvent, AgentOutcome, BoxFuture, Clock, LoginState, TurnControl, TurnIo},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    app_server::{AppServer, CallResult, ThreadInbox, ThreadMessage},
    probe::not_logged_in_failure,
    process_guard::ProcessGuard,
    protocol::outgoing::{ApprovalPolicy, CleanTerminals, TurnInterrupt, TurnSteer, to_user_input},
    sandbox_cleanup::SandboxCleanup,
    thread::CodexThread,
    translate::{CodexTranslator, DeferredReply, RequestOutcome, Signal},
};

/// How long the process may take to end activity in a thread; it usually needs milliseconds.
const WIND_DOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the process may take to answer a request for which it needs no other party.
const STUCK_LIMIT: Duration = Duration::from_secs(1);

/// How long the process may take to end background commands; they end as soon as they are told.
const CLEAN_LIMIT: Duration = Duration::from_secs(1);

pub(super) struct CodexAgent {
    pub(super) server: AppServer,
    pub(super) thread: Arc<str>,
    pub(super) inbox: ThreadInbox,
    pub(super) translator: CodexTranslator,
    pub(super) settings: CodexAgentSettings,
    process_guard: ProcessGuard,
    pub(super) sandbox_cleanup: SandboxCleanup,
    /// Sent at the beginning of the first turn.
    pub(super) startup_events: Vec<AgentEvent>,
    /// The agent must not be used again.
    pub(super) retired: bool,
    /// The whole process does not respond, so closing this agent ends it.
    is_stuck: bool,
    /// A turn has started and not ended. Stays `true` when the future that ran the turn is dropped.
    pub(super) in_turn: bool,
    /// Steering input for the running turn that has not been sent yet.
    pub(super) pending_steers: Vec<Vec<Content>>,
    /// The response to the `turn/steer` in flight; only one is sent at a time.
    pub(super) steer_response: Option<oneshot::Receiver<CallResult>>,
}

/// Settings that stay the same for the agent's whole life, except for `logged_out`.
pub(super) struct CodexAgentSettings {
    pub(super) permissions: &'static str,
    pub(super) approval_policy: ApprovalPolicy,
    pub(super) output_schema: Option<RawJson>,
    pub(super) clock: Arc<dyn Clock>,
    /// Codex reported no login when the thread was opened.
    pub(super) logged_out: bool,
}

impl Agent for CodexAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome> {
        Box::pin(self.run_turn(turn, io))
    }

    fn is_usable(&mut self) -> bool {
        !self.retired && !self.in_turn && self.server.accepts_threads()
    }

    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut this = *self;
            this.stop_before_close(grace).await;
            // A stuck process cannot unload the thread, so it is ended as a whole.
            if this.is_stuck {
                this.server.close(grace).await;
            } else if this.server.is_running() {
                this.server.release_thread(&this.thread, this.inbox).await;
            }
            this.process_guard.end_processes().await;
            if !this.server.is_running() {
                this.server.wait_gone().await;
            }
        })
    }
}

impl CodexAgent {
    pub(super) fn new(
        thread: CodexThread,
        translator: CodexTranslator,
        settings: CodexAgentSettings,
        leftovers: SandboxCleanup,
        first_words: Vec<AgentEvent>,
    ) -> Self {
        Self {
            server: thread.server,
            thread: thread.info.thread,
            inbox: thread.inbox,
            process_guard: thread.process_guard,
            translator,
            settings,
            sandbox_cleanup: leftovers,
            startup_events: first_words,
            retired: false,
            is_stuck: false,
            in_turn: false,
            pending_steers: Vec::new(),
            steer_response: None,
        }
    }

    /// Translates all received messages into `batch`. Events after the end of the turn are
    /// discarded.
    pub(super) async fn translate(
        &mut self,
        said: &mut Vec<ThreadMessage>,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let mut ended = None;
        let mut nobody = Vec::new();
        for said in said.drain(..) {
            let out = if ended.is_none() { &mut *batch } else { &mut nobody };
            match said {
                ThreadMessage::Notification { method, params } => {
                    let signal = self.translator.on_notification(&method, &params, out);
                    if let Some(Signal::Ended(end)) = signal {
                        ended = ended.or(Some(end));
                    }
                }
                ThreadMessage::Request { id, method, params } => {
                    let answer = self.translator.on_request(&id, &method, &params, out);
                    match answer {
                        RequestOutcome::Now(result) => self.server.reply(&id, &result).await,
                        RequestOutcome::Error(error) => self.server.reply_error(&id, &error).await,
                        RequestOutcome::Approval(_) | RequestOutcome::CallerTool(_) => {}
                    }
                }
                ThreadMessage::TooLong { bytes } => self.translator.on_too_long(bytes, out),
            }
        }
        self.deny_discarded_approvals(&nobody).await;
        ended
    }

    /// Denies the approvals among `discarded`: their turn is over, so no client can decide them.
    pub(super) async fn deny_discarded_approvals(&mut self, nobody: &[AgentEvent]) {
        for emitted in nobody {
            if let AgentEvent::ApprovalRequest(request) = emitted {
                let refusal = Decision::new(Verdict::Deny, "nobody")
                    .with_note("the turn this belongs to is over");
                if let Some(reply) = self.translator.decide(&request.key, &refusal) {
                    self.server.reply(&reply.id, &reply.result).await;
                }
            }
        }
    }

    pub(super) async fn handle_control(&mut self, control: TurnControl) {
        let reply = match control {
            TurnControl::Decide { key, decision } => self.translator.decide(&key, &decision),
            TurnControl::ToolResult { id, ok, content } => {
                self.translator.on_tool_result(&id, ok, &content)
            }
            TurnControl::Steer(content) => {
                self.pending_steers.push(content);
                None
            }
        };
        if let Some(DeferredReply { id, result, then_interrupt, then_steer: then_tell }) = reply {
            self.server.reply(&id, &result).await;
            if then_interrupt {
                self.interrupt().await;
            }
            if let Some(words) = then_tell {
                self.pending_steers.push(vec![Content::Text(words)]);
            }
        }
        self.send_pending_steers().await;
    }

    /// Sends the next queued input to the running turn, once Codex has reported the turn's id.
    pub(super) async fn send_pending_steers(&mut self) {
        if self.pending_steers.is_empty() || self.steer_response.is_some() {
            return;
        }
        let Some(turn) = self.translator.active_turn().map(str::to_owned) else {
            return;
        };
        let content = self.pending_steers.remove(0);
        let id = self.settings.clock.fresh_uuid().to_string();
        let steer = TurnSteer {
            thread_id: &self.thread,
            expected_turn_id: &turn,
            input: to_user_input(&content),
            client_user_message_id: Some(&id),
        };
        self.translator.on_steer();
        self.steer_response = Some(self.server.send_request(&steer).await);
    }

    /// Drops queued input when the turn ends, and adds a notice if any of it was not delivered.
    pub(super) async fn drop_pending_steers(&mut self, batch: &mut Vec<AgentEvent>) {
        let mut lost = !std::mem::take(&mut self.pending_steers).is_empty();
        if let Some(steering) = self.steer_response.take() {
            let taken = timeout(WIND_DOWN_TIMEOUT, steering).await;
            lost |= !matches!(taken, Ok(Ok(Ok(_))));
        }
        if lost {
            batch.push(not_steered_notice());
        }
    }

    /// Asks Codex to interrupt the running turn. Returns `false` if Codex has not named it yet.
    pub(super) async fn interrupt(&mut self) -> bool {
        let Some(turn) = self.translator.active_turn() else {
            return false;
        };
        let interrupt = TurnInterrupt { thread_id: &self.thread, turn_id: turn };
        // The notification that ends the turn serves as the response.
        let _answer = self.server.send_request(&interrupt).await;
        true
    }

    /// Ends commands that run on after a turn, and removes the empty folders of their sandbox.
    pub(super) async fn clean_up(&mut self) {
        if self.server.is_running() {
            let clean = CleanTerminals { thread_id: &self.thread };
            let cleaning = self.server.send_request(&clean).await;
            let _too_slow = timeout(CLEAN_LIMIT, cleaning).await;
        }
        self.sandbox_cleanup.remove_mount_points();
    }

    /// Drains the process if it does not answer. A turn that does not end affects only this agent;
    /// a process that answers nothing affects every thread in it.
    pub(super) async fn drain_if_stuck(&mut self) {
        let answers = timeout(STUCK_LIMIT, self.server.read_login()).await;
        if !matches!(answers, Ok(login) if login != LoginState::Unknown) {
            self.is_stuck = true;
            self.server.drain();
        }
    }

    /// Builds the failure for a lost connection; `when` says at which point of the turn it was
    /// lost.
    pub(super) async fn connection_failure(&mut self, when: &str) -> Failure {
        self.retired = true;
        // The process still runs, so only this thread's inbox was closed: it was full.
        if self.server.is_running() {
            let message = format!("Codex wrote more {when} than can be buffered and was cut off");
            return Failure::new(FailureKind::Agent, message).with_hint(RESEND_HINT);
        }
        let words = self.server.exit_reason().await;
        Failure::new(FailureKind::Agent, format!("Codex ended {when}: {words}"))
            .with_hint(RESEND_HINT)
    }

    pub(super) async fn handle_end_of_output(
        &mut self,
        batch: &mut Vec<AgentEvent>,
    ) -> AgentOutcome {
        let ended = match self.translator.on_end_of_output(batch) {
            Some(Signal::Ended(ended)) => ended,
            None => AgentOutcome::failed(Failure::new(FailureKind::Agent, "")),
        };
        let failure = self.connection_failure("in the middle of the turn").await;
        // Replace the translator's generic failure by one that says how the process exited.
        match ended.status {
            TurnStatus::Failed(known) if known.kind == FailureKind::Agent => {
                AgentOutcome { status: TurnStatus::Failed(failure), ..ended }
            }
            _ => ended,
        }
    }

    /// Checks the login before a turn if it was missing when the thread was opened. Without this
    /// check the turn would fail only after many seconds.
    pub(super) async fn login_failure(&mut self) -> Option<Failure> {
        if !self.settings.logged_out {
            return None;
        }
        if self.server.read_login().await != LoginState::LoggedOut {
            self.settings.logged_out = false;
            return None;
        }
        // The running process does not notice a later login; the next process does.
        self.retired = true;
        self.server.drain();
        Some(not_logged_in_failure())
    }

    async fn stop_before_close(&mut self, grace: Duration) {
        if !self.server.is_running() {
            self.sandbox_cleanup.remove_mount_points();
            return;
        }
        if self.in_turn {
            let stopped = async {
                self.interrupt().await;
                let mut said = Vec::new();
                while self.translator.active_turn().is_some() {
                    self.inbox.recv_batch(&mut said).await;
                    if said.is_empty() {
                        return;
                    }
                    self.translate(&mut said, &mut Vec::new()).await;
                }
            };
            // If the turn does not stop in time, releasing the thread stops it.
            let _ = timeout(WIND_DOWN_TIMEOUT.min(grace), stopped).await;
        }
        self.clean_up().await;
    }
}

const RESEND_HINT: &str = "send the message again, the session continues where it was; \
                     to switch to another agent, set another `executor` in the profile";

pub(super) fn not_steered_notice() -> AgentEvent {
    let text = "the agent could not take what was added to this turn; send it again";
    let notice = Notice::new(NoticeLevel::Warning, "not_steered", text);
    AgentEvent::Event(EventKind::Notice(notice))
}
