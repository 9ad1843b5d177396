//! A bus without a disk, for tests and for one-off programs.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::{
    model::{EndpointName, bus::BusMessage},
    ports::{
        BoxFuture, Bus, Clock,
        bus::{BusError, PublishError},
    },
};

use super::{
    bus_core::{BusCore, MessageStorage, PublishBatch, SharedIndex, lock_index},
    dedupe::DedupeFilter,
    index::{BusIndex, EndpointRecord, LogLocation, Targets},
    limits::BusLimits,
};

/// A bus in memory; its messages are lost when the process ends.
#[derive(Debug)]
pub struct MemoryBus;

impl MemoryBus {
    pub fn open(limits: BusLimits, clock: Arc<dyn Clock>) -> Arc<dyn Bus> {
        let index = Arc::new(Mutex::new(BusIndex::new(limits)));
        let order = MemoryBusState {
            next_position: 1,
            is_closed: false,
            dedupe: DedupeFilter::new(&limits),
        };
        let keeper = MemoryStorage {
            index: Arc::clone(&index),
            clock: Arc::clone(&clock),
            state: Mutex::new(order),
        };
        Arc::new(BusCore { index, storage: Arc::new(keeper), clock })
    }
}

pub(super) struct MemoryStorage {
    index: SharedIndex,
    clock: Arc<dyn Clock>,
    state: Mutex<MemoryBusState>,
}

#[derive(Debug)]
struct MemoryBusState {
    next_position: u64,
    is_closed: bool,
    dedupe: DedupeFilter,
}

impl MemoryStorage {
    fn commit_batch(&self, batch: PublishBatch) {
        let now = self.clock.now().as_millisecond();
        let mut order = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = lock_index(&self.index);
        let mut receipts = Vec::with_capacity(batch.messages.len());
        for outgoing in batch.messages {
            if order.is_closed {
                index.unreserve(&outgoing.targets);
                receipts.push(Err(PublishError::Storage(BusError::Closed)));
                continue;
            }
            if let Targets::Refused(refusal) = outgoing.targets {
                receipts.push(Err(refusal));
                continue;
            }
            let key = order.dedupe.hash_message(&outgoing.message);
            if !outgoing.skip_dedupe && order.dedupe.contains(key, now) {
                receipts.push(Ok(index.accept_repeat(&outgoing)));
                continue;
            }
            order.dedupe.insert(key, now);
            let first = order.next_position;
            order.next_position += outgoing.targets.slots().len() as u64;
            receipts.push(Ok(index.commit(outgoing, first, now, None, batch.watch.as_ref())));
        }
        drop(index);
        drop(order);
        let _sender_gone = batch.reply.send(receipts);
    }
}

impl MessageStorage for MemoryStorage {
    fn store(&self, batch: PublishBatch) -> BoxFuture<'_, ()> {
        self.commit_batch(batch);
        Box::pin(std::future::ready(()))
    }

    fn mark_done(&self, _positions: Vec<u64>) {}

    fn mark_dead(&self, _position: u64, _at: i64, _reason: &str) {}

    fn read(&self, _places: &[(u64, LogLocation)]) -> io::Result<Vec<(u64, BusMessage)>> {
        Ok(Vec::new())
    }

    fn save_endpoint(&self, _name: &EndpointName, _standing: &EndpointRecord) -> io::Result<()> {
        Ok(())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let mut order = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        order.is_closed = true;
        Box::pin(std::future::ready(()))
    }
}
