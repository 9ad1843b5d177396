//! Sends an answer to the channel of its messages, or else to their sender. If the sender is away,
//! it gets the answer when it listens again. A sender that has never listened, such as a one-shot
//! program, never will: its answer becomes a dead letter. An answer that cannot be sent is also
//! shown on the console.

use std::sync::Arc;

use angelia_core::{
    model::{EndpointName, MessageId, bus::BusMessage},
    ports::{
        Bus, Clock,
        bus::{Presence, PublishError},
    },
};
use jiff::Timestamp;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use crate::{
    bus_rules::Screen,
    chat::{DeliveryError, DeliveryQueue, DeliveryRequest},
};

/// The target of a lane's replies. It is part of the lane's key, so it cannot change before a reply
/// is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReplyTarget {
    Channel(Arc<str>),
    /// The name that the sender gave, which may not be a valid endpoint.
    Sender(Arc<str>),
}

/// Sends replies.
#[derive(Clone)]
pub(super) struct ReplySender {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) delivery_queue: DeliveryQueue,
    pub(super) screen: Arc<dyn Screen>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The reply to the messages of a turn.
#[derive(Clone, Debug)]
pub(super) struct TurnReply {
    /// The same for every attempt of a turn, so that a repeated reply is recognized.
    pub(super) id: String,
    pub(super) endpoint: EndpointName,
    pub(super) to: ReplyTarget,
    pub(super) in_reply_to: Vec<MessageId>,
    pub(super) status: &'static str,
    pub(super) text: String,
}

impl ReplySender {
    /// Sends a reply. Returns once it is delivered to its channel, stored by the bus, or shown on
    /// the console.
    pub(super) async fn send(&self, reply: TurnReply) {
        if reply.text.is_empty() {
            return;
        }
        let sent = match &reply.to {
            ReplyTarget::Channel(channel) => self.send_to_channel(&reply, channel).await,
            ReplyTarget::Sender(name) => self.send_to_sender(&reply, name).await,
        };
        if let Err(why) = sent {
            let what = format!("cannot send a reply of {}: {why}", reply.endpoint);
            self.screen.show_notice(&what);
            self.screen.show(&reply.text);
        }
    }

    async fn send_to_channel(&self, reply: &TurnReply, channel: &str) -> Result<(), String> {
        let answer = DeliveryRequest::markdown(&*reply.id, channel, &*reply.text);
        let sending = self.delivery_queue.deliver(answer).await;
        let sending = sending.map_err(|error: DeliveryError| error.to_string())?;
        sending.outcome().await.map_err(|error| error.to_string())
    }

    async fn send_to_sender(&self, reply: &TurnReply, name: &str) -> Result<(), String> {
        let to = EndpointName::new(name).map_err(|error| error.to_string())?;
        let body = json!({
            "type": "reply",
            "text": reply.text,
            "status": reply.status,
            "in_reply_to": reply.in_reply_to,
        });
        let body = to_raw_value(&body).map_err(|error| error.to_string())?;
        let message = compose(self.clock.now(), &reply.id, &reply.endpoint, &to, &body);
        if self.bus.presence(&to) == Presence::NeverSeen {
            let reason = format!("nobody has ever listened as `{to}`");
            let stored = self.bus.store_dead_letter(message, reason.clone()).await;
            return Err(match stored {
                Ok(()) => format!("{reason}; it is kept (`angelia bus dead`)"),
                Err(error) => format!("{reason}, and it cannot be kept: {error}"),
            });
        }
        publish_one(&*self.bus, message).await
    }
}

pub(crate) fn compose(
    now: Timestamp,
    id: &str,
    from: &EndpointName,
    to: &EndpointName,
    body: &RawValue,
) -> BusMessage {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of this century fit into 53 bits")]
    let ts = now.as_microsecond() as f64 / 1e6;
    BusMessage::compose(id, from, to, ts, body)
}

/// Publishes a message. Returns once the bus has stored it.
pub(crate) async fn publish_one(bus: &dyn Bus, message: BusMessage) -> Result<(), String> {
    let receipts = bus.publish(vec![message], None).await.await;
    let refused = receipts.into_iter().find_map(Result::err);
    refused.map_or(Ok(()), |refusal: PublishError| Err(refusal.to_string()))
}
