//! Output for a client: receipts for its own messages, and messages from others.

use std::sync::Arc;

use angelia_core::{
    model::bus::Message,
    ports::bus::{Delivery, Receipts},
};
use angelia_wire::frame;
use tokio::sync::mpsc;

use super::{Connection, NOTICES, Unanswered};
use crate::bus::{envelope, reply};

impl Connection {
    pub(super) fn publish(&mut self, messages: Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let watch = self.asks.then(|| {
            let watch = self.watch.get_or_insert_with(|| mpsc::channel(NOTICES));
            watch.0.clone()
        });
        self.unanswered.push_back(Unanswered {
            published: None,
            ids: messages.iter().map(|one| one.id.clone()).collect(),
        });
        let bus = Arc::clone(&self.door.bus);
        #[expect(clippy::async_yields_async, reason = "queued is one thing, synced another")]
        let publishing = async move { bus.publish(messages, watch).await };
        self.publishing = Some(Box::pin(publishing));
    }

    pub(super) fn answer(&mut self, receipts: &Receipts) {
        let Some(unanswered) = self.unanswered.pop_front() else {
            return;
        };
        for (receipt, id) in receipts.iter().zip(unanswered.ids) {
            match receipt {
                Ok(receipt) if self.asks => reply::accepted(&mut self.out, receipt),
                Ok(_) => {}
                Err(refusal) if self.asks => {
                    reply::rejected(&mut self.out, Some(&id), reply::reason(refusal), refusal);
                }
                Err(refusal) => {
                    reply::error(&mut self.out, "endpoint_not_found", refusal, Some(&id));
                }
            }
        }
    }

    pub(super) fn deliver(&mut self, deliveries: Vec<Delivery>) {
        for Delivery { position, message, again } in deliveries {
            if self.asks {
                frame::put_with(&mut self.out, |out| {
                    envelope::annotated(out, &message.envelope, message.verified, again);
                });
            } else {
                frame::put(&mut self.out, &message.envelope);
            }
            // The offset in the stream at which this message ends, counted from its start.
            let end = self.sent + (self.out.len() - self.written) as u64;
            self.handing.put(message.id, position, end);
        }
    }
}
