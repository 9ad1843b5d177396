//! Runs a turn without the engine: the same agent, the same store and the same threads as in
//! [`local`](crate::local), and between them only the minimum for a record. Events are numbered,
//! stored and shown, and the end is committed before it is shown.
//!
//! It leaves out what the engine adds: watchdogs, budgets, approvals, the queue, interrupts,
//! steering, idempotency, catching a panic, a log that any number of viewers can join, and closing
//! the blocks and tools that an agent left open. So the difference between the two is at least the
//! cost of governance, never less.

use std::{sync::Arc, time::Instant};

use angelia_core::{
    model::{
        Content, EventKind, Outcome, SessionId, SessionRecord, Turn, TurnEvent, TurnId, TurnRecord,
        TurnState, Usage,
    },
    ports::{Agent, AgentEvent, EmptyRecord, EventSender, Lease, OpenRequest, Store, TurnIo},
};
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    Timing,
    local::{InProcessEngine, OPTIONS, check_end},
};

type Batch = Result<Vec<TurnEvent>>;

pub(crate) struct UngovernedSession {
    session: SessionId,
    turns: mpsc::Sender<(Turn, mpsc::Sender<Batch>)>,
}

impl UngovernedSession {
    pub(crate) fn start(local: &InProcessEngine) -> Result<Self> {
        let now = Timestamp::now();
        let record = SessionRecord {
            id: SessionId::from_uuid(Uuid::now_v7()),
            spec: local.spec.clone(),
            title: None,
            source: None,
            native: None,
            created_at: now,
            updated_at: now,
            forked_from: None,
            forked_after: None,
            revision: 0,
        };
        let executors = local.engine.executors();
        let executor = executors.iter().find(|executor| executor.name() == &*record.spec.executor);
        let executor = executor.context("no such executor")?;
        let (lease, agent) = local.runtime.block_on(async {
            local.store.create_session(&record).await?;
            let lease = local.store.acquire_lease(record.id).await?;
            let opening = OpenRequest {
                session: record.id,
                spec: &record.spec,
                native: None,
                is_owners: true,
                record: &EmptyRecord,
            };
            let agent = executor.open(opening).await?;
            anyhow::Ok((lease, agent))
        })?;
        let (turns, mut waiting) = mpsc::channel::<(Turn, mpsc::Sender<Batch>)>(1);
        let mut driver = UngovernedDriver { store: Arc::clone(&local.store), lease, agent };
        let inside = local.runtime.enter();
        local.tasks.spawn_until_stopped(async move {
            while let Some((turn, viewer)) = waiting.recv().await {
                if let Err(error) = driver.run(&turn, &viewer).await {
                    // The viewer reports the error.
                    let _gone = viewer.send(Err(error)).await;
                }
            }
        });
        drop(inside);
        Ok(Self { session: record.id, turns })
    }

    pub(crate) fn turn(&self, local: &InProcessEngine, prompt: &str) -> Result<Timing> {
        let begun = Instant::now();
        local.runtime.block_on(async {
            let turn = Turn {
                id: TurnId::from_uuid(Uuid::now_v7()),
                session: self.session,
                input: vec![Content::text(prompt)],
                options: OPTIONS,
            };
            let (viewer, mut batches) = mpsc::channel(64);
            self.turns.send((turn, viewer)).await?;
            let mut first = None;
            while let Some(batch) = batches.recv().await {
                let batch: Vec<TurnEvent> = batch?;
                let is_text = |kind: &EventKind| matches!(kind, EventKind::Delta { .. });
                if first.is_none() && batch.iter().any(|event| is_text(&event.kind)) {
                    first = Some(begun.elapsed());
                }
                if let Some(last) = batch.last() {
                    check_end(&last.kind)?;
                }
            }
            Ok(Timing { first: first.context("the turn had no text")?, end: begun.elapsed() })
        })
    }
}

struct UngovernedDriver {
    store: Arc<dyn Store>,
    lease: Lease,
    agent: Box<dyn Agent>,
}

impl UngovernedDriver {
    async fn run(&mut self, turn: &Turn, viewer: &mpsc::Sender<Batch>) -> Result<()> {
        let record = TurnRecord {
            id: turn.id,
            session: turn.session,
            input: turn.input.clone(),
            options: turn.options.clone(),
            created_at: Timestamp::now(),
            state: TurnState::Running,
        };
        self.store.create_turn(&self.lease, &record.into()).await?;
        let (events, mut batches) = mpsc::channel(16);
        let (_control, control) = mpsc::channel(1);
        let io =
            TurnIo { events: EventSender::new(events), control, cancel: CancellationToken::new() };
        let mut seen = EventRecorder {
            turn,
            store: &*self.store,
            lease: &self.lease,
            viewer,
            last: 0,
            usage: Usage::default(),
        };
        let mut run = self.agent.run(turn, io);
        let ended = loop {
            tokio::select! {
                biased;
                Some(batch) = batches.recv() => seen.record_batch(batch).await?,
                ended = &mut run => break ended,
            }
        };
        while let Ok(batch) = batches.try_recv() {
            seen.record_batch(batch).await?;
        }
        let outcome = Outcome {
            status: ended.status,
            text: ended.text.unwrap_or_default(),
            reason: ended.reason,
            usage: seen.usage.clone(),
        };
        seen.record_events(vec![EventKind::Finished(outcome)]).await
    }
}

/// Numbers, stores and shows the events of one turn.
struct EventRecorder<'a> {
    turn: &'a Turn,
    store: &'a dyn Store,
    lease: &'a Lease,
    viewer: &'a mpsc::Sender<Batch>,
    last: u64,
    usage: Usage,
}

impl EventRecorder<'_> {
    async fn record_batch(&mut self, batch: Vec<AgentEvent>) -> Result<()> {
        let events = batch.into_iter().filter_map(|emitted| match emitted {
            AgentEvent::Event(kind) => Some(kind),
            _ => None,
        });
        self.record_events(events.collect()).await
    }

    async fn record_events(&mut self, kinds: Vec<EventKind>) -> Result<()> {
        let at = Timestamp::now();
        let mut commit_first = false;
        let mut stored = Vec::new();
        let mut events = Vec::with_capacity(kinds.len());
        for kind in kinds {
            self.last += 1;
            commit_first |= kind.must_commit_first();
            if let EventKind::Usage(usage) = &kind {
                self.usage = usage.clone();
            }
            let event = TurnEvent {
                turn: self.turn.id,
                session: self.turn.session,
                seq: self.last,
                at,
                kind,
            };
            if event.kind.is_stored() {
                stored.push(event.clone());
            }
            events.push(event);
        }
        let mut shown = Some(events).filter(|events| !events.is_empty());
        if !commit_first && let Some(events) = shown.take() {
            let _gone = self.viewer.send(Ok(events)).await;
        }
        if !stored.is_empty() {
            let committed = self.store.append(self.lease, stored).await?;
            if commit_first {
                committed.await?;
            }
        }
        if let Some(events) = shown {
            let _gone = self.viewer.send(Ok(events)).await;
        }
        Ok(())
    }
}
