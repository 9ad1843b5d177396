//! Plays the engine for an executor whose agents keep no conversation of their own: it records the
//! turns of each conversation, and gives them to the agent that continues it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::{
    model::{Failure, NativeSessionId, SessionSpec, Turn},
    ports::{
        Agent, AgentEvent, AgentOutcome, BoxFuture, ConversationError, ConversationRecord,
        EventSender, Executor, ExecutorCapabilities, ExecutorHealth, OpenRequest, RecordedTurn,
        TurnIo,
    },
};
use tokio::sync::mpsc;

type Records = Arc<Mutex<HashMap<NativeSessionId, Vec<RecordedTurn>>>>;

pub(crate) struct RecordedExecutor {
    inner: Arc<dyn Executor>,
    records: Records,
}

impl RecordedExecutor {
    pub(crate) fn new(inner: Arc<dyn Executor>) -> Self {
        Self { inner, records: Records::default() }
    }
}

impl Executor for RecordedExecutor {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        self.inner.capabilities()
    }

    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        self.inner.probe(spec)
    }

    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
        Box::pin(async move {
            let turns =
                opening.native.map(|native| self.records.lock().unwrap().get(native).cloned());
            if let Some(None) = turns {
                return Err(ConversationError::Lost);
            }
            let record = StoredTurns(turns.flatten().unwrap_or_default());
            let agent = self.inner.open(OpenRequest { record: &record, ..opening }).await?;
            let records = Arc::clone(&self.records);
            Ok(Box::new(RecordedAgent { agent, records }) as Box<dyn Agent>)
        })
    }

    fn warm_up(&self, spec: &SessionSpec) {
        self.inner.warm_up(spec);
    }

    fn fork<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
        Box::pin(async move {
            let copy = self.inner.fork(spec, native).await?;
            let mut records = self.records.lock().unwrap();
            let turns = records.get(native).cloned().unwrap_or_default();
            records.insert(copy.clone(), turns);
            Ok(copy)
        })
    }

    fn delete_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        self.records.lock().unwrap().remove(native);
        self.inner.delete_conversation(spec, native)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

#[derive(Debug)]
struct StoredTurns(Vec<RecordedTurn>);

impl ConversationRecord for StoredTurns {
    fn turns(&self) -> BoxFuture<'_, Result<Vec<RecordedTurn>, Failure>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

struct RecordedAgent {
    agent: Box<dyn Agent>,
    records: Records,
}

impl Agent for RecordedAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome> {
        Box::pin(async move {
            let TurnIo { events, control, cancel } = io;
            let (sender, mut batches) = mpsc::channel(1);
            let inner = TurnIo { events: EventSender::new(sender), control, cancel };
            let mut recorded = Vec::new();
            let forward = async {
                while let Some(batch) = batches.recv().await {
                    recorded.extend(batch.iter().filter_map(|event| match event {
                        AgentEvent::Event(kind) if kind.is_stored() => Some(kind.clone()),
                        _ => None,
                    }));
                    events.send(batch).await;
                }
            };
            let (outcome, ()) = tokio::join!(self.agent.run(turn, inner), forward);
            let native = recorded.iter().find_map(|event| match event {
                angelia_core::model::EventKind::Started(start) => start.native_session_id.clone(),
                _ => None,
            });
            if let Some(native) = native {
                let turn = RecordedTurn {
                    id: turn.id,
                    is_owners: true,
                    input: turn.input.clone(),
                    events: recorded,
                };
                self.records.lock().unwrap().entry(native).or_default().push(turn);
            }
            outcome
        })
    }

    fn is_usable(&mut self) -> bool {
        self.agent.is_usable()
    }

    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        self.agent.close(grace)
    }
}
