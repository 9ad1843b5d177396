//! An agent is one open thread with many turns. This file handles Codex's messages, steering,
//! interrupts and closing. The steps of a turn are in [`turn`](super::turn).

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{Content, Failure, FailureKind, RawJson},
    ports::{AgentEvent, AgentOutcome, Clock, LoginState},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    app_server::{AppServer, CallResult, ThreadInbox, ThreadMessage},
    probe::not_logged_in_failure,
    process_guard::ProcessGuard,
    protocol::outgoing::{CleanTerminals, TurnInterrupt, TurnSteer, to_user_input},
    sandbox_cleanup::SandboxCleanup,
    thread::CodexThread,
    translate::{CodexTranslator, RequestOutcome},
};
use crate::turn_driver::deny_orphans;

/// How long the process may take to answer at the end of a turn; it usually needs milliseconds.
pub(super) const WIND_DOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the process may take to answer a request that does not depend on anyone else.
const STUCK_LIMIT: Duration = Duration::from_secs(1);

/// How long the process may take to end background commands, which end as soon as they are told to.
const CLEAN_LIMIT: Duration = Duration::from_secs(1);

pub(super) struct CodexAgent {
    pub(super) server: AppServer,
    pub(super) thread: Arc<str>,
    pub(super) inbox: ThreadInbox,
    pub(super) translator: CodexTranslator,
    pub(super) settings: CodexAgentSettings,
    process_guard: ProcessGuard,
    pub(super) sandbox_cleanup: SandboxCleanup,
    /// Set if the whole process does not respond, so that closing this agent ends it.
    is_stuck: bool,
    /// Set if the running turn must be interrupted.
    pub(super) stop_requested: bool,
    /// The response to `turn/start`.
    pub(super) turn_response: Option<oneshot::Receiver<CallResult>>,
    /// Steering input for the running turn that has not been sent yet.
    pub(super) pending_steers: Vec<Vec<Content>>,
    /// The response to the `turn/steer` in flight; only one is sent at a time.
    pub(super) steer_response: Option<oneshot::Receiver<CallResult>>,
}

/// Settings that do not change during the agent's life, except for `logged_out`.
pub(super) struct CodexAgentSettings {
    pub(super) permissions: &'static str,
    pub(super) output_schema: Option<RawJson>,
    pub(super) clock: Arc<dyn Clock>,
    /// Set if Codex reported no login when the thread was opened.
    pub(super) logged_out: bool,
    /// The profile's cost limit per turn.
    pub(super) max_cost_usd: Option<f64>,
}

impl CodexAgent {
    pub(super) fn new(
        thread: CodexThread,
        translator: CodexTranslator,
        settings: CodexAgentSettings,
        sandbox_cleanup: SandboxCleanup,
    ) -> Self {
        Self {
            server: thread.server,
            thread: thread.info.thread,
            inbox: thread.inbox,
            process_guard: thread.process_guard,
            translator,
            settings,
            sandbox_cleanup,
            is_stuck: false,
            stop_requested: false,
            turn_response: None,
            pending_steers: Vec::new(),
            steer_response: None,
        }
    }

    /// Translates all received messages into `batch`. Events after the end of the turn are
    /// discarded.
    pub(super) async fn translate(
        &mut self,
        messages: Vec<ThreadMessage>,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let mut ended = None;
        let mut late = Vec::new();
        for message in messages {
            let out = if ended.is_none() { &mut *batch } else { &mut late };
            match message {
                ThreadMessage::Notification { method, params } => {
                    let end = self.translator.on_notification(&method, &params, out);
                    ended = ended.or(end);
                }
                ThreadMessage::Request { id, method, params } => {
                    match self.translator.on_request(&id, &method, &params, out) {
                        RequestOutcome::Now(result) => self.server.reply(id, Ok(result)).await,
                        RequestOutcome::Error(error) => self.server.reply(id, Err(error)).await,
                        RequestOutcome::Approval(_) | RequestOutcome::CallerTool(_) => {}
                    }
                }
                ThreadMessage::TooLong { bytes } => self.translator.on_too_long(bytes, out),
            }
        }
        deny_orphans(self, &late).await;
        ended
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

    /// Asks Codex to interrupt the running turn, if Codex has named it yet.
    pub(super) async fn interrupt(&mut self) {
        if let Some(turn) = self.translator.active_turn() {
            let interrupt = TurnInterrupt { thread_id: &self.thread, turn_id: turn };
            // The notification that ends the turn serves as the response.
            let _response = self.server.send_request(&interrupt).await;
        }
    }

    /// Ends commands that outlive a turn, and removes the empty folders that their sandbox leaves.
    pub(super) async fn clean_up(&mut self) {
        if self.server.is_running() {
            let clean = CleanTerminals { thread_id: &self.thread };
            let cleaning = self.server.send_request(&clean).await;
            let _too_slow = timeout(CLEAN_LIMIT, cleaning).await;
        }
        self.sandbox_cleanup.remove_mount_points();
    }

    /// Drains the process if it does not answer. A turn that does not end affects only this agent,
    /// but a process that answers nothing affects every thread in it.
    pub(super) async fn drain_if_stuck(&mut self) {
        let answers = timeout(STUCK_LIMIT, self.server.read_login()).await;
        if !matches!(answers, Ok(login) if login != LoginState::Unknown) {
            self.is_stuck = true;
            self.server.drain();
        }
    }

    /// Builds the failure for a lost connection. `when` names the point in the turn at which it was
    /// lost.
    pub(super) async fn connection_failure(&mut self, when: &str) -> Failure {
        // The process is still running, so only this thread's inbox was closed: it was full.
        if self.server.is_running() {
            let message = format!("Codex wrote more {when} than can be buffered and was cut off");
            return Failure::new(FailureKind::Agent, message).with_hint(RESEND_HINT);
        }
        let words = self.server.exit_reason().await;
        Failure::new(FailureKind::Agent, format!("Codex ended {when}: {words}"))
            .with_hint(RESEND_HINT)
    }

    /// Checks the login before a turn if there was none when the thread was opened. Without this
    /// check, the turn would fail only after many seconds.
    pub(super) async fn login_failure(&mut self) -> Option<Failure> {
        if !self.settings.logged_out {
            return None;
        }
        if self.server.read_login().await != LoginState::LoggedOut {
            self.settings.logged_out = false;
            return None;
        }
        // The running process does not notice a later login; the next process does.
        self.server.drain();
        Some(not_logged_in_failure())
    }

    /// Unloads the thread and ends every process that it started.
    pub(super) async fn release(mut self, grace: Duration) {
        self.clean_up().await;
        // A stuck process cannot unload the thread, so end the whole process.
        if self.is_stuck {
            self.server.close(grace).await;
        } else if self.server.is_running() {
            self.server.release_thread(&self.thread, self.inbox).await;
        }
        self.process_guard.end_processes().await;
        if !self.server.is_running() {
            self.server.wait_gone().await;
        }
    }
}

const RESEND_HINT: &str = "send the message again, the session continues where it was; \
                     to switch to another agent, set another `executor` in the profile";
