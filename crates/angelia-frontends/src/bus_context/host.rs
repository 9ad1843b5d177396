//! Receives the messages of an endpoint. Each message goes through the rules and is acknowledged
//! when their actions are done. A message whose handling panics is refused and does not affect
//! others.

use std::{panic::AssertUnwindSafe, path::PathBuf, sync::Arc};

use angelia_core::{
    engine::Engine,
    ports::{
        Bus, BusInbox, Profiles,
        bus::{BusDelivery, InboxError},
    },
    task::TaskGroup,
};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;

use super::{
    lane::{LaneKey, LaneLimits, Lanes, MessageOutcome, QueuedMessage},
    merge::PromptItem,
    reply::{ReplySender, ReplyTarget},
    turns::{LaneTurns, RunningTurns},
};
use crate::{
    bus_rules::{PendingActions, RuleRunner},
    chat::{DeliveryError, DeliveryQueue},
};

/// The limit on messages taken from the inbox at once.
const MAX_BATCH: usize = 32;

pub struct EndpointHostParts {
    pub engine: Engine,
    pub profiles: Arc<dyn Profiles>,
    pub bus: Arc<dyn Bus>,
    pub delivery_queue: DeliveryQueue,
    pub rule_runner: RuleRunner,
    pub lane_limits: LaneLimits,
    pub tasks: TaskGroup,
    /// The working directory for profiles that do not set one.
    pub caller_cwd: Option<PathBuf>,
}

/// Hosts endpoints. Cheap to clone.
#[derive(Clone)]
pub struct EndpointHost {
    rule_runner: RuleRunner,
    delivery_queue: DeliveryQueue,
    lanes: Lanes,
    tasks: TaskGroup,
}

impl EndpointHost {
    pub fn new(parts: EndpointHostParts) -> Self {
        let replies = ReplySender {
            bus: parts.bus,
            delivery_queue: parts.delivery_queue.clone(),
            screen: Arc::clone(&parts.rule_runner.screen),
            clock: Arc::clone(&parts.rule_runner.clock),
        };
        let turns = LaneTurns {
            engine: parts.engine,
            profiles: parts.profiles,
            replies,
            zone: parts.rule_runner.zone.clone(),
            tasks: parts.tasks.clone(),
            caller_cwd: parts.caller_cwd,
            running: RunningTurns::default(),
        };
        Self {
            rule_runner: parts.rule_runner,
            delivery_queue: parts.delivery_queue,
            lanes: Lanes::new(turns, parts.lane_limits, parts.tasks.clone()),
            tasks: parts.tasks,
        }
    }

    /// Handles the messages of an inbox until its name is lost or the bus is closed.
    pub async fn serve(&self, inbox: &mut dyn BusInbox) -> InboxError {
        let (settled, mut results) = mpsc::channel(MAX_BATCH);
        loop {
            let deliveries = tokio::select! {
                // Outcomes first, so that a busy inbox does not delay acknowledgements.
                biased;
                Some(result) = results.recv() => {
                    settle(inbox, result);
                    continue;
                }
                next = inbox.next(MAX_BATCH) => match next {
                    Ok(deliveries) => deliveries,
                    Err(error) => return error,
                },
            };
            for delivery in deliveries {
                let position = delivery.position;
                let handling =
                    AssertUnwindSafe(self.handle(inbox.endpoint().clone(), delivery, &settled));
                let mut handling = std::pin::pin!(handling.catch_unwind());
                // Handling waits while its lane is full; outcomes of other messages must be applied
                // meanwhile, or the lanes could not make progress.
                let handled = loop {
                    tokio::select! {
                        biased;
                        Some(result) = results.recv() => settle(inbox, result),
                        handled = &mut handling => break handled,
                    }
                };
                match handled {
                    Ok(true) => inbox.ack(&[position]),
                    Ok(false) => {}
                    Err(_panic) => {
                        inbox.dead_letter(position, "the handling of the message panicked");
                    }
                }
            }
        }
    }

    /// Handles one message. Returns `true` if it can be acknowledged now; otherwise its lane
    /// reports the outcome later.
    async fn handle(
        &self,
        endpoint: angelia_core::model::EndpointName,
        delivery: BusDelivery,
        settled: &mpsc::Sender<MessageOutcome>,
    ) -> bool {
        let left = self.rule_runner.apply(&delivery.message).await;
        if let Some((channel, line)) = &left.channel {
            self.send_to_channel(channel, line, &left).await;
        }
        let PendingActions { input: seen, context, .. } = left;
        let Some((text, profile)) = context else {
            return true;
        };
        let reply = match &seen.channel {
            Some(channel) => ReplyTarget::Channel(Arc::clone(channel)),
            None => ReplyTarget::Sender(Arc::clone(&seen.from)),
        };
        let sender_session = seen.sender_session;
        let name = LaneKey { endpoint, profile, reply_target: reply, sender_session };
        let offer = QueuedMessage {
            id: Arc::clone(&seen.id),
            position: delivery.position,
            redelivered: delivery.redelivered,
            item: PromptItem {
                text,
                at: seen.at,
                from: seen.from.to_string(),
                verified: seen.verified,
            },
            outcomes: settled.clone(),
        };
        self.lanes.enqueue(name, offer).await;
        false
    }

    /// Queues a line for a channel. A line that cannot be delivered is shown on the console
    /// instead.
    async fn send_to_channel(&self, channel: &str, line: &str, left: &PendingActions) {
        let id = format!("print-{}", left.input.id);
        let screen = Arc::clone(&self.rule_runner.screen);
        let shown = line.to_owned();
        let show_here = move |error: DeliveryError| {
            screen.show_notice(&format!("cannot deliver a line to its channel: {error}"));
            screen.show(&shown);
        };
        match self.delivery_queue.send(&id, channel, line).await {
            Err(error) => show_here(error),
            Ok(sending) => self.tasks.spawn_until_stopped(async move {
                match sending.outcome().await {
                    Ok(()) | Err(DeliveryError::ShuttingDown) => {}
                    Err(error) => show_here(error),
                }
            }),
        }
    }
}

fn settle(inbox: &mut dyn BusInbox, result: MessageOutcome) {
    match result {
        MessageOutcome::Done(position) => inbox.ack(&[position]),
        MessageOutcome::Refused(position, why) => inbox.dead_letter(position, &why),
    }
}

impl std::fmt::Debug for EndpointHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointHost")
            .field("rule_runner", &self.rule_runner)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for EndpointHostParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointHostParts").field("engine", &self.engine).finish_non_exhaustive()
    }
}
