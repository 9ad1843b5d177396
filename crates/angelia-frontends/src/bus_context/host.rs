//! Receives the messages of an endpoint. Each message goes through the rules and is acknowledged
//! when their actions are done. A message whose handling panics is refused and affects no other.

use std::{panic::AssertUnwindSafe, path::PathBuf, sync::Arc};

use angelia_core::{
    engine::Engine,
    ports::{
        Bus, Inbox, Profiles,
        bus::{Delivery, InboxError},
    },
    task::Tasks,
};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;

use super::{
    lane::{LaneName, Lanes, Offer, Pace, Settled},
    merge::Item,
    reply::{Replies, ReplyTo},
    turns::{Running, Turns},
};
use crate::{
    bus_rules::{Left, Reactor},
    chat::{Courier, CourierError},
};

/// The limit on messages taken from the inbox at once.
const BATCH: usize = 32;

pub struct HostParts {
    pub engine: Engine,
    pub profiles: Arc<dyn Profiles>,
    pub bus: Arc<dyn Bus>,
    pub courier: Courier,
    pub reactor: Reactor,
    pub pace: Pace,
    pub tasks: Tasks,
    /// The working directory for profiles that do not set one.
    pub caller_cwd: Option<PathBuf>,
}

/// Hosts endpoints; cheap to clone.
#[derive(Clone)]
pub struct Host {
    reactor: Reactor,
    courier: Courier,
    lanes: Lanes,
    tasks: Tasks,
}

impl Host {
    pub fn new(parts: HostParts) -> Self {
        let replies = Replies {
            bus: parts.bus,
            courier: parts.courier.clone(),
            screen: Arc::clone(&parts.reactor.screen),
            clock: Arc::clone(&parts.reactor.clock),
        };
        let turns = Turns {
            engine: parts.engine,
            profiles: parts.profiles,
            replies,
            zone: parts.reactor.zone.clone(),
            tasks: parts.tasks.clone(),
            caller_cwd: parts.caller_cwd,
            running: Running::default(),
        };
        Self {
            reactor: parts.reactor,
            courier: parts.courier,
            lanes: Lanes::new(turns, parts.pace, parts.tasks.clone()),
            tasks: parts.tasks,
        }
    }

    /// Handles the messages of an inbox until its name is lost or the bus is closed.
    pub async fn serve(&self, inbox: &mut dyn Inbox) -> InboxError {
        let (settled, mut results) = mpsc::channel(BATCH);
        loop {
            let deliveries = tokio::select! {
                // Outcomes first, so that a busy inbox does not delay acknowledgements.
                biased;
                Some(result) = results.recv() => {
                    settle(inbox, result);
                    continue;
                }
                next = inbox.next(BATCH) => match next {
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
                    Err(_panic) => inbox.refuse(position, "the handling of the message panicked"),
                }
            }
        }
    }

    /// Handles one message. Returns `true` if it can be acknowledged now; otherwise its lane
    /// reports the outcome later.
    async fn handle(
        &self,
        endpoint: angelia_core::model::EndpointName,
        delivery: Delivery,
        settled: &mpsc::Sender<Settled>,
    ) -> bool {
        let left = self.reactor.react(&delivery.message).await;
        if let Some((channel, line)) = &left.channel {
            self.to_channel(channel, line, &left).await;
        }
        let Left { seen, context, .. } = left;
        let Some((text, profile)) = context else {
            return true;
        };
        let reply = match &seen.channel {
            Some(channel) => ReplyTo::Channel(Arc::clone(channel)),
            None => ReplyTo::Sender(Arc::clone(&seen.from)),
        };
        let name = LaneName { endpoint, profile, reply };
        let offer = Offer {
            id: Arc::clone(&seen.id),
            position: delivery.position,
            again: delivery.again,
            item: Item { text, at: seen.at, from: seen.from.to_string(), verified: seen.verified },
            settled: settled.clone(),
        };
        self.lanes.offer(name, offer).await;
        false
    }

    /// Queues a line for a channel. A line that cannot be delivered is shown on the console
    /// instead.
    async fn to_channel(&self, channel: &str, line: &str, left: &Left) {
        let id = format!("print-{}", left.seen.id);
        let screen = Arc::clone(&self.reactor.screen);
        let shown = line.to_owned();
        let show_here = move |error: CourierError| {
            screen.remark(&format!("cannot deliver a line to its channel: {error}"));
            screen.show(&shown);
        };
        match self.courier.send(&id, channel, line).await {
            Err(error) => show_here(error),
            Ok(sending) => self.tasks.spawn_until_stopped(async move {
                match sending.outcome().await {
                    Ok(()) | Err(CourierError::ShuttingDown) => {}
                    Err(error) => show_here(error),
                }
            }),
        }
    }
}

fn settle(inbox: &mut dyn Inbox, result: Settled) {
    match result {
        Settled::Done(position) => inbox.ack(&[position]),
        Settled::Refused(position, why) => inbox.refuse(position, &why),
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointHost").field("rule_runner", &self.reactor).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HostParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointHostParts").field("engine", &self.engine).finish_non_exhaustive()
    }
}
