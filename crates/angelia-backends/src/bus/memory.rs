//! A bus without a disk, for tests and for one-off programs.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::{
    model::{EndpointName, bus::Message},
    ports::{
        BoxFuture, Bus, Clock,
        bus::{BusError, Refusal},
    },
};

use super::{
    index::{Index, Place, Standing, Targets},
    limits::BusLimits,
    repeats::Repeats,
    shared::{Batch, Keeper, Shared, SharedIndex, lock},
};

/// A bus in memory; its messages are lost when the process ends.
#[derive(Debug)]
pub struct MemoryBus;

impl MemoryBus {
    pub fn open(limits: BusLimits, clock: Arc<dyn Clock>) -> Arc<dyn Bus> {
        let index = Arc::new(Mutex::new(Index::new(limits)));
        let order = Order { next: 1, is_closed: false, repeats: Repeats::new(&limits) };
        let keeper = Nowhere {
            index: Arc::clone(&index),
            clock: Arc::clone(&clock),
            order: Mutex::new(order),
        };
        Arc::new(Shared { index, keeper: Arc::new(keeper), clock })
    }
}

pub(super) struct Nowhere {
    index: SharedIndex,
    clock: Arc<dyn Clock>,
    order: Mutex<Order>,
}

#[derive(Debug)]
struct Order {
    next: u64,
    is_closed: bool,
    repeats: Repeats,
}

impl Nowhere {
    fn accept(&self, batch: Batch) {
        let now = self.clock.now().as_millisecond();
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = lock(&self.index);
        let mut receipts = Vec::with_capacity(batch.outgoing.len());
        for outgoing in batch.outgoing {
            if order.is_closed {
                index.unreserve(&outgoing.targets);
                receipts.push(Err(Refusal::Storage(BusError::Closed)));
                continue;
            }
            if let Targets::Refused(refusal) = outgoing.targets {
                receipts.push(Err(refusal));
                continue;
            }
            let key = order.repeats.key(&outgoing.message);
            if !outgoing.fresh && order.repeats.contains(key, now) {
                receipts.push(Ok(index.repeated(&outgoing)));
                continue;
            }
            order.repeats.insert(key, now);
            let first = order.next;
            order.next += outgoing.targets.slots().len() as u64;
            receipts.push(Ok(index.commit(outgoing, first, now, None, batch.watch.as_ref())));
        }
        drop(index);
        drop(order);
        let _sender_gone = batch.reply.send(receipts);
    }
}

impl Keeper for Nowhere {
    fn store(&self, batch: Batch) -> BoxFuture<'_, ()> {
        self.accept(batch);
        Box::pin(std::future::ready(()))
    }

    fn done(&self, _positions: Vec<u64>) {}

    fn dead(&self, _position: u64, _at: i64, _reason: &str) {}

    fn read(&self, _places: &[(u64, Place)]) -> io::Result<Vec<(u64, Message)>> {
        Ok(Vec::new())
    }

    fn remember(&self, _name: &EndpointName, _standing: &Standing) -> io::Result<()> {
        Ok(())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.is_closed = true;
        Box::pin(std::future::ready(()))
    }
}
