//! Sends an answer to the channel of its messages, else to their sender. An answer that cannot be
//! sent is shown on the console; nothing is lost silently.

use std::sync::Arc;

use angelia_core::{
    model::{EndpointName, MessageId, Outcome, Status, bus::Message},
    ports::{Bus, Clock, bus::Refusal},
};
use serde_json::{json, value::to_raw_value};

use crate::{
    bus_rules::Screen,
    chat::{Courier, CourierError},
};

/// The target of a lane's replies. It is part of the lane's key, so it cannot change under a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReplyTo {
    Channel(Arc<str>),
    /// The name that the sender gave, perhaps not a valid endpoint.
    Sender(Arc<str>),
}

/// Sends replies.
#[derive(Clone)]
pub(super) struct Replies {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) courier: Courier,
    pub(super) screen: Arc<dyn Screen>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The reply to a turn's messages.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// The same for the same turn, so that a repeated reply is recognized.
    pub(super) id: String,
    pub(super) endpoint: EndpointName,
    pub(super) to: ReplyTo,
    pub(super) answers: Vec<MessageId>,
    pub(super) status: &'static str,
    pub(super) text: String,
}

/// Returns the text of a reply: the answer, and how the turn ended if it did not complete.
pub(super) fn reply_text(outcome: &Outcome) -> String {
    let text = outcome.text.trim_end();
    let more = match &outcome.status {
        Status::Completed => return text.to_owned(),
        Status::Partial => format!("(stopped early: {})", outcome.reason),
        Status::Interrupted => "(interrupted)".to_owned(),
        Status::Parked { resumes_at } => format!("(waits for a quota until {resumes_at})"),
        Status::Failed(failure) => format!("(failed: {failure})"),
    };
    if text.is_empty() { more } else { format!("{text}\n\n{more}") }
}

impl Replies {
    /// Sends a reply. Returns when it has been delivered to its channel, stored by the bus, or
    /// shown on the console.
    pub(super) async fn send(&self, reply: Reply) {
        if reply.text.is_empty() {
            return;
        }
        let sent = match &reply.to {
            ReplyTo::Channel(channel) => self.to_channel(&reply, channel).await,
            ReplyTo::Sender(name) => self.to_sender(&reply, name).await,
        };
        if let Err(why) = sent {
            let what = format!("cannot send a reply of {}: {why}", reply.endpoint);
            self.screen.remark(&what);
            self.screen.show(&reply.text);
        }
    }

    async fn to_channel(&self, reply: &Reply, channel: &str) -> Result<(), String> {
        let sending = self.courier.send(&reply.id, channel, &reply.text).await;
        let sending = sending.map_err(|error: CourierError| error.to_string())?;
        sending.outcome().await.map_err(|error| error.to_string())
    }

    async fn to_sender(&self, reply: &Reply, name: &str) -> Result<(), String> {
        let to = EndpointName::new(name).map_err(|error| error.to_string())?;
        // A one-shot sender has no endpoint: a message to it would never be read.
        if !self.bus.endpoints().iter().any(|known| known.name == to) {
            return Err(format!("nobody listens as `{to}`"));
        }
        let body = json!({
            "type": "reply",
            "text": reply.text,
            "status": reply.status,
            "in_reply_to": reply.answers,
        });
        let body = to_raw_value(&body).map_err(|error| error.to_string())?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of this century fit into 53 bits"
        )]
        let ts = self.clock.now().as_microsecond() as f64 / 1e6;
        let message = Message::compose(&*reply.id, &reply.endpoint, &to, ts, &body);
        let receipts = self.bus.publish(vec![message], None).await.await;
        let refused = receipts.into_iter().find_map(Result::err);
        refused.map_or(Ok(()), |refusal: Refusal| Err(refusal.to_string()))
    }
}
