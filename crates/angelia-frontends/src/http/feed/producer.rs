//! The task that turns announcements into events. It reads each changed resource once for all
//! clients.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{EngineChange, EngineError},
    model::{ApprovalId, SessionId, TurnId, bus::BusMessage},
};
use serde_json::json;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        watch,
    },
    time::{Instant, sleep_until},
};

use super::{
    super::{
        ApiState, HttpError,
        api::resource_reads,
        resources::{InputPart, TurnResource},
    },
    pending::{PendingChanges, Topic},
    resource_lists::{ResourceListState, encode},
};

/// The lists that are compared with what was last reported.
const LISTS: [Topic; 6] = [
    Topic::Agents,
    Topic::Quotas,
    Topic::Schedules,
    Topic::Bus,
    Topic::Deliveries,
    Topic::Channels,
];

/// How often to check what announces no changes: listeners of the bus, deliveries, chats.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Longer inputs are cut in the feed, which reports a running turn repeatedly.
const MAX_INPUT_CHARS: usize = 4096;

struct Producer {
    state: Arc<ApiState>,
    changes: broadcast::Receiver<EngineChange>,
    schedule_changes: watch::Receiver<u64>,
    messages: Option<broadcast::Receiver<BusMessage>>,
    pending: PendingChanges,
    agents: ResourceListState,
    quotas: ResourceListState,
    schedules: ResourceListState,
    endpoints: ResourceListState,
    deliveries: ResourceListState,
    channels: ResourceListState,
}

/// Starts the task. It ends a while after the last client has disconnected.
pub(super) fn spawn(state: &Arc<ApiState>) {
    let producer = Producer {
        changes: state.engine.subscribe(),
        schedule_changes: state.engine.subscribe_schedules(),
        messages: state.bus.as_ref().map(|bus| bus.incoming.subscribe()),
        pending: PendingChanges::default(),
        agents: ResourceListState::default(),
        quotas: ResourceListState::default(),
        schedules: ResourceListState::default(),
        endpoints: ResourceListState::default(),
        deliveries: ResourceListState::default(),
        channels: ResourceListState::default(),
        state: Arc::clone(state),
    };
    state.tasks.spawn_until_stopped(producer.run());
}

impl Producer {
    async fn run(mut self) {
        self.read_lists().await;
        self.state.feed.begin();
        let mut next_poll = Instant::now() + POLL_INTERVAL;
        loop {
            let due = self.pending.next_due().unwrap_or(next_poll).min(next_poll);
            tokio::select! {
                change = self.changes.recv() => match change {
                    Ok(change) => self.pending.add(change.into()),
                    Err(RecvError::Lagged(_)) => self.start_over().await,
                    Err(RecvError::Closed) => return,
                },
                Ok(()) = self.schedule_changes.changed() => self.pending.add(Topic::Schedules),
                () = next_message(&mut self.messages) => self.pending.add(Topic::Bus),
                () = sleep_until(due) => {}
            }
            while let Ok(change) = self.changes.try_recv() {
                self.pending.add(change.into());
            }
            let now = Instant::now();
            if now >= next_poll {
                if self.state.feed.end_producer_if_idle() {
                    return;
                }
                next_poll = now + POLL_INTERVAL;
                self.pending.add(Topic::Bus);
                self.pending.add(Topic::Deliveries);
                self.pending.add(Topic::Channels);
            }
            for topic in self.pending.take_due(now) {
                if let Err(error) = self.report(topic).await {
                    tracing::debug!(%error, ?topic, "a change could not be reported");
                }
            }
        }
    }

    /// Makes every client read everything again, because announcements were missed.
    async fn start_over(&mut self) {
        self.pending.clear();
        self.read_lists().await;
        self.state.feed.reset();
    }

    /// Reads the lists without reporting them, because clients read them themselves after this.
    async fn read_lists(&mut self) {
        for topic in LISTS {
            if let Err(error) = self.changed_in_list(topic).await {
                tracing::debug!(%error, ?topic, "a list could not be read");
            }
        }
    }

    async fn report(&mut self, topic: Topic) -> Result<(), HttpError> {
        match topic {
            Topic::Session(id) => self.report_session(id).await,
            Topic::Turn(id) => self.report_turn(id).await,
            Topic::Approval(id) => self.report_approval(id).await,
            list => {
                let (name, changed) = self.changed_in_list(list).await?;
                for resource in changed {
                    self.state.feed.push(name, &resource);
                }
                Ok(())
            }
        }
    }

    async fn report_session(&self, id: SessionId) -> Result<(), HttpError> {
        let data = match resource_reads::session(&self.state, id).await? {
            Some(session) => encode(&session),
            None => encode(&json!({"id": id.to_string(), "deleted": true})),
        };
        self.state.feed.push("session.changed", &data);
        Ok(())
    }

    async fn report_turn(&self, id: TurnId) -> Result<(), HttpError> {
        let turn = match self.state.engine.turn(id).await {
            Ok(turn) => turn,
            // The turn's session was deleted.
            Err(EngineError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut turn = resource_reads::turn(&self.state.engine, &turn);
        shorten_input(&mut turn);
        self.state.feed.push("turn.changed", &encode(&turn));
        Ok(())
    }

    async fn report_approval(&self, id: ApprovalId) -> Result<(), HttpError> {
        let record = self.state.engine.approval(id).await?;
        let approvals = resource_reads::approvals(&self.state.engine, &[record]).await?;
        for approval in approvals {
            let is_open = approval.decided.is_none();
            let name = if is_open { "approval.requested" } else { "approval.resolved" };
            self.state.feed.push(name, &encode(&approval));
        }
        Ok(())
    }

    /// Reads a list, and returns the name of its events and the changes in it.
    async fn changed_in_list(
        &mut self,
        topic: Topic,
    ) -> Result<(&'static str, Vec<Vec<u8>>), HttpError> {
        let state = &self.state;
        Ok(match topic {
            Topic::Agents => {
                let agents = resource_reads::agents(state).await;
                ("agent.changed", self.agents.update(&agents, |one| one.id.clone()))
            }
            Topic::Quotas => {
                let quotas = resource_reads::quotas(&state.engine).await?;
                ("quota.changed", self.quotas.update(&quotas, |one| one.id.clone()))
            }
            Topic::Schedules => {
                let all = resource_reads::schedules(&state.engine).await?;
                ("schedule.changed", self.schedules.update(&all, |one| one.id.to_string()))
            }
            Topic::Deliveries => {
                let all = resource_reads::deliveries(state).await?;
                ("delivery.changed", self.deliveries.update(&all, |one| one.id.clone()))
            }
            Topic::Channels => {
                let all = resource_reads::channels(state).await?;
                ("channel.changed", self.channels.update(&all, |one| one.id.clone()))
            }
            _ => {
                let all = resource_reads::endpoints(state);
                ("bus.changed", self.endpoints.update(&all, |one| one.id.clone()))
            }
        })
    }
}

/// Waits for the next message on the bus, or forever if there is no bus.
async fn next_message(messages: &mut Option<broadcast::Receiver<BusMessage>>) {
    let Some(receiver) = messages else { return std::future::pending().await };
    if let Err(RecvError::Closed) = receiver.recv().await {
        *messages = None;
    }
}

fn shorten_input(turn: &mut TurnResource) {
    for part in &mut turn.input {
        if let InputPart::Text { text } = part
            && let Some((end, _)) = text.char_indices().nth(MAX_INPUT_CHARS)
        {
            text.truncate(end);
            text.push('…');
        }
    }
}
