//! Output for a client: receipts for its own messages, and messages from others.

use std::sync::Arc;

use angelia_core::{
    model::bus::BusMessage,
    ports::bus::{BusDelivery, Receipts},
};
use angelia_wire::frame;
use tokio::sync::mpsc;

use super::{BusConnection, MAX_QUEUED_NOTICES, UnansweredBatch};
use crate::bus::{envelope, reply};

impl BusConnection {
    pub(super) fn publish(&mut self, messages: Vec<BusMessage>) {
        if messages.is_empty() {
            return;
        }
        let watch = self.uses_acks.then(|| {
            let watch = self.watch.get_or_insert_with(|| mpsc::channel(MAX_QUEUED_NOTICES));
            watch.0.clone()
        });
        self.unanswered_batches.push_back(UnansweredBatch {
            published: None,
            ids: messages.iter().map(|one| one.id.clone()).collect(),
        });
        let bus = Arc::clone(&self.context.bus);
        #[expect(clippy::async_yields_async, reason = "queued is one thing, synced another")]
        let publishing = async move { bus.publish(messages, watch).await };
        self.publishing = Some(Box::pin(publishing));
    }

    pub(super) fn write_receipts(&mut self, receipts: &Receipts) {
        let Some(unanswered) = self.unanswered_batches.pop_front() else {
            return;
        };
        for (receipt, id) in receipts.iter().zip(unanswered.ids) {
            match receipt {
                Ok(receipt) if self.uses_acks => reply::accepted(&mut self.out, receipt),
                Ok(_) => {}
                Err(refusal) if self.uses_acks => {
                    reply::rejected(&mut self.out, Some(&id), reply::reason_code(refusal), refusal);
                }
                Err(refusal) => {
                    reply::error(&mut self.out, "endpoint_not_found", refusal, Some(&id));
                }
            }
        }
    }

    pub(super) fn deliver(&mut self, deliveries: Vec<BusDelivery>) {
        for BusDelivery { position, message, redelivered: again } in deliveries {
            if self.uses_acks {
                frame::encode_with(&mut self.out, |out| {
                    envelope::write_annotated(out, &message.envelope, message.verified, again);
                });
            } else {
                frame::encode(&mut self.out, &message.envelope);
            }
            // The offset in the stream at which this message ends, counted from its start.
            let end = self.sent + (self.out.len() - self.written) as u64;
            self.in_flight.push(message.id, position, end);
        }
    }
}
