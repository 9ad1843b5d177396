//! The connection of a running turn to the engine: events go out, and decisions, tool results and
//! steering come in while the loop works.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use angelia_core::{
    model::{ApprovalRequest, Content, Decision, ToolId},
    ports::{AgentEvent, EventSender, TurnControl, TurnIo},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// The turn was interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupted;

/// The engine's decision about a call.
#[derive(Clone, Debug)]
pub(super) enum CallDecision {
    /// No rule objects to a call that was only reported.
    Proceed,
    Decide(Decision),
}

/// The result of a caller's tool.
#[derive(Clone, Debug)]
pub(super) struct CallerResult {
    pub(super) ok: bool,
    pub(super) content: Vec<Content>,
}

pub(super) struct EngineLink {
    events: EventSender,
    /// `None` once the engine has closed its end.
    control: Option<mpsc::Receiver<TurnControl>>,
    cancel: CancellationToken,
    steering: Vec<Content>,
    decisions: HashMap<Arc<str>, oneshot::Sender<CallDecision>>,
    caller_results: HashMap<ToolId, CallerResult>,
}

impl EngineLink {
    pub(super) fn new(io: TurnIo) -> Self {
        Self {
            events: io.events,
            control: Some(io.control),
            cancel: io.cancel,
            steering: Vec::new(),
            decisions: HashMap::new(),
            caller_results: HashMap::new(),
        }
    }

    /// Returns the token that stops every tool of the turn when the turn is interrupted.
    pub(super) fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    pub(super) async fn send(&self, batch: Vec<AgentEvent>) {
        self.events.send(batch).await;
    }

    /// Returns a sender for events that can be used while [`Self::run`] has the link.
    pub(super) fn sender(&self) -> EventSender {
        self.events.clone()
    }

    /// Does `work`, and handles messages from the engine in the meantime.
    pub(super) async fn run<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                taken = self.take_next() => taken?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits for the engine's next message and handles it. Cancel-safe.
    async fn take_next(&mut self) -> Result<(), Interrupted> {
        let control = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(Interrupted),
            control = next_control(&mut self.control) => control,
        };
        match control {
            Some(control) => self.take(control),
            None => self.control = None,
        }
        Ok(())
    }

    pub(super) async fn sleep(&mut self, time: Duration) -> Result<(), Interrupted> {
        self.run(sleep(time)).await
    }

    /// Sends a request, and waits for the decision on it.
    pub(super) async fn decide(
        &mut self,
        request: ApprovalRequest,
    ) -> Result<CallDecision, Interrupted> {
        let (sender, decision) = oneshot::channel();
        let key = Arc::clone(&request.key);
        self.decisions.insert(Arc::clone(&key), sender);
        self.send(vec![AgentEvent::ApprovalRequest(request)]).await;
        match self.run(decision).await {
            Ok(Ok(decision)) => Ok(decision),
            // Only a later request with the same key drops the sender, and keys are unique.
            Ok(Err(_)) => Err(Interrupted),
            Err(interrupted) => {
                self.decisions.remove(&key);
                self.send(vec![AgentEvent::ApprovalWithdrawn(key)]).await;
                Err(interrupted)
            }
        }
    }

    /// Waits for the result of a caller's tool.
    pub(super) async fn caller_result(&mut self, id: &ToolId) -> Result<CallerResult, Interrupted> {
        loop {
            if let Some(result) = self.caller_results.remove(id) {
                return Ok(result);
            }
            self.take_next().await?;
        }
    }

    /// Returns what the person has added to the turn since the last call.
    pub(super) fn take_steering(&mut self) -> Vec<Content> {
        // The engine may have sent messages that were not received yet.
        while let Some(Ok(control)) = self.control.as_mut().map(mpsc::Receiver::try_recv) {
            self.take(control);
        }
        std::mem::take(&mut self.steering)
    }

    fn take(&mut self, control: TurnControl) {
        let (key, decision) = match control {
            TurnControl::Steer(content) => return self.steering.extend(content),
            TurnControl::ToolResult { id, ok, content } => {
                self.caller_results.insert(id, CallerResult { ok, content });
                return;
            }
            TurnControl::Decide { key, decision } => (key, CallDecision::Decide(decision)),
            TurnControl::Proceed { key } => (key, CallDecision::Proceed),
        };
        if let Some(sender) = self.decisions.remove(&key) {
            let _no_longer_waited_for = sender.send(decision);
        }
    }
}

/// Waits for the next message of the engine, or forever once the engine has closed its end.
/// Cancel-safe.
async fn next_control(control: &mut Option<mpsc::Receiver<TurnControl>>) -> Option<TurnControl> {
    match control {
        Some(control) => control.recv().await,
        None => std::future::pending().await,
    }
}
